package chart

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// authority signs what a test needs: tls.crt, tls.key and ca.crt, as a secret of Kubernetes has
// them.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = template, a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

// issue fills a directory, for 127.0.0.1 and the names of the examples.
func (a *authority) issue(dir string) string {
	a.t.Helper()
	key := a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"weir.mesh.svc", "control-plane.mesh.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		a.t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"ca.crt": a.pem, "tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return dir
}

// flags make a command of weir show a certificate.
func (a *authority) flags() []string {
	dir := a.issue(a.t.TempDir())
	return []string{"--ca", dir + "/ca.crt", "--cert", dir + "/tls.crt", "--key", dir + "/tls.key"}
}

// weirRun is a weir in a process of its own.
type weirRun struct {
	t         *testing.T
	cmd       *exec.Cmd
	log       bytes.Buffer
	done      chan struct{}
	listeners []map[string]any // of its file, with their ports
	probes    string
	seed      string // where siblings ask
}

// startWeir runs a weir.yaml whose directories are below dir, on ports that are free, with an
// origin at an address, and with siblings. Secrets are where the file has them, of the authority.
func startWeir(t *testing.T, text, origin string, a *authority, siblings ...*weirRun) *weirRun {
	t.Helper()
	dir := t.TempDir()
	for _, mount := range []string{"tls", "edge", "origin", "region", "seed"} {
		a.issue(filepath.Join(dir, "etc", mount))
	}
	keys := base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n" // all have the same
	for _, mount := range []string{"tickets", "snapshot"} {
		if err := os.MkdirAll(filepath.Join(dir, "etc", mount), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "etc", mount, "keys"), []byte(keys), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text = strings.NewReplacer("/etc/weir/", dir+"/etc/", "/var/lib/weir/", dir+"/lib/").Replace(text)
	tree := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	w := &weirRun{t: t, done: make(chan struct{}), probes: free(t)}
	for _, l := range tree["listeners"].([]any) {
		l := l.(map[string]any)
		l["address"] = free(t)
		w.listeners = append(w.listeners, l)
	}
	for _, o := range tree["origins"].([]any) {
		grpc := o.(map[string]any)["grpc"].(map[string]any)
		grpc["addresses"] = []string{origin}
	}
	cache, _ := tree["cache"].(map[string]any)
	if seed, ok := cache["seed"].(map[string]any); ok {
		peers := []string{}
		for _, s := range siblings {
			peers = append(peers, s.seed)
		}
		w.seed = free(t)
		seed["listen"], seed["peers"] = w.seed, peers
	}
	tree["admin"], tree["probes"] = map[string]any{"address": free(t)}, map[string]any{"address": w.probes}
	timing, _ := tree["timing"].(map[string]any)
	if timing == nil {
		timing = map[string]any{}
	}
	timing["drain"] = "1s"
	tree["timing"] = timing
	changed, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	return w.start("run", "--config", file)
}

// start is until the test ends, which ends the process in order.
func (w *weirRun) start(args ...string) *weirRun {
	w.t.Helper()
	w.cmd = exec.Command(tool(w.t, "WEIR", "weir"), args...)
	w.cmd.Env = append(os.Environ(), "CONTROL_PLANE_TOKEN=sample")
	w.cmd.Stderr = &w.log
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = w.cmd.Wait() // ProcessState has it
		close(w.done)
	}()
	w.t.Cleanup(func() {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-w.done:
		case <-time.After(patience):
			w.t.Error("weir does not end")
			_ = w.cmd.Process.Kill()
			<-w.done
		}
		if code := w.cmd.ProcessState.ExitCode(); code != 0 {
			w.t.Errorf("weir ended with %d", code)
		}
		if w.t.Failed() {
			w.t.Logf("%v said\n%s", w.cmd.Args, w.log.String())
		}
	})
	return w
}

// address is of a listener.
func (w *weirRun) address(i int) string { return w.listeners[i]["address"].(string) }

// asks are the flags with which a listener admits somebody, and whether without them it admits
// nobody.
func (w *weirRun) asks(i int, a *authority) (flags []string, certificate bool) {
	tls, _ := w.listeners[i]["tls"].(map[string]any)
	if tls == nil {
		return nil, false
	}
	return a.flags(), tls["client_ca"] != nil
}

