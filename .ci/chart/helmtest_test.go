package chart

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestHelmTest: the pod of helm test succeeds where weir answers through the service, with and without
// TLS, and fails where it does not.
func TestHelmTest(t *testing.T) {
	a := newAuthority(t)
	for name, values := range map[string][]string{
		"plain":      nil,
		"tls":        {"tls.existingSecret=weir-tls"},
		"mutual tls": {"tls.existingSecret=weir-tls", "tls.requireClientCertificate=true"},
	} {
		t.Run(name, func(t *testing.T) {
			r := render(t, with(values...)...)
			r.check(t)
			w := startWeir(t, r.only(t), startPlane(t, t.TempDir()), a)
			await(t, "ready", func() error { return get("http://" + w.probes + "/readyz") })
			if len(r.tests) != 1 || r.tests[0].Annotations["helm.sh/hook"] != "test" {
				t.Fatalf("helm test has %+v", r.tests)
			}
			args := r.tests[0].Spec.Containers[0].Args
			if !slices.Contains(args, "--from=weir.mesh.svc:18080") {
				t.Fatalf("it asks %q", args)
			}
			dir := a.issue(t.TempDir())
			ask := func(address string) ([]byte, error) {
				here := strings.NewReplacer("/etc/weir/tls", dir, "weir.mesh.svc:18080", address, "30s", "5s").Replace(strings.Join(args, "\n"))
				return exec.Command(tool(t, "WEIR", "weir"), strings.Split(here, "\n")...).CombinedOutput()
			}
			if out, err := ask(w.address(0)); err != nil {
				t.Errorf("%q: %v\n%s", args, err, out)
			}
			if out, err := ask(free(t)); err == nil {
				t.Errorf("nobody answers, and it succeeds: %s", out)
			}
		})
	}
	for name, values := range map[string][]string{
		"off": {"test.enabled=false"}, "no service": {"service.enabled=false"}, "a socket alone": {"config.listeners[0].address=unix:///x"},
	} {
		if r := render(t, with(values...)...); len(r.tests) != 0 {
			t.Errorf("%s: there is a pod", name)
		}
	}
	r := render(t, with("tls.existingSecret=x", "test.ca=system", "test.serverName=xds.corp", "test.extraArgs={--node-cluster=edge}")...)
	args := r.tests[0].Spec.Containers[0].Args
	if text := strings.Join(args, " "); !strings.Contains(text, "--server-name=xds.corp --node-cluster=edge") || strings.Contains(text, "--ca=") {
		t.Errorf("the values give %q", args)
	}
}
