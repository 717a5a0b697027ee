package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// TestAutoscaling: the number of pods is the autoscaler's, and a budget is kept by the fewest.
func TestAutoscaling(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		r := render(t, with("workload.kind="+kind, "autoscaling.enabled=true", "autoscaling.streams=5000", "replicas=1")...)
		r.check(t)
		h := object[*autoscalingv2.HorizontalPodAutoscaler](t, r)
		if h == nil || h.Spec.ScaleTargetRef.Kind != kind || h.Spec.ScaleTargetRef.Name != "weir" || *h.Spec.MinReplicas != 2 || h.Spec.MaxReplicas != 10 {
			t.Fatalf("the autoscaler is %+v", h)
		}
		m := h.Spec.Metrics
		if len(m) != 2 || *m[0].Resource.Target.AverageUtilization != 70 || m[1].Pods.Metric.Name != "weir_downstream_streams" ||
			m[1].Pods.Target.AverageValue.Value() != 5000 {
			t.Errorf("it goes by %+v", m)
		}
		if *h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds != 900 {
			t.Errorf("it goes down by %+v", h.Spec.Behavior)
		}
		if r.deployment != nil && r.deployment.Spec.Replicas != nil || r.statefulSet != nil && r.statefulSet.Spec.Replicas != nil {
			t.Error("every upgrade would set the number of pods")
		}
		if object[*policyv1.PodDisruptionBudget](t, r) == nil {
			t.Error("there is no budget")
		}
	}
	for want, values := range map[string][]string{
		"a pod for each node":       {"autoscaling.enabled=true", "workload.kind=DaemonSet"},
		"one at least":              {"autoscaling.enabled=true", "autoscaling.cpu=0"},
		"replicas must be 1":        {"autoscaling.enabled=true", "snapshot.volume.persistentVolumeClaim.claimName=x"},
		"which issuer":              {"certificate.enabled=true"},
		"one certificate, not both": {"certificate.enabled=true", "tls.existingSecret=x"},
	} {
		if said := refused(t, with(values...)...); !strings.Contains(said, want) {
			t.Errorf("%v: %s", values, said)
		}
	}
}

// allowed describes the ingress of a policy: port, and who comes.
func allowed(p *networkingv1.NetworkPolicy) (rules []string) {
	for _, rule := range p.Spec.Ingress {
		who := "everybody"
		if len(rule.From) > 0 {
			who = ""
		}
		for _, f := range rule.From {
			switch {
			case f.IPBlock != nil:
				who += f.IPBlock.CIDR
			case f.NamespaceSelector != nil:
				who += "cluster"
			case f.PodSelector != nil && f.PodSelector.MatchLabels["app.kubernetes.io/name"] == "weir":
				who += "own"
			}
		}
		for _, port := range rule.Ports {
			rules = append(rules, fmt.Sprintf("%d %s", port.Port.IntValue(), who))
		}
	}
	return rules
}

// TestNetworkPolicy: clients and Prometheus come from the cluster, others where a service lets them in,
// and operators only if the values say so.
func TestNetworkPolicy(t *testing.T) {
	tls := []string{"tls.existingSecret=x", "tls.requireClientCertificate=true", "seed.enabled=false"}
	admin := []string{"config.admin.address=0.0.0.0:19080", "config.admin.insecure=true"}
	two := []string{"config.listeners[0].address=0.0.0.0:18080", "config.listeners[1].address=0.0.0.0:18443"}
	for name, c := range map[string]struct{ values, want []string }{
		"default":    {nil, []string{"18080 cluster", "19081 cluster"}},
		"admin":      {admin, []string{"18080 cluster", "19081 cluster", "19080 own"}},
		"operators":  {append(admin, "networkPolicy.admin[0].ipBlock.cidr=10.1.0.0/16"), []string{"18080 cluster", "19081 cluster", "19080 own10.1.0.0/16"}},
		"nobody":     {[]string{"networkPolicy.metrics=null", "networkPolicy.clients=null"}, nil},
		"external":   {append(append(tls, two...), "externalService.enabled=true", "externalService.listeners={1}"), []string{"18080 cluster", "18443 cluster", "18443 everybody", "19081 cluster"}},
		"balancer":   {append(tls, "service.type=LoadBalancer", "networkPolicy.outside[0].ipBlock.cidr=10.2.0.0/16"), []string{"18080 cluster", "18080 10.2.0.0/16", "19081 cluster"}},
		"siblings":   {[]string{"tls.existingSecret=x", "tls.requireClientCertificate=true"}, []string{"18080 cluster", "19081 cluster", "19082 own"}},
		"no network": {[]string{"config.listeners[0].address=unix:///x", "config.probes.address="}, nil},
	} {
		r := render(t, with(c.values...)...)
		r.check(t)
		p := object[*networkingv1.NetworkPolicy](t, r)
		if p == nil || !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress"}) {
			t.Fatalf("%s: the policy is %+v", name, p)
		}
		if got := allowed(p); !slices.Equal(got, c.want) {
			t.Errorf("%s: it admits %q, want %q", name, got, c.want)
		}
	}
	r := render(t, with("networkPolicy.egress.closed=true", "networkPolicy.egress.rules[0].to[0].ipBlock.cidr=10.3.0.0/16")...)
	p := object[*networkingv1.NetworkPolicy](t, r)
	if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Egress) != 3 || p.Spec.Egress[0].Ports[0].Port.IntValue() != 53 ||
		p.Spec.Egress[1].To[0].PodSelector == nil || p.Spec.Egress[2].To[0].IPBlock.CIDR != "10.3.0.0/16" {
		t.Errorf("closed, it lets out %+v", p.Spec.Egress)
	}
	if object[*networkingv1.NetworkPolicy](t, render(t, with("networkPolicy.enabled=false")...)) != nil {
		t.Error("it cannot be left out")
	}
}