// gets has a client ask a listener for what the control plane has.
func (w *weirRun) gets(i int, flags ...string) error {
	args := append([]string{"get", "cds", "--from", w.address(i), "--timeout", "5s"}, flags...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, tool(w.t, "WEIR", "weir"), args...).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("from-the-plane")) {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// secureOrigin says whether the file asks for TLS upstream.
func secureOrigin(t *testing.T, text string) bool {
	t.Helper()
	var file struct {
		Origins []struct{ GRPC struct{ TLS map[string]any } }
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	return file.Origins[0].GRPC.TLS != nil
}

// TestValuesServe: what each values file comes to serves a client at each of its listeners, and one
// that asks for a certificate serves nobody without. Its control plane speaks TLS if the file says
// so.
func TestValuesServe(t *testing.T) {
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			a := newAuthority(t)
			text := render(t, "--values", f).only(t)
			plane := startPlane(t, t.TempDir())
			if secureOrigin(t, text) {
				front := startWeir(t, `
listeners: [{ address: x, tls: { cert: /etc/weir/origin/tls.crt, key: /etc/weir/origin/tls.key } }]
origins: [{ name: plane, grpc: {} }]
instance: front
`, plane, a)
				await(t, "the control plane", func() error { return front.gets(0, a.flags()...) })
				plane = front.address(0)
			}
			w := startWeir(t, text, plane, a)
			for i := range w.listeners {
				flags, certificate := w.asks(i, a)
				await(t, fmt.Sprint("listener ", i), func() error { return w.gets(i, flags...) })
				if certificate && w.gets(i, "--ca", flags[1]) == nil {
					t.Errorf("listener %d serves who shows no certificate", i)
				}
			}
			await(t, "ready", func() error { return get("http://" + w.probes + "/readyz") })
		})
	}
}

// TestTiers: the weir of edge.yaml is a client of that of tiers.yaml at the port that is open to
// the outside, and of no other.
func TestTiers(t *testing.T) {
	inside := render(t, "--values", examples+"/tiers.yaml")
	outer := render(t, "--values", examples+"/edge.yaml").only(t)
	external := inside.services["weir-external"]
	if external == nil || len(external.Spec.Ports) != 1 {
		t.Fatalf("the inner weir is open to the outside by %+v", external)
	}
	if want := fmt.Sprintf(":%d", external.Spec.Ports[0].Port); !strings.Contains(outer, want) {
		t.Errorf("the outer one asks another port than %s:\n%s", want, outer)
	}
	a := newAuthority(t)
	plane := startPlane(t, t.TempDir())
	inner := startWeir(t, inside.only(t), plane, a)
	edge := startWeir(t, outer, inner.address(1), a)
	flags, _ := edge.asks(0, a)
	await(t, "a client of the edge", func() error { return edge.gets(0, flags...) })
}

// TestTickets: pods of a release with ticket keys take up each other's sessions; those of one
// without do not.
func TestTickets(t *testing.T) {
	for _, shared := range []bool{false, true} {
		args := append(origin[:len(origin):len(origin)], "--set", "tls.existingSecret=x", "--set", "tls.requireClientCertificate=true")
		if shared {
			args = append(args, "--set", "tls.tickets.existingSecret=weir-tickets")
		}
		r := render(t, args...)
		mounted := false
		for _, v := range r.template.Spec.Volumes {
			mounted = mounted || v.Name == "tickets" && v.Secret.SecretName == "weir-tickets"
		}
		if mounted != shared || strings.Contains(r.only(t), "tickets: /etc/weir/tickets/keys") != shared {
			t.Fatalf("with keys: %v; the secret is mounted: %v, and the file is\n%s", shared, mounted, r.only(t))
		}
		a := newAuthority(t)
		plane, dir := startPlane(t, t.TempDir()), a.issue(t.TempDir())
		pair, err := tls.LoadX509KeyPair(dir+"/tls.crt", dir+"/tls.key")
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(a.pem)
		client := &tls.Config{
			RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair},
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
		}
		for i := range 2 {
			pod := startWeir(t, r.only(t), plane, a)
			await(t, "a client of a pod", func() error {
				conn, err := tls.Dial("tcp", pod.address(0), client)
				if err != nil {
					return err
				}
				defer conn.Close()
				if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
					return err
				}
				if _, err := conn.Read(make([]byte, 1)); err != nil { // its settings, after the ticket
					return err
				}
				if got, want := conn.ConnectionState().DidResume, shared && i > 0; got != want {
					t.Errorf("with keys: %v; at pod %d the session is taken up: %v", shared, i, got)
				}
				return nil
			})
		}
	}
}

