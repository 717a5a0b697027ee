package chart

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// TestInject: the patch makes of a proxy that is there what sidecar.yaml is, and leaves the rest of it
// alone.
func TestInject(t *testing.T) {
	text, err := os.ReadFile(root + "/deploy/kubernetes/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	whole := read(t, string(text))
	want := whole.weir(t)
	bare := whole.deployment.DeepCopy()
	spec := &bare.Spec.Template.Spec
	spec.InitContainers = []corev1.Container{{Name: "own", Image: "own", SecurityContext: want.SecurityContext}}
	ofWeir := func(name string) bool { return name == "weir-run" || name == "weir-config" || name == "weir-state" }
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return ofWeir(v.Name) })
	mounts := &spec.Containers[0].VolumeMounts
	*mounts = slices.DeleteFunc(*mounts, func(m corev1.VolumeMount) bool { return ofWeir(m.Name) })
	before, err := json.Marshal(bare)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := os.ReadFile(root + "/deploy/kubernetes/inject/patch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if patch, err = yaml.YAMLToJSONStrict(patch); err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, string(after))
	r.configs = whole.configs
	r.check(t)
	got := r.weir(t)
	if got.RestartPolicy == nil || *got.RestartPolicy != corev1.ContainerRestartPolicyAlways || r.volume("weir-config").ConfigMap.Name != "weir-sidecar" {
		t.Errorf("weir is no sidecar: %+v", got)
	}
	got.SecurityContext = want.SecurityContext // here of the container, there of the pod
	if !reflect.DeepEqual(got, want) {
		t.Errorf("weir is\n%+v, and in sidecar.yaml\n%+v", got, want)
	}
	pod := r.template.Spec
	if len(pod.InitContainers) != 2 || len(pod.Containers) != 1 || !reflect.DeepEqual(pod.Containers[0].Args, spec.Containers[0].Args) ||
		!slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/run/weir" }) {
		t.Errorf("the pod is %+v", pod)
	}
}