// TestAdmin: with a token the pods of the release, and operators, reach the admin port by TLS, under the
// names of the services.
func TestAdmin(t *testing.T) {
	r := render(t, with("certificate.enabled=true", "certificate.issuerRef.name=ca", "admin.existingSecret=weir-admin")...)
	r.check(t)
	var file struct {
		Admin struct {
			Address   string
			TokenFile string `json:"token_file"`
			Hosts     []string
			TLS       map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(r.only(t)), &file); err != nil {
		t.Fatal(err)
	}
	a := file.Admin
	if a.Address != "0.0.0.0:19080" || a.TokenFile != "/etc/weir/admin/token" || a.TLS["cert"] != "/etc/weir/tls/tls.crt" ||
		!slices.Contains(a.Hosts, "weir-headless.mesh.svc") {
		t.Errorf("the admin port is %+v", a)
	}
	if v := r.volume("admin-token"); v == nil || v.Secret.SecretName != "weir-admin" || v.Secret.Items[0].Key != "token" {
		t.Errorf("the token is %+v", v)
	}
	if !slices.Contains(portsOf(r.services["weir-headless"]), "admin") || !slices.Contains(allowed(object[*networkingv1.NetworkPolicy](t, r)), "19080 own") {
		t.Error("pods do not reach each other")
	}
	if said := refused(t, with("admin.existingSecret=weir-admin")...); !strings.Contains(said, "not sent in plain text") {
		t.Error(said)
	}
}

// TestCertificate: what cert-manager issues is for both sides of the pods, and is what they use.
func TestCertificate(t *testing.T) {
	r := render(t, with("certificate.enabled=true", "certificate.issuerRef.name=ca", "certificate.dnsNames={xds.corp}", "certificate.uris={spiffe://corp/weir}",
		"tls.requireClientCertificate=true", "externalService.enabled=true", "externalService.listeners={0}")...)
	r.check(t)
	c := object[*certmanager.Certificate](t, r)
	if c == nil || c.Spec.SecretName != r.volume("tls").Secret.SecretName || c.Spec.IssuerRef.Name != "ca" || c.Spec.IssuerRef.Kind != "Issuer" {
		t.Fatalf("the certificate is %+v", c)
	}
	for _, name := range []string{"weir.mesh.svc", "weir-headless.mesh.svc", "weir-external.mesh.svc", "xds.corp"} {
		if !slices.Contains(c.Spec.DNSNames, name) {
			t.Errorf("it is not for %s: %v", name, c.Spec.DNSNames)
		}
	}
	if c.Spec.DNSNames[0] != "weir.mesh.svc" {
		t.Errorf("a pod is %s to others, which seed.peersAllowed has not", c.Spec.DNSNames[0])
	}
	for _, usage := range []certmanager.KeyUsage{certmanager.UsageServerAuth, certmanager.UsageClientAuth} {
		if !slices.Contains(c.Spec.Usages, usage) {
			t.Errorf("it is not for %s: %v", usage, c.Spec.Usages)
		}
	}
	if !strings.Contains(r.only(t), "cert: /etc/weir/tls/tls.crt") || !slices.Equal(c.Spec.URIs, []string{"spiffe://corp/weir"}) {
		t.Errorf("%s\n%v", r.only(t), c.Spec.URIs)
	}
}

// TestSPIFFE: the Workload API of the node is mounted, and listeners and origins ask it.
func TestSPIFFE(t *testing.T) {
	r := render(t, with("spiffe.enabled=true", "config.listeners[0].address=0.0.0.0:18080", "config.origins[0].grpc.tls.server_identity=spiffe://corp/plane",
		"config.listeners[1].address=unix:///run/x.sock")...)
	r.check(t)
	v := r.volume("spiffe")
	if v == nil || v.CSI.Driver != "csi.spiffe.io" || !*v.CSI.ReadOnly {
		t.Fatalf("the volume is %+v", v)
	}
	const socket = "spiffe: unix:///run/spiffe/spire-agent.sock"
	if text := r.only(t); strings.Count(text, socket) != 2 {
		t.Errorf("one listener and one origin ask it:\n%s", text)
	}
	mount := r.weir(t).VolumeMounts
	if i := slices.IndexFunc(mount, func(m corev1.VolumeMount) bool { return m.Name == "spiffe" }); i < 0 || mount[i].MountPath != "/run/spiffe" || !mount[i].ReadOnly {
		t.Errorf("it is mounted by %+v", mount)
	}
	r = render(t, with("spiffe.enabled=true")...)
	if text := r.only(t); strings.Count(text, socket) != 1 {
		t.Errorf("without a server_identity:\n%s", text)
	}
}
