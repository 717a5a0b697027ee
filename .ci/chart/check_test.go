package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// check is what holds of every pod, whatever the values.
func (r *release) check(t *testing.T) {
	t.Helper()
	r.validate(t)
	spec := &r.template.Spec
	c := r.weir(t)
	pod, own := spec.SecurityContext, c.SecurityContext
	if pod == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot || pod.SeccompProfile == nil ||
		pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.RunAsUser != 65532 {
		t.Errorf("the pod's security context is %+v", pod)
	}
	if own == nil || own.ReadOnlyRootFilesystem == nil || !*own.ReadOnlyRootFilesystem || own.AllowPrivilegeEscalation == nil ||
		*own.AllowPrivilegeEscalation || len(own.Capabilities.Drop) != 1 || own.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the container's security context is %+v", own)
	}
	if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
		wantMemoryLimit(t, c, limit)
	}
	wantRestricted(t, &r.template.ObjectMeta, spec)
	wantMounts(t, r, spec)
	for _, test := range r.tests {
		wantRestricted(t, &test.ObjectMeta, &test.Spec)
		wantMounts(t, nil, &test.Spec)
		for _, s := range r.services {
			if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(test.Labels)) {
				t.Errorf("the service %s takes the pod %s for one that serves", s.Name, test.Name)
			}
		}
	}
	r.wantPorts(t)
}

// validate puts every rendered weir.yaml before the binary.
func (r *release) validate(t *testing.T) {
	t.Helper()
	if len(r.configs) == 0 {
		t.Error("no weir.yaml is rendered")
	}
	for name, text := range r.configs {
		file := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(tool(t, "WEIR", "weir"), "validate", "--syntax-only", "--config", file)
		cmd.Env = append(os.Environ(), "CONTROL_PLANE_TOKEN=sample")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("weir.yaml of %s: %v\n%s\n%s", name, err, out, text)
		}
	}
}

// wantRestricted: Pod Security admits the pod at its strictest level, with what decides in the API
// server. No pod has a token of its service account.
func wantRestricted(t *testing.T, meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	verdict := policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, meta, spec))
	if !verdict.Allowed {
		t.Errorf("restricted does not admit it: %s", verdict.ForbiddenDetail())
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Error("a token of the service account is mounted")
	}
}

// wantMounts: what is mounted is a volume of the pod, or a claim of each replica.
func wantMounts(t *testing.T, r *release, spec *corev1.PodSpec) {
	t.Helper()
	volumes := map[string]bool{}
	for i := range spec.Volumes {
		volumes[spec.Volumes[i].Name] = true
	}
	if r != nil && r.statefulSet != nil {
		for i := range r.statefulSet.Spec.VolumeClaimTemplates {
			volumes[r.statefulSet.Spec.VolumeClaimTemplates[i].Name] = true
		}
	}
	for _, cs := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range cs {
			for _, m := range cs[i].VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s mounts %s, which is no volume of the pod", cs[i].Name, m.Name)
				}
			}
		}
	}
}

// wantPorts: probes and services go to ports that the container has.
func (r *release) wantPorts(t *testing.T) {
	t.Helper()
	c := r.weir(t)
	named := map[string]bool{}
	for _, p := range c.Ports {
		named[p.Name] = true
	}
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p != nil && !named[p.HTTPGet.Port.StrVal] {
			t.Errorf("a probe asks port %s, which the container has not", p.HTTPGet.Port.StrVal)
		}
	}
	for _, s := range r.services {
		if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP != corev1.ClusterIPNone {
			t.Errorf("the service %s has no port", s.Name)
		}
		for _, p := range s.Spec.Ports {
			if !named[p.TargetPort.StrVal] {
				t.Errorf("port %s of the service %s is %s, which the container has not", p.Name, s.Name, p.TargetPort.StrVal)
			}
		}
		for key, value := range s.Spec.Selector {
			if r.template.Labels[key] != value {
				t.Errorf("the service %s selects %s=%s, which the pods have not", s.Name, key, value)
			}
		}
	}
}

func wantMemoryLimit(t *testing.T, c *corev1.Container, limit resource.Quantity) {
	t.Helper()
	for _, e := range c.Env {
		if e.Name != "GOMEMLIMIT" {
			continue
		}
		n, err := strconv.ParseInt(e.Value, 10, 64)
		if got := float64(n) / float64(limit.Value()); err != nil || got < 0.75 || got > 0.85 {
			t.Errorf("GOMEMLIMIT is %s of a limit of %s", e.Value, limit.String())
		}
		return
	}
	t.Error("there is a limit of memory, and no GOMEMLIMIT")
}
