package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	root     = "../.."
	chart    = root + "/deploy/helm/weir"
	examples = root + "/deploy/helm/examples"
)

// origin is what the chart has no default for.
var origin = []string{"--set", "config.origins[0].name=mesh", "--set", "config.origins[0].grpc.addresses={control-plane:18000}"}

// tool is the program that an environment variable names, or one of the path.
func tool(t *testing.T, variable, name string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		if path, err := filepath.Abs(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s names no program, and %s is not on the path: use make chart", variable, name)
	}
	return path
}

func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command(tool(t, "HELM", "helm"), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// release is what the chart renders with some values.
type release struct {
	objects     []runtime.Object
	deployment  *appsv1.Deployment
	statefulSet *appsv1.StatefulSet
	daemonSet   *appsv1.DaemonSet
	template    *corev1.PodTemplateSpec    // of the one of these that is there
	services    map[string]*corev1.Service // by name
	service     *corev1.Service            // for clients inside the cluster
	configs     map[string]string          // weir.yaml of each ConfigMap
	tests       []*corev1.Pod              // of helm test
}

func init() {
	utilruntime.Must(monitoring.AddToScheme(scheme.Scheme))
	utilruntime.Must(certmanager.AddToScheme(scheme.Scheme))
}

// with are the arguments for values beside the origin.
func with(values ...string) []string {
	args := origin[:len(origin):len(origin)]
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

func render(t *testing.T, args ...string) *release {
	t.Helper()
	out, errs, err := helm(t, append([]string{"template", "weir", chart, "--namespace", "mesh"}, args...)...)
	if err != nil {
		t.Fatalf("helm template %v: %v\n%s", args, err, errs)
	}
	return read(t, out)
}

// refused is what the chart says of values that it does not render.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	_, errs, err := helm(t, append([]string{"template", "weir", chart, "--namespace", "mesh"}, args...)...)
	if err == nil {
		t.Errorf("%v is rendered", args)
	}
	return errs
}

// read decodes manifests strictly: unknown and repeated fields are errors.
func read(t *testing.T, manifests string) *release {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	r := &release{configs: map[string]string{}, services: map[string]*corev1.Service{}}
	for document := range strings.SplitSeq("\n"+manifests, "\n---") {
		if strings.TrimSpace(stripComments(document)) == "" {
			continue
		}
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("not decoded strictly: %v\n%s", err, document)
		}
		r.add(object)
	}
	r.service = r.services["weir"]
	return r
}

func (r *release) add(object runtime.Object) {
	r.objects = append(r.objects, object)
	switch object := object.(type) {
	case *appsv1.Deployment:
		r.deployment, r.template = object, &object.Spec.Template
	case *appsv1.StatefulSet:
		r.statefulSet, r.template = object, &object.Spec.Template
	case *appsv1.DaemonSet:
		r.daemonSet, r.template = object, &object.Spec.Template
	case *corev1.Service:
		r.services[object.Name] = object
	case *corev1.Pod:
		r.tests = append(r.tests, object)
	case *corev1.ConfigMap:
		if text, ok := object.Data["weir.yaml"]; ok {
			r.configs[object.Name] = text
		}
	}
}

// object is the only one of its kind, or nil.
func object[T runtime.Object](t *testing.T, r *release) (found T) {
	t.Helper()
	n := 0
	for _, o := range r.objects {
		if o, ok := o.(T); ok {
			found, n = o, n+1
		}
	}
	if n > 1 {
		t.Errorf("there are %d of %T", n, found)
	}
	return found
}

func stripComments(document string) string {
	var b strings.Builder
	for line := range strings.Lines(document) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// weir is the container of that name, which in a sidecar is an init container.
func (r *release) weir(t *testing.T) *corev1.Container {
	t.Helper()
	for _, cs := range [][]corev1.Container{r.template.Spec.Containers, r.template.Spec.InitContainers} {
		for i := range cs {
			if cs[i].Name == "weir" {
				return &cs[i]
			}
		}
	}
	t.Fatal("the pod has no container weir")
	return nil
}

// volume is that of a name, or nil.
func (r *release) volume(name string) *corev1.Volume {
	for i := range r.template.Spec.Volumes {
		if v := &r.template.Spec.Volumes[i]; v.Name == name {
			return v
		}
	}
	return nil
}

// only is the one weir.yaml of a release.
func (r *release) only(t *testing.T) string {
	t.Helper()
	for _, text := range r.configs {
		return text
	}
	t.Fatal("no weir.yaml is rendered")
	return ""
}

// listener is one of a weir.yaml, as far as tests look at it.
type listener struct {
	Address string
	TLS     map[string]any
}

func (r *release) listeners(t *testing.T) []listener {
	t.Helper()
	var file struct{ Listeners []listener }
	if err := yaml.Unmarshal([]byte(r.only(t)), &file); err != nil {
		t.Fatal(err)
	}
	return file.Listeners
}
