package chart

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestStatefulSet: each replica has a claim of its own, and none waits for another that cannot become
// ready, neither at the start nor when it is replaced.
func TestStatefulSet(t *testing.T) {
	r := render(t, with("workload.kind=StatefulSet", "replicas=3")...)
	r.check(t)
	s := r.statefulSet
	if s == nil || r.deployment != nil || *s.Spec.Replicas != 3 {
		t.Fatalf("the workload is %+v", s)
	}
	if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || s.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		t.Errorf("pods wait for each other: %s, %+v", s.Spec.PodManagementPolicy, s.Spec.UpdateStrategy)
	}
	if headless := r.services[s.Spec.ServiceName]; headless == nil || headless.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("its service %s is %+v", s.Spec.ServiceName, headless)
	}
	if p := s.Spec.PersistentVolumeClaimRetentionPolicy; p == nil || p.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType ||
		p.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
		t.Errorf("claims go: %+v", p)
	}
	if len(s.Spec.VolumeClaimTemplates) != 1 {
		t.Fatalf("the claims are %+v", s.Spec.VolumeClaimTemplates)
	}
	claim := s.Spec.VolumeClaimTemplates[0]
	if claim.Name != "snapshot" || claim.Spec.AccessModes[0] != corev1.ReadWriteOnce || claim.Spec.StorageClassName != nil {
		t.Errorf("the claim is %+v", claim)
	}
	for key := range claim.Labels {
		// A claim template cannot be changed: a label of the version would refuse every upgrade.
		if strings.Contains(key, "version") || strings.Contains(key, "chart") {
			t.Errorf("the claim has the label %s", key)
		}
	}
	if r.volume("snapshot") != nil {
		t.Error("the pod has a volume of that name, too")
	}
	own := render(t, with("workload.kind=StatefulSet", "snapshot.volume.emptyDir.medium=", "snapshot.claim.storageClassName=fast")...)
	own.check(t)
	if len(own.statefulSet.Spec.VolumeClaimTemplates) != 0 || own.volume("snapshot") == nil {
		t.Error("snapshot.volume does not stand before the claim")
	}
}

// TestDaemonSet: clients are served by the pod of their own node, and a new pod is ready before the old
// one goes, unless they would have one port of the node.
func TestDaemonSet(t *testing.T) {
	r := render(t, with("workload.kind=DaemonSet")...)
	r.check(t)
	if r.daemonSet == nil || object[*policyv1.PodDisruptionBudget](t, r) != nil || len(r.template.Spec.TopologySpreadConstraints) != 0 {
		t.Errorf("the workload is %+v", r.daemonSet)
	}
	if p := r.service.Spec.InternalTrafficPolicy; p == nil || *p != corev1.ServiceInternalTrafficPolicyLocal {
		t.Errorf("traffic leaves the node: %v", p)
	}
	if u := r.daemonSet.Spec.UpdateStrategy.RollingUpdate; u.MaxSurge.IntValue() != 1 || u.MaxUnavailable.IntValue() != 0 {
		t.Errorf("pods are replaced by %+v", u)
	}
	r = render(t, with("workload.kind=DaemonSet", "hostPort=true", "service.internalTrafficPolicy=Cluster")...)
	if p := r.weir(t).Ports; p[0].HostPort != 18080 || p[1].HostPort != 0 || p[2].HostPort != 0 {
		t.Errorf("the ports are %+v", p)
	}
	if u := r.daemonSet.Spec.UpdateStrategy.RollingUpdate; u.MaxSurge.IntValue() != 0 || u.MaxUnavailable.IntValue() != 1 {
		t.Errorf("with a port of the node they are replaced by %+v", u)
	}
	if p := r.service.Spec.InternalTrafficPolicy; *p != corev1.ServiceInternalTrafficPolicyCluster {
		t.Errorf("internalTrafficPolicy is %v", p)
	}
}

// TestClaim: a claim that one pod at a time can mount is let go before the next pod wants it, and
// is for one replica.
func TestClaim(t *testing.T) {
	const claim = "snapshot.volume.persistentVolumeClaim.claimName=weir"
	r := render(t, with(claim, "replicas=1")...)
	if s := r.deployment.Spec.Strategy; s.Type != "Recreate" || s.RollingUpdate != nil {
		t.Errorf("with a claim the strategy is %+v", s)
	}
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		if said := refused(t, with(claim, "replicas=2", "workload.kind="+kind)...); !strings.Contains(said, "replicas must be 1") {
			t.Errorf("two replicas with one claim: %s", said)
		}
	}
	if said := refused(t, with(claim, "workload.kind=DaemonSet")...); !strings.Contains(said, "a DaemonSet has many") {
		t.Errorf("a DaemonSet with one claim: %s", said)
	}
	for name, args := range map[string][]string{
		"emptyDir": origin,
		"ephemeral": with("snapshot.volume.ephemeral.volumeClaimTemplate.spec.accessModes={ReadWriteOnce}",
			"snapshot.volume.ephemeral.volumeClaimTemplate.spec.resources.requests.storage=1Gi"),
		"off": with(claim, "snapshot.enabled=false"),
	} {
		if s := render(t, args...).deployment.Spec.Strategy; s.Type != "RollingUpdate" || s.RollingUpdate.MaxUnavailable.IntValue() != 0 {
			t.Errorf("%s: the strategy is %+v", name, s)
		}
	}
	r = render(t, with("workload.updateStrategy.type=Recreate")...)
	if s := r.deployment.Spec.Strategy; s.Type != "Recreate" || s.RollingUpdate != nil {
		t.Errorf("the strategy of the values gives %+v", s)
	}
}

