package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// TestExamples: each value set passes helm lint, and is whole. Where it takes certificates, clients show
// theirs, and pods ask each other.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			if out, errs, err := helm(t, "lint", "--strict", chart, "--values", f); err != nil {
				t.Errorf("helm lint: %v\n%s%s", err, out, errs)
			}
			r := render(t, "--values", f)
			r.check(t)
			for i, l := range r.listeners(t) {
				if l.TLS["client_ca"] == nil {
					t.Errorf("listener %d asks for no certificate", i)
				}
			}
			if r.seed(t).Listen == "" || len(r.tests) != 1 {
				t.Errorf("pods do not ask each other, or there is no helm test: %+v, %v", r.seed(t), r.tests)
			}
			render(t, "--values", f, "--set", "workload.kind=DaemonSet").check(t)
		})
	}
}

func TestPlainManifests(t *testing.T) {
	files, err := filepath.Glob(root + "/deploy/kubernetes/*.yaml")
	if err != nil || len(files) < 1 {
		t.Fatalf("manifests: %v, %v", files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			read(t, string(text)).check(t)
		})
	}
}

func TestDefaults(t *testing.T) {
	r := render(t, origin...)
	r.check(t)
	if b := object[*policyv1.PodDisruptionBudget](t, r); b == nil || b.Spec.MaxUnavailable.IntValue() != 1 || *b.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
		t.Errorf("the disruption budget is %+v", b)
	}
	if r.service.Spec.Ports[0].Port != 18080 || *r.deployment.Spec.Replicas != 2 {
		t.Errorf("service %+v, replicas %d", r.service.Spec.Ports, *r.deployment.Spec.Replicas)
	}
	if c := r.weir(t); c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" {
		t.Errorf("probes %+v, %+v", c.ReadinessProbe, c.LivenessProbe)
	}
	for name, text := range r.configs {
		if !strings.Contains(text, "path: /var/lib/weir/snapshot") {
			t.Errorf("%s has no snapshot:\n%s", name, text)
		}
	}
}

// TestLastGood: where there is a volume, a refused weir.yaml keeps no container from restarting,
// and the directory is one that is mounted.
func TestLastGood(t *testing.T) {
	const flag = "--last-good=/var/lib/weir"
	sidecar, err := os.ReadFile(root + "/deploy/kubernetes/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*release{"chart": render(t, origin...), "sidecar": read(t, string(sidecar))} {
		c := r.weir(t)
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/var/lib/weir" && !m.ReadOnly })
		if !slices.Contains(c.Args, flag) || !mounted {
			t.Errorf("%s: %q, %+v", name, c.Args, c.VolumeMounts)
		}
	}
	if c := render(t, append(origin, "--set", "snapshot.enabled=false")...).weir(t); slices.Contains(c.Args, flag) {
		t.Errorf("without a volume: %q", c.Args)
	}
	unit, err := os.ReadFile(root + "/deploy/systemd/weir.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\nExecStartPre=-/usr/local/bin/weir validate ", " " + flag + "\n", "\nStateDirectory=weir\n"} {
		if !strings.Contains(string(unit), line) {
			t.Errorf("the unit lacks %q", line)
		}
	}
}

// A pod is given more time to end than its streams take.
func TestGracePeriod(t *testing.T) {
	for drain, want := range map[string]int64{"30s": 45, "1m30s": 105, "1500ms": 17, "1h": 3615, "0s": 15} {
		r := render(t, with("config.timing.drain="+drain)...)
		if got := *r.template.Spec.TerminationGracePeriodSeconds; got != want {
			t.Errorf("drain %s: %d s, want %d", drain, got, want)
		}
	}
}

