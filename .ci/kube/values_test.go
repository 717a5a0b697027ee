package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestDefaults: the chart as it is needs an origin and no more.
func TestDefaults(t *testing.T) {
	t.Parallel()
	b := newBed(t, "defaults")
	newOrigin(t, b.namespace, pair(t, b.ca.issue("control-plane")), "control-plane")
	type object = map[string]any
	b.helm(flags([]string{"install", "weir", chart}, wait(), set("config.origins", []any{
		object{"name": "mesh", "grpc": object{"addresses": []string{"control-plane:18000"}}},
	}))...)
	if pods := b.pods(); len(pods) != 2 {
		t.Errorf("ready are %v", pods)
	}
	b.serves("as it is", asked{"weir", 18080, nil})
	if text := b.helm("test", "weir"); !strings.Contains(text, "Succeeded") {
		t.Errorf("helm test: %s", text)
	}
}

// asked is how a listener is asked: its service and port, and the authority of its certificates.
type asked struct {
	service string
	port    int
	ca      *authority // nil: plain text
}

// serves waits until a client of each listener has everything, and one without a certificate has no
// stream.
func (b *bed) serves(step string, listeners ...asked) {
	b.t.Helper()
	for _, l := range listeners {
		address := b.service(l.service, l.port)
		var config *tls.Config
		if l.ca != nil {
			config = &tls.Config{
				RootCAs: l.ca.pool(), ServerName: l.service + "." + b.namespace + ".svc",
				Certificates: []tls.Certificate{pair(b.t, l.ca.issue("client"))},
			}
			stranger := connect(b.t, address, "stranger", &tls.Config{RootCAs: l.ca.pool(), ServerName: config.ServerName})
			defer func() {
				if stranger.whole() == nil {
					b.t.Errorf("%s: %s:%d serves who shows no certificate", step, l.service, l.port)
				}
				stranger.close()
			}()
		}
		c := connect(b.t, address, "client", config)
		await(b.t, step+": a client of "+address, c.whole)
		c.close()
	}
}

// lifecycle installs a release, upgrades it and takes it back. Each step replaces every pod, is
// waited for by helm, and is followed by clients and by helm test.
func (b *bed) lifecycle(replicas int, install []string, listeners ...asked) {
	b.t.Helper()
	var before []string
	for _, step := range [][]string{
		flags([]string{"install", "weir", chart}, install, wait()),
		flags([]string{"upgrade", "weir", chart}, install, set("podAnnotations", map[string]string{"round": "2"}), wait()),
		flags([]string{"rollback", "weir", "1"}, wait()),
	} {
		b.helm(step...)
		await(b.t, "after "+step[0]+" no old pod runs", func() error { return b.replaced(replicas, before) })
		before = b.uids()
		b.serves(step[0], listeners...)
		if text := b.helm("test", "weir"); !strings.Contains(text, "Succeeded") {
			b.t.Errorf("helm test: %s", text)
		}
	}
}

// TestValueSets: each value set of deploy is installed, upgraded and taken back, as it is, before a
// control plane that speaks TLS to those who do.
func TestValueSets(t *testing.T) {
	t.Parallel()
	m := newBed(t, "mesh")
	newOrigin(t, m.namespace, pair(t, m.ca.issue("control-plane.mesh.svc")), "control-plane", "control-plane-standby")
	for name, set := range map[string]func(*testing.T, *bed){"regional": regional, "tiers": tiers, "sidecar": sidecar} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set(t, m)
		})
	}
}

// regional is one weir for a region.
func regional(t *testing.T, m *bed) {
	b := newBed(t, "regional")
	b.secret("weir-tls", b.ca.issue(b.names("weir")...))
	b.secret("control-plane", map[string][]byte{"token": []byte("sample")})
	b.configMap("control-plane-ca", map[string]string{"ca.crt": string(m.ca.pem)}, nil)
	b.lifecycle(3, []string{"--values", examples + "/regional.yaml"}, asked{"weir", 18080, b.ca})
}

