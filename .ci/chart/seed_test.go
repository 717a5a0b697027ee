package chart

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// seedOf is cache.seed of a weir.yaml, as far as the chart writes it.
type seedOf struct {
	Listen       string
	TLS          map[string]string
	Peers        []string
	PeersAllowed []string `json:"peers_allowed"`
}

func (r *release) seed(t *testing.T) seedOf {
	t.Helper()
	var file struct{ Cache struct{ Seed seedOf } }
	if err := yaml.Unmarshal([]byte(r.only(t)), &file); err != nil {
		t.Fatal(err)
	}
	return file.Cache.Seed
}

// TestSeed: pods ask each other where there are certificates by which they know each other, and only
// there.
func TestSeed(t *testing.T) {
	files := func(dir string) map[string]string {
		return map[string]string{"cert": dir + "/tls.crt", "key": dir + "/tls.key", "ca": dir + "/ca.crt"}
	}
	const own = "dns:weir.mesh dns:weir.mesh.svc dns:weir.mesh.svc.cluster.local " +
		"dns:weir-headless.mesh dns:weir-headless.mesh.svc dns:weir-headless.mesh.svc.cluster.local"
	for name, c := range map[string]struct {
		values  []string
		tls     map[string]string
		allowed string
	}{
		"plain":       {nil, nil, ""},
		"tls":         {[]string{"tls.existingSecret=x"}, nil, ""},
		"off":         {[]string{"tls.existingSecret=x", "tls.requireClientCertificate=true", "seed.enabled=false"}, nil, ""},
		"mutual tls":  {[]string{"tls.existingSecret=x", "tls.requireClientCertificate=true"}, files("/etc/weir/tls"), own},
		"certificate": {[]string{"certificate.enabled=true", "certificate.issuerRef.name=ca"}, files("/etc/weir/tls"), own},
		"uri":         {[]string{"certificate.enabled=true", "certificate.issuerRef.name=ca", "certificate.uris={https://corp/weir}"}, files("/etc/weir/tls"), "uri:https://corp/weir"},
		"secret":      {[]string{"seed.existingSecret=x", "seed.peersAllowed={dns:peer}"}, files("/etc/weir/seed"), "dns:peer"},
		"some trust":  {[]string{"spiffe.enabled=true"}, nil, ""},
		"spiffe": {
			[]string{"spiffe.enabled=true", "spiffe.trustDomain=corp"},
			map[string]string{"spiffe": "unix:///run/spiffe/spire-agent.sock"}, "spiffe://corp/ns/mesh/sa/weir",
		},
	} {
		r := render(t, with(c.values...)...)
		r.check(t)
		seed, on := r.seed(t), c.tls != nil
		headless := portsOf(r.services["weir-headless"])
		if slices.Contains(headless, "seed") != on || (seed.Listen != "") != on {
			t.Errorf("%s: the headless service has %v, and weir listens at %q", name, headless, seed.Listen)
		}
		if !on {
			continue
		}
		if seed.Listen != ":19082" || !slices.Equal(seed.Peers, []string{"dns:///weir-headless.mesh.svc:19082"}) || strings.Join(seed.PeersAllowed, " ") != c.allowed {
			t.Errorf("%s: %+v", name, seed)
		}
		for key, want := range c.tls {
			if seed.TLS[key] != want || len(seed.TLS) != len(c.tls) {
				t.Errorf("%s: %v, want %v", name, seed.TLS, c.tls)
			}
		}
	}
	r := render(t, with("tls.existingSecret=x", "tls.requireClientCertificate=true", "config.cache.seed.peers={127.0.0.1:1}")...)
	if seed := r.seed(t); seed.Listen != "" || seed.Peers[0] != "127.0.0.1:1" {
		t.Errorf("config.cache.seed does not stand before the chart's: %+v", seed)
	}
}

// TestSeedServes: a pod that comes while the origin is away serves what another one holds, with what
// the chart renders.
func TestSeedServes(t *testing.T) {
	a := newAuthority(t)
	text := render(t, with("tls.existingSecret=x", "tls.requireClientCertificate=true")...).only(t)
	full := startWeir(t, text, startPlane(t, t.TempDir()), a)
	flags, _ := full.asks(0, a)
	await(t, "a client of the old pod", func() error { return full.gets(0, flags...) })
	joined := startWeir(t, text, free(t), a, full)
	await(t, "the new pod is ready", func() error { return get("http://" + joined.probes + "/readyz") })
	await(t, "a client of the new pod", func() error { return joined.gets(0, flags...) })
}