func TestToggles(t *testing.T) {
	for name, extra := range map[string][]string{
		"no snapshot":    {"snapshot.enabled=false"},
		"claim":          {"snapshot.volume.persistentVolumeClaim.claimName=weir", "replicas=1"},
		"tls":            {"tls.existingSecret=weir-tls"},
		"mutual tls":     {"tls.existingSecret=weir-tls", "tls.requireClientCertificate=true"},
		"tickets":        {"tls.existingSecret=weir-tls", "tls.tickets.existingSecret=weir-tickets"},
		"crl":            {"tls.existingSecret=weir-tls", "tls.requireClientCertificate=true", "tls.crl.existingConfigMap=crl"},
		"headless":       {"service.headless=true"},
		"stateful":       {"workload.kind=StatefulSet"},
		"without claims": {"workload.kind=StatefulSet", "snapshot.enabled=false"},
		"daemon":         {"workload.kind=DaemonSet"},
		"open admin":     {"config.admin.address=0.0.0.0:19080", "config.admin.insecure=true"},
		"spiffe":         {"spiffe.enabled=true", "config.origins[0].grpc.tls.server_identity=spiffe://corp/plane"},
		"certificate":    {"certificate.enabled=true", "certificate.issuerRef.name=ca", "tls.requireClientCertificate=true"},
		"no services":    {"service.enabled=false", "metricsService.enabled=false"},
		"placed":         {"priorityClassName=high", "runtimeClassName=gvisor", "dnsPolicy=None", "dnsConfig.nameservers={10.0.0.1}", "schedulerName=own"},
		"socket alone":   {"config.listeners[0].address=unix:///run/weir.sock"},
		"one replica":    {"replicas=1"},
		"two listeners":  {"config.listeners[0].address=0.0.0.0:18080", "config.listeners[1].address=0.0.0.0:18081"},
		"socket":         {"config.listeners[0].address=unix:///run/weir.sock", "config.listeners[1].address=0.0.0.0:18081"},
		"no probes":      {"config.probes.address="},
		"no account":     {"serviceAccount.create=false"},
		"digest":         {"image.digest=sha256:" + strings.Repeat("0", 64)},
		"no limits":      {"resources.limits=null"},
		"restart":        {"restartOnConfigChange=true"},
		"seed":           {"snapshot.seed.configMap.name=seed"},
		"snapshot key":   {"snapshot.key.existingSecret=weir-snapshot-key"},
		"labels":         {"commonLabels.team=edge", "podLabels.x=y", "podAnnotations.a=b", "nodeSelector.pool=edge"},
		"other fullname": {"fullnameOverride=relay"},
	} {
		t.Run(name, func(t *testing.T) {
			render(t, with(extra...)...).check(t)
		})
	}
}

func TestTLS(t *testing.T) {
	r := render(t, append(origin, "--set", "tls.existingSecret=weir-tls", "--set", "tls.requireClientCertificate=true")...)
	for _, text := range r.configs {
		for _, want := range []string{"cert: /etc/weir/tls/tls.crt", "key: /etc/weir/tls/tls.key", "client_ca: /etc/weir/tls/ca.crt", `min_version: "1.3"`} {
			if !strings.Contains(text, want) {
				t.Errorf("weir.yaml lacks %q:\n%s", want, text)
			}
		}
	}
	revoking := render(t, append(origin, "--set", "tls.existingSecret=weir-tls", "--set", "tls.requireClientCertificate=true",
		"--set", "tls.crl.existingConfigMap=lists")...)
	mounted := slices.ContainsFunc(revoking.template.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == "crl" && v.ConfigMap != nil && v.ConfigMap.Name == "lists"
	})
	if text := revoking.only(t); !mounted || !strings.Contains(text, "crl: /etc/weir/crl/crl.pem") {
		t.Errorf("the CRLs are mounted: %v, and weir.yaml is\n%s", mounted, text)
	}
	old := render(t, append(origin, "--set", "tls.existingSecret=weir-tls", "--set-string", "tls.minVersion=1.2")...)
	old.check(t)
	for _, text := range old.configs {
		if !strings.Contains(text, `min_version: "1.2"`) {
			t.Errorf("TLS 1.2 is not taken:\n%s", text)
		}
	}
	if r.service.Spec.Ports[0].AppProtocol != nil {
		t.Errorf("the port has TLS and is called %s", *r.service.Spec.Ports[0].AppProtocol)
	}
}