// TestSnapshotSize: the volume has room for what weir keeps, and so kubelet evicts no pod for it.
func TestSnapshotSize(t *testing.T) {
	for max, want := range map[string]string{"": "1216Mi", "64MiB": "136Mi", "100MB": "172Mi", "2 GiB": "2368Mi", "1073741824": "1216Mi"} {
		args := with()
		if max != "" {
			args = with("config.cache.snapshot.max_bytes=" + max)
		}
		limit := render(t, args...).volume("snapshot").EmptyDir.SizeLimit
		if limit == nil || limit.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("max_bytes %q: the emptyDir has %v, want %s", max, limit, want)
		}
		claim := render(t, append(args, "--set", "workload.kind=StatefulSet")...).statefulSet.Spec.VolumeClaimTemplates[0]
		if got := claim.Spec.Resources.Requests[corev1.ResourceStorage]; got.Cmp(*limit) != 0 {
			t.Errorf("max_bytes %q: the claim is for %s, the emptyDir for %s", max, got.String(), limit)
		}
	}
	if limit := render(t, with("snapshot.sizeLimit=5Gi")...).volume("snapshot").EmptyDir.SizeLimit; limit.String() != "5Gi" {
		t.Errorf("sizeLimit is not taken: %s", limit)
	}
	for _, max := range []string{"0", "${MAX}"} {
		if said := refused(t, append(with(), "--set-string", "config.cache.snapshot.max_bytes="+max)...); !strings.Contains(said, "say how large the volume is to be") {
			t.Errorf("max_bytes %q: %s", max, said)
		}
	}
}

// TestOverrides: what clusters ask for reaches the pod, and the rest of a map stays as it was.
func TestOverrides(t *testing.T) {
	r := render(t, with("podSecurityContext.fsGroup=7", "podSecurityContext.supplementalGroups={9}", "securityContext.seLinuxOptions.level=s0",
		"lifecycle.preStop.sleep.seconds=5", "workload.minReadySeconds=10", "workload.revisionHistoryLimit=3", "workload.annotations.a=b",
		"priorityClassName=high", "runtimeClassName=gvisor", "schedulerName=own", "dnsConfig.nameservers={10.0.0.1}", "dnsPolicy=None")...)
	spec, c := r.template.Spec, r.weir(t)
	if s := spec.SecurityContext; *s.FSGroup != 7 || s.SupplementalGroups[0] != 9 || *s.RunAsUser != 65532 {
		t.Errorf("the pod's security context is %+v", s)
	}
	if s := c.SecurityContext; s.SELinuxOptions.Level != "s0" || !*s.ReadOnlyRootFilesystem {
		t.Errorf("the container's security context is %+v", s)
	}
	if c.Lifecycle.PreStop.Sleep.Seconds != 5 || r.deployment.Spec.MinReadySeconds != 10 || *r.deployment.Spec.RevisionHistoryLimit != 3 ||
		r.deployment.Annotations["a"] != "b" {
		t.Errorf("%+v, %+v", c.Lifecycle, r.deployment.Spec)
	}
	if spec.PriorityClassName != "high" || *spec.RuntimeClassName != "gvisor" || spec.SchedulerName != "own" ||
		spec.DNSConfig.Nameservers[0] != "10.0.0.1" || spec.DNSPolicy != corev1.DNSNone {
		t.Errorf("%+v", spec)
	}
	if spec := render(t, with("hostNetwork=true")...).template.Spec; !spec.HostNetwork || spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		t.Errorf("with the node's network: %v, %s", spec.HostNetwork, spec.DNSPolicy)
	}
}

// TestExistingConfig: weir.yaml may be a config map or secret that somebody else writes.
func TestExistingConfig(t *testing.T) {
	r := render(t, "--set", "existingConfig.configMap=mine")
	if v := r.volume("config"); len(r.configs) != 0 || v.ConfigMap == nil || v.ConfigMap.Name != "mine" {
		t.Errorf("%v, %+v", r.configs, v)
	}
	r = render(t, "--set", "existingConfig.secret=mine")
	if v := r.volume("config"); len(r.configs) != 0 || v.Secret == nil || v.Secret.SecretName != "mine" || *v.Secret.DefaultMode != 0o440 {
		t.Errorf("%v, %+v", r.configs, v)
	}
	if said := refused(t, "--set", "existingConfig.secret=mine", "--set", "existingConfig.configMap=mine"); !strings.Contains(said, "not both") {
		t.Error(said)
	}
}

// TestExtraObjects: they are templates, be they maps or texts.
func TestExtraObjects(t *testing.T) {
	file := values(t, `
extraObjects:
  - { apiVersion: v1, kind: ConfigMap, metadata: { name: '{{ include "weir.fullname" . }}-a', namespace: "{{ .Release.Namespace }}" } }
  - |
    apiVersion: v1
    kind: Secret
    metadata: { name: {{ .Release.Name }}-b }
`)
	r := render(t, append(with(), "--values", file)...)
	names := map[string]bool{}
	for _, o := range r.objects {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			names[o.Name] = true
		case *corev1.Secret:
			names[o.Name] = true
		}
	}
	if !names["weir-a"] || !names["weir-b"] {
		t.Errorf("there are %v", names)
	}
}
