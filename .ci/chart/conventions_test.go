package chart

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"
)

// TestReplicaCount: the name that most charts have for the number of pods is accepted, and counts.
func TestReplicaCount(t *testing.T) {
	for want, values := range map[int32][]string{
		2: {"replicaCount=null"},
		5: {"replicaCount=5"},
		4: {"replicaCount=4", "replicas=3"},
		3: {"replicas=3"},
		0: {"replicaCount=0"},
	} {
		if r := render(t, with(values...)...); *r.deployment.Spec.Replicas != want {
			t.Errorf("%v: %d pods", values, *r.deployment.Spec.Replicas)
		}
	}
	if said := refused(t, with("replicaCount=2", "snapshot.volume.persistentVolumeClaim.claimName=weir")...); !strings.Contains(said, "replicas must be 1") {
		t.Error(said)
	}
	render(t, with("replicaCount=1", "snapshot.volume.persistentVolumeClaim.claimName=weir")...)
	if said := refused(t, with("replicaCount=many")...); !strings.Contains(said, "replicaCount") {
		t.Error(said)
	}
}

// TestPrefixes: labels and annotations have the name of a domain before them, so that they meet no
// one else's. Grafana's sidecar looks for a label that has none.
func TestPrefixes(t *testing.T) {
	n := 0
	check := func(of string, keys map[string]string) {
		for key := range keys {
			n++
			if prefix, _, has := strings.Cut(key, "/"); key != "grafana_dashboard" && (!has || !strings.Contains(prefix, ".")) {
				t.Errorf("%s has %s", of, key)
			}
		}
	}
	all := []string{"metrics.serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true", "autoscaling.enabled=true"}
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		r := render(t, with(append(all, "workload.kind="+kind)...)...)
		check("a pod", r.template.Labels)
		check("a pod", r.template.Annotations)
		for _, o := range r.objects {

			m, err := meta.Accessor(o)
			if err != nil {
				t.Fatal(err)
			}
			check(m.GetName(), m.GetLabels())
			check(m.GetName(), m.GetAnnotations())
		}
	}
	if n < 50 {
		t.Errorf("only %d labels and annotations", n)
	}
}

// TestLintIsQuiet: helm has nothing to say of the chart, and the icon is a file of this repository.
func TestLintIsQuiet(t *testing.T) {
	said, err := lint(t, "config: { origins: [{ name: mesh, grpc: { addresses: [a:1] } }] }\n")
	for _, word := range []string{"[INFO]", "[WARNING]", "[ERROR]"} {
		if strings.Contains(said, word) {
			t.Errorf("helm lint: %v, %s", err, said)
		}
	}
	text, err := os.ReadFile(chart + "/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Icon string }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	name, is := strings.CutPrefix(file.Icon, "https://raw.githubusercontent.com/weir-xds/weir/main/")
	if _, err := os.Stat(root + "/" + name); !is || err != nil {
		t.Errorf("the icon is %s: %v", file.Icon, err)
	}
}
