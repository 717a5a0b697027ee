package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bed is a namespace with a release.
type bed struct {
	t         *testing.T
	namespace string
	ca        *authority // of weir's own certificates, and of its clients'
}

// newBed makes a namespace whose pods are restricted.
func newBed(t *testing.T, namespace string) *bed {
	t.Helper()
	need(t)
	labels := map[string]string{}
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	_, err := cluster.core.Namespaces().Create(context.Background(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, namespace: namespace, ca: newAuthority(t)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the pods of %s:\n%s", namespace, cluster.logs(namespace))
		}
		b.clear()
	})
	return b
}

// clear ends everything in the namespace.
func (b *bed) clear() {
	err := cluster.core.Namespaces().Delete(context.Background(), b.namespace, metav1.DeleteOptions{})
	if err != nil {
		b.t.Error(err)
	}
}

// secret makes a secret, or replaces it.
func (b *bed) secret(name string, data map[string][]byte) {
	b.t.Helper()
	kind := corev1.SecretTypeOpaque
	if data["tls.crt"] != nil {
		kind = corev1.SecretTypeTLS
	}
	secrets := cluster.core.Secrets(b.namespace)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: data}
	_, err := secrets.Create(context.Background(), s, metav1.CreateOptions{})
	if err != nil {
		_, err = secrets.Update(context.Background(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// configMap makes a ConfigMap.
func (b *bed) configMap(name string, data map[string]string, binary map[string][]byte) {
	b.t.Helper()
	_, err := cluster.core.ConfigMaps(b.namespace).Create(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data, BinaryData: binary,
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
}

// names are those by which clients may know a release in the namespace. By the first one its pods
// know each other.
func (b *bed) names(release string) []string {
	names := []string{release + "." + b.namespace + ".svc"}
	for _, service := range []string{release, release + "-headless", "*." + release + "-headless", release + "-external"} {
		for _, end := range []string{"", "." + b.namespace, "." + b.namespace + ".svc", "." + b.namespace + ".svc.cluster.local"} {
			names = append(names, service+end)
		}
	}
	return names
}

// helm runs a command of helm on the namespace. It may print no warning.
func (b *bed) helm(args ...string) string {
	b.t.Helper()
	out, err := b.tryHelm(args...)
	if err != nil {
		b.t.Fatalf("helm %v: %v", args, err)
	}
	return out
}

// warning is one of the API server's, or of helm's own.
var warning = regexp.MustCompile(`(?i)^W\d{4} |warn|would violate`)

func (b *bed) tryHelm(args ...string) (string, error) {
	b.t.Helper()
	args = append(args, "--namespace", b.namespace, "--kubeconfig", cluster.kubeconfig())
	cmd := exec.Command(filepath.Join(program("KUBE", "bin/kube"), "helm"), args...)
	home := b.t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begin := time.Now()
	err := cmd.Run()
	b.t.Logf("helm %s %s: %v", args[0], b.namespace, time.Since(begin).Round(10*time.Millisecond))
	for line := range strings.Lines(errs.String()) {
		// That a watch ended is said as information, and is how helm ends one.
		if warning.MatchString(line) && !strings.Contains(line, "reflector.go") {
			b.t.Errorf("helm %v warns: %s", args, line)
		}
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s%s", err, out.String(), errs.String())
	}
	return out.String(), err
}

// set are flags that put a value at a path of the values.
func set(path string, value any) []string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return []string{"--set-json", path + "=" + string(text)}
}

// flags joins flags.
func flags(all ...[]string) (joined []string) {
	for _, f := range all {
		joined = append(joined, f...)
	}
	return joined
}

// wait has helm wait until everything is ready.
func wait() []string { return []string{"--wait", "--timeout", patience.String()} }

// pods are the names of the pods of the namespace that are ready.
func (b *bed) pods() []string { return cluster.ready(b.namespace) }

// service is an address of a service's port, as its name is resolved.
func (b *bed) service(name string, port int) string {
	b.t.Helper()
	addresses := cluster.lookup(name + "." + b.namespace + ".svc.cluster.local")
	if len(addresses) == 0 {
		b.t.Fatalf("nothing is known of the service %s", name)
	}
	return fmt.Sprintf("%s:%d", addresses[rand.IntN(len(addresses))], port)
}

// uids tell the pods of the namespace apart, also those that are about to end.
func (b *bed) uids() (uids []string) {
	b.t.Helper()
	pods, err := cluster.core.Pods(b.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range pods.Items {
		uids = append(uids, string(pods.Items[i].UID))
	}
	return uids
}

// replaced has no error if so many pods are ready and none of the old ones is there. They are told
// apart by their uids: a pod of a StatefulSet has the name of its predecessor.
func (b *bed) replaced(replicas int, before []string) error {
	if now := b.pods(); len(now) != replicas {
		return fmt.Errorf("ready are %v", now)
	}
	now := b.uids()
	if slices.ContainsFunc(before, func(old string) bool { return slices.Contains(now, old) }) {
		return errors.New("an old pod is there")
	}
	return nil
}