// What a running weir takes up by itself does not roll the pods; what it cannot take up does.
func TestRestartKey(t *testing.T) {
	key := func(extra ...string) string {
		return render(t, append(origin[:len(origin):len(origin)], extra...)...).template.Annotations["weir-xds.github.io/restart-key"]
	}
	before := key()
	if before == "" || before != key("--set", "config.limits.streams=7") {
		t.Error("a limit rolls the pods")
	}
	if before == key("--set", "config.listeners[0].address=0.0.0.0:18090") {
		t.Error("another port does not roll the pods")
	}
	if before == key("--set", "config.timing.keepalive.time=60s") || before == key("--set", "config.log.format=console") {
		t.Error("what needs a restart does not roll the pods")
	}
	if before == key("--set", "restartOnConfigChange=true", "--set", "config.limits.streams=7") {
		t.Error("restartOnConfigChange does nothing")
	}
}

func TestRefused(t *testing.T) {
	for value, want := range map[string]string{
		"replcas=3":                       "replcas",
		"snapshot.enbled=true":            "enbled",
		"replicas=many":                   "replicas",
		"image.pullPolicy=Sometimes":      "pullPolicy",
		"resources.limits.memory=lots":    "resources.limits.memory",
		"config.listeners=null":           "listeners",
		"service.type=Loadbalancer":       "type",
		"terminationMarginSeconds=1":      "terminationMarginSeconds",
		"snapshot.seed=seed":              "seed",
		"tls.minVersion=old":              "minVersion",
		"tls.tickets.key=x":               "tickets",
		"tls.tickets.existingSecret=x":    "tls.tickets.existingSecret needs tls.existingSecret",
		"tls.crl.existingConfigMap=x":     "tls.crl.existingConfigMap needs tls.existingSecret and tls.requireClientCertificate",
		"config.listeners[0].adress=:180": "adress",
		"config.authorization[0].allow=x": "allow",
		"config.authorization[0].types=x": "who",
	} {
		_, errs, err := helm(t, append([]string{"template", "weir", chart, "--set", value}, origin...)...)
		if err == nil || !strings.Contains(errs, want) {
			t.Errorf("%s: %v, %s", value, err, errs)
		}
	}
	if _, errs, err := helm(t, "template", "weir", chart); err == nil || !strings.Contains(errs, "config.origins: at least one control plane is needed") {
		t.Errorf("without an origin: %v, %s", err, errs)
	}
}

func TestLint(t *testing.T) {
	if out, errs, err := helm(t, append([]string{"lint", "--strict", chart}, origin...)...); err != nil {
		t.Errorf("helm lint: %v\n%s%s", err, out, errs)
	}
	fmt.Println(strings.TrimSpace(first(helm(t, "version", "--short"))))
}

func first(out, _ string, _ error) string { return out }

// exposureOfUnit is the most that systemd may find open to the unit, of 100.
const exposureOfUnit = "20"

// TestUnit: systemd finds nothing unknown in the unit and its drop-in, and little that it leaves open.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here")
	}
	unit := filepath.Join(t.TempDir(), "weir.service")
	for to, from := range map[string]string{unit: "weir.service", unit + ".d/credentials.conf": "credentials.conf"} {
		text, err := os.ReadFile(root + "/deploy/systemd/" + from)
		if err != nil {
			t.Fatal(err)
		}
		here := strings.ReplaceAll(string(text), "/usr/local/bin/weir", tool(t, "WEIR", "weir"))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(here), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), "weir.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err = exec.Command(analyze, "security", "--offline=true", "--threshold="+exposureOfUnit, unit).CombinedOutput()
	if bytes.Contains(out, []byte("unrecognized option")) {
		t.Log("NOTE: this systemd cannot rate a unit that is not installed")
	} else if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