// tiers are the region's weir, and an edge's behind it, which begins with a seed.
func tiers(t *testing.T, _ *bed) {
	outside := newAuthority(t)
	inner, edge := newBed(t, "tiers"), newBed(t, "edge")
	inner.secret("weir-tls", inner.ca.issue(inner.names("weir")...))
	const name = "weir.eu-west.example.com"
	inner.secret("weir-edge-tls", outside.issue(append(inner.names("weir"), name)...))
	inner.lifecycle(3, []string{"--values", examples + "/tiers.yaml"},
		asked{"weir", 18080, inner.ca}, asked{"weir-external", 18443, outside})

	address, _, _ := strings.Cut(inner.service("weir-external", 18443), ":")
	cluster.name(name, address)
	edge.secret("weir-tls", edge.ca.issue(edge.names("weir")...))
	edge.secret("weir-region-tls", outside.issue("weir-edge-ams"))
	values := []string{"--values", examples + "/edge.yaml"}
	edge.helm(flags([]string{"install", "weir", chart}, values, []string{"--set", "snapshot.seed=null"}, wait())...)
	edge.configMap("weir-seed", nil, map[string][]byte{"seed.weir": []byte(edge.seed())})
	edge.helm("uninstall", "weir", "--wait")
	edge.lifecycle(2, values, asked{"weir", 18080, edge.ca})
}

// seed is an export of what a pod has on its disk, once that is everything.
func (b *bed) seed() string {
	b.t.Helper()
	b.serves("before the seed", asked{"weir", 18080, b.ca})
	text := ""
	await(b.t, "an export of the snapshot", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, pod := range b.pods() {
			out, err := cluster.exec(ctx, b.namespace, pod, "weir", "/weir", "snapshot", "export", "-", "--path", "/var/lib/weir/snapshot")
			if err == nil && len(out) > len(text) { // one that had no client has none yet
				text = out
			}
		}
		if least := clusters * len("cluster-000"); len(text) < least {
			return fmt.Errorf("it has %d bytes", len(text))
		}
		return nil
	})
	return text
}

// sidecar is the manifest of a weir beside a real Envoy, in one pod.
func sidecar(t *testing.T, _ *bed) {
	b := newBed(t, "sidecar")
	text, err := os.ReadFile(root + "/deploy/kubernetes/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ctx, d := context.Background(), (*appsv1.Deployment)(nil)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch object := object.(type) {
		case *corev1.ConfigMap:
			_, err = cluster.core.ConfigMaps(b.namespace).Create(ctx, object, metav1.CreateOptions{FieldValidation: "Strict"})
		case *appsv1.Deployment:
			d = object
			_, err = cluster.apps.Deployments(b.namespace).Create(ctx, object, metav1.CreateOptions{FieldValidation: "Strict"})
		default:
			t.Fatalf("the manifest has a %T", object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if warnings := cluster.warnings(); warnings != "" {
		t.Errorf("the API server warns: %s", warnings)
	}
	b.proxies(d, "after the install")
	for _, round := range []string{"2", "1"} { // an upgrade, and the way back
		patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"round":%q}}}}}`, round)
		if _, err := cluster.apps.Deployments(b.namespace).Patch(ctx, d.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		b.proxies(d, "after round "+round)
	}
}

// proxies waits until a Deployment has rolled out and the Envoy of each pod answers.
func (b *bed) proxies(d *appsv1.Deployment, step string) {
	b.t.Helper()
	await(b.t, step+": the roll-out", func() error {
		now, err := cluster.apps.Deployments(b.namespace).Get(context.Background(), d.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s, replicas := now.Status, *now.Spec.Replicas
		if s.ObservedGeneration < now.Generation || s.UpdatedReplicas != replicas || s.ReadyReplicas != replicas || s.Replicas != replicas {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	pods, err := cluster.core.Pods(b.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil {
			within(b.t, 2*time.Second, step+": a request to the Envoy of "+p.Name, func() error {
				word, err := fetch(fmt.Sprintf("http://%s:%d/", p.Status.PodIP, envoyPort))
				if err == nil && word != "first" {
					err = fmt.Errorf("it answers %q", word)
				}
				return err
			})
		}
	}
}
