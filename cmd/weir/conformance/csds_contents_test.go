package conformance

import (
	"encoding/base64"
	"strings"
	"testing"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// statusOfSecrets: of a secret there is a name and a status, in either view, also after a client
// has refused it and quoted it.
func statusOfSecrets(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: withSecrets})
	w.origin.Put(sds, secretAt("the-name", "hunter2"))
	c := w.manual(d)
	c.Subscribe(sds, "the-name")
	c.Expect(sds, "the secret arrives")
	var version string
	c.Look(func(s *relaytest.State) {
		e, _ := s.Entry(sds, "the-name")
		version = e.Version + s.Version(sds)
	})
	check := func(resp *statusv3.ClientStatusResponse) {
		t.Helper()
		text, err := protojson.Marshal(resp)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hunter", "origin-version", base64.StdEncoding.EncodeToString([]byte("hunter"))[:7], version} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%q is in %s", secret, text)
			}
		}
		views := 0
		for _, x := range resp.Config {
			if it := itemOf(x, sds, "the-name"); it != nil {
				if views++; it.XdsConfig != nil || it.VersionInfo != "" {
					t.Errorf("of a secret is said %v", it)
				}
			}
		}
		if views != 2 || version == "" {
			t.Errorf("the secret is in %d views, and its version is %q", views, version)
		}
	}
	check(awaitView(t, w.weir, "it is on its way", map[string]string{"client-1 sds the-name": "STALE"}))
	c.NACK(sds, "I cannot use hunter2")
	check(awaitView(t, w.weir, "it is refused", map[string]string{"client-1 sds the-name": "ERROR"}))
}

func contents(t *testing.T) {
	w := settledWorld(t, relaytest.Delta)
	for text, want := range map[string]bool{`{}`: true, `{"exclude_resource_contents": true}`: false} {
		for _, c := range statusOf(t, w.weir, text).Config {
			for _, it := range c.GenericXdsConfigs {
				if (it.XdsConfig != nil) != want {
					t.Errorf("%s: %q has %v", text, c.ClientScope, it)
				}
				if want && it.TypeUrl == cds && !proto.Equal(it.XdsConfig, cdsAt("a", 1).Body) {
					t.Errorf("%q: the content of a is %v", c.ClientScope, it.XdsConfig)
				}
			}
		}
	}
}

// bothVersions looks at the weir that talks to the origin: the next one in the row speaks in weir's
// versions.
func bothVersions(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW})
	w.origin.Put(cds, cdsAt("a", 7))
	w.origin.SetVersionInfo(cds, "7")
	c := w.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "it is served", "a")
	relays, origins := 0, 0
	for _, x := range statusOf(t, w.first, `{}`).Config {
		it := itemOf(x, cds, "a")
		switch {
		case it == nil:
		case x.ClientScope == "":
			if _, ours := xds.ParseVersion(it.VersionInfo); ours {
				relays++
			}
		case it.VersionInfo == "7":
			origins++
		}
	}
	if relays != 1 || origins != 1 {
		t.Errorf("of one resource there are %d versions of weir and %d of the origin", relays, origins)
	}
}
