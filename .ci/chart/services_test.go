package chart

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// portsOf are the names of a service's ports.
func portsOf(s *corev1.Service) (names []string) {
	for _, p := range s.Spec.Ports {
		names = append(names, p.Name)
	}
	return names
}

// TestServices: clients, operators and Prometheus have a service each.
func TestServices(t *testing.T) {
	r := render(t, with("config.admin.address=0.0.0.0:19080", "config.admin.insecure=true", "config.listeners[0].address=0.0.0.0:18080",
		"config.listeners[1].address=unix:///run/x.sock", "config.listeners[2].address=0.0.0.0:18082")...)
	r.check(t)
	headless, metrics := r.services["weir-headless"], r.services["weir-metrics"]
	if got := portsOf(r.service); !slices.Equal(got, []string{"xds", "xds-2"}) {
		t.Errorf("clients have %v", got)
	}
	if got := portsOf(headless); !slices.Equal(got, []string{"xds", "xds-2", "admin"}) || !headless.Spec.PublishNotReadyAddresses {
		t.Errorf("the headless service has %v, %+v", got, headless.Spec)
	}
	if got := portsOf(metrics); !slices.Equal(got, []string{"metrics"}) || metrics.Spec.Ports[0].Port != 19081 || !metrics.Spec.PublishNotReadyAddresses {
		t.Errorf("Prometheus has %v, %+v", got, metrics.Spec)
	}
	for name, s := range r.services {
		if name != "weir-metrics" && s.Labels["app.kubernetes.io/component"] != "" {
			t.Errorf("%s looks like that for metrics: %v", name, s.Labels)
		}
	}
	if got := portsOf(render(t, origin...).services["weir-headless"]); !slices.Equal(got, []string{"xds"}) {
		t.Errorf("an admin port that only the pod reaches is in the headless service: %v", got)
	}
	if r := render(t, with("config.probes.address=127.0.0.1:19081", "config.listeners[0].address=unix:///run/x.sock")...); len(r.services) != 1 {
		t.Errorf("nothing can be reached, and there are %v", r.services)
	}
}

// TestTraffic: a service says where its traffic goes.
func TestTraffic(t *testing.T) {
	r := render(t, with("tls.existingSecret=x", "tls.requireClientCertificate=true",
		"service.type=LoadBalancer", "service.trafficDistribution=PreferClose", "service.externalTrafficPolicy=Local",
		"service.loadBalancerClass=a/b", "service.loadBalancerSourceRanges={10.0.0.0/8}",
		"externalService.enabled=true", "externalService.listeners={0}", "externalService.externalTrafficPolicy=Local")...)
	r.check(t)
	s := r.service.Spec
	if s.TrafficDistribution == nil || *s.TrafficDistribution != corev1.ServiceTrafficDistributionPreferClose || s.InternalTrafficPolicy != nil ||
		s.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || *s.LoadBalancerClass != "a/b" || s.LoadBalancerSourceRanges[0] != "10.0.0.0/8" {
		t.Errorf("the service is %+v", s)
	}
	if e := r.services["weir-external"].Spec; e.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("the external service is %+v", e)
	}
}