// TestOutside: what others can reach asks for a client certificate, and is no port for operators.
func TestOutside(t *testing.T) {
	certified := []string{"--set", "tls.existingSecret=x", "--set", "tls.requireClientCertificate=true"}
	with := func(extra ...string) []string { return append(with(), extra...) }

	r := render(t, with(append(certified, "--set", "service.type=LoadBalancer")...)...)
	if ports := r.service.Spec.Ports; len(ports) != 1 || ports[0].Name != "xds" {
		t.Errorf("a load balancer has %+v", ports)
	}
	r = render(t, with("--set", "service.type=NodePort", "--set", "service.insecure=true")...)
	if ports := r.service.Spec.Ports; len(ports) != 1 {
		t.Errorf("with insecure it has %+v", ports)
	}
	r = render(t, with(append(certified, "--set", "externalService.enabled=true", "--set", "externalService.listeners={0}",
		"--set", "externalService.loadBalancerSourceRanges={10.0.0.0/8}")...)...)
	external := r.services["weir-external"]
	if external == nil || len(external.Spec.Ports) != 1 || external.Spec.Ports[0].Port != 18080 || external.Spec.Type != "LoadBalancer" ||
		len(external.Spec.LoadBalancerSourceRanges) != 1 {
		t.Errorf("the external service is %+v", external)
	}
	if r.service.Spec.Type != "ClusterIP" || len(r.service.Spec.Ports) != 1 {
		t.Errorf("the other one is %+v", r.service.Spec)
	}
	for want, values := range map[string][]string{
		"config.listeners[0] asks for no client certificate": with("--set", "service.type=LoadBalancer"),
		"asks for no client certificate":                     with("--set", "service.type=NodePort", "--set", "tls.existingSecret=x"),
		"config.listeners[0] asks for no":                    with("--set", "externalService.enabled=true", "--set", "externalService.listeners={0}"),
		"externalService.listeners: name at least one":       with("--set", "externalService.enabled=true"),
		"there is no config.listeners[3]":                    with("--set", "externalService.enabled=true", "--set", "externalService.listeners={3}"),
	} {
		if _, errs, err := helm(t, append([]string{"template", "weir", chart}, values...)...); err == nil || !strings.Contains(errs, want) {
			t.Errorf("%v: %v, %s, want %q", values, err, errs, want)
		}
	}
}

// TestUnitServes: what the unit starts, with its own arguments, takes a file, a reload and an end.
func TestUnitServes(t *testing.T) {
	text, err := os.ReadFile(root + "/deploy/systemd/weir.service")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plane, listener := startPlane(t, t.TempDir()), free(t)
	config := fmt.Sprintf("listeners: [{ address: %q }]\norigins: [{ name: mesh, grpc: { addresses: [%q] } }]\nadmin: { address: %q }\n"+
		"timing: { drain: 1s }\ncache: { snapshot: { path: /var/lib/weir/snapshot } }\n", listener, plane, free(t))
	config = strings.ReplaceAll(config, "/var/lib/weir", dir)
	if err := os.WriteFile(dir+"/weir.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	line := func(key string) []string {
		t.Helper()
		_, after, found := strings.Cut(string(text), "\n"+key+"=")
		command, _, _ := strings.Cut(after, "\n")
		if !found {
			t.Fatalf("the unit has no %s", key)
		}
		return strings.Fields(strings.NewReplacer("/etc/weir/", dir+"/", "/var/lib/weir", dir).Replace(command))
	}
	before, run, reload := line("ExecStartPre"), line("ExecStart"), line("ExecReload")
	// which is that its failure is none of the unit's
	before[0] = strings.TrimPrefix(before[0], "-")
	if before[0] != "/usr/local/bin/weir" || run[0] != before[0] {
		t.Fatalf("the unit starts %s and %s", before[0], run[0])
	}
	if out, err := exec.Command(tool(t, "WEIR", "weir"), before[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", before, err, out)
	}
	w := &weirRun{t: t, done: make(chan struct{}), listeners: []map[string]any{{"address": listener}}}
	w.start(run[1:]...)
	await(t, "a client", func() error { return w.gets(0) })
	for i := range reload {
		reload[i] = strings.ReplaceAll(reload[i], "$MAINPID", fmt.Sprint(w.cmd.Process.Pid))
	}
	if out, err := exec.Command(reload[0], reload[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", reload, err, out)
	}
	await(t, "a client after the reload", func() error { return w.gets(0) })
}
