package node

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// istioNode is a sidecar's, as istio's agent describes it.
func istioNode() *corev3.Node {
	metadata, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "INSTANCE_IPS": "10.0.0.1", "app": "web",
		"LABELS": map[string]any{"version": "v1", "app": "web"},
	})
	if err != nil {
		panic(err)
	}
	return &corev3.Node{
		Id: "sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local", Cluster: "web.shop", Metadata: metadata,
		Locality:             &corev3.Locality{Region: "eu", Zone: "eu-1"},
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1.37.0"},
	}
}

// TestWatched: what is in the key, or is mapped, is not watched; the rest is.
func TestWatched(t *testing.T) {
	all := `node_type=sidecar cluster=web.shop locality=eu/eu-1 user_agent_version=1.37.0 metadata.NAMESPACE=shop ` +
		`metadata.CLUSTER_ID=Kubernetes metadata.LABELS={"app":"web","version":"v1"} metadata.app=web`
	without := func(fields ...string) string {
		var left []string
		for _, word := range strings.Fields(all) {
			keep := true
			for _, f := range fields {
				keep = keep && !strings.HasPrefix(word, f+"=")
			}
			if keep {
				left = append(left, word)
			}
		}
		return strings.Join(left, " ")
	}
	for name, c := range map[string]struct {
		rules Rules
		want  string
	}{
		"one group":           {Rules{}, all},
		"the default key":     {Rules{GroupBy: []string{"cluster", "locality", "user_agent_name", "client_features", "metadata"}}, "node_type=sidecar user_agent_version=1.37.0"},
		"a key of one's own":  {Rules{GroupBy: []string{"cluster", "metadata.NAMESPACE"}}, without("cluster", "metadata.NAMESPACE")},
		"the id":              {Rules{GroupBy: []string{"id"}}, without("node_type")},
		"mapped to parameter": {Rules{Mapped: map[string]string{"ns": "metadata.NAMESPACE", "v": "metadata.LABELS.version"}}, strings.Replace(without("metadata.NAMESPACE"), `,"version":"v1"`, "", 1)},
	} {
		var got []string
		for i, v := range c.rules.Watched(istioNode()) {
			if v != "" {
				got = append(got, WatchedFields()[i]+"="+v)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: watched is\n%s\nwant\n%s", name, s, c.want)
		}
	}
	for _, n := range []*corev3.Node{nil, {}, {Id: "plain"}, {Id: "a~b"}, {Id: "a~b~c~d~e"}} {
		if got := (Rules{}).Watched(n); got != [WatchedCount]string{} {
			t.Errorf("%v: watched is %q", n, got)
		}
	}
	n := richNode()
	if got := (Rules{}).Watched(n); got[3] != "1.34.2" {
		t.Errorf("a build version is watched as %q", got[3])
	}
}

// TestShort: what is kept of a client's text is bounded, and tells long ones apart.
func TestShort(t *testing.T) {
	for _, s := range []string{"", "web", strings.Repeat("x", maxKept)} {
		if got := Short(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	long := strings.Repeat("é", 5000)
	a, b := Short(long+"a"), Short(long+"b")
	if a == b || len(a) > maxKept || !strings.HasPrefix(a, "éé") || strings.ToValidUTF8(a, "?") != a {
		t.Errorf("got %q and %q", a, b)
	}
}

// TestOwnIdIsPresented: with id in the key the origin is presented the members' own id, which istio
// wants to have four parts, and the key is that of any replica and build. Without it the id is
// weir's, and no part of a member's is in it (RELAY-62).
func TestOwnIdIsPresented(t *testing.T) {
	for terms, want := range map[string]string{
		"id":                  "c9bd5e7b8fe4bba3936de31dac74f747",
		"id cluster metadata": "b924923300cd216896c544290e3b7b9d",
	} {
		key, up := Rules{GroupBy: strings.Fields(terms), Deployment: "edge"}.Group(istioNode(), "")
		if key != want || up.Id != "sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local" {
			t.Errorf("%q: the key is %s, want %s; presented as %q", terms, key, want, up.Id)
		}
	}
	if key, up := (Rules{GroupBy: []string{"cluster", "metadata"}, Deployment: "edge"}).Group(istioNode(), ""); up.Id != "weir/edge/"+key {
		t.Errorf("without id in the key presented as %q", up.Id)
	}
	nameless := istioNode()
	nameless.Id = ""
	if key, up := (Rules{GroupBy: []string{"id"}, Deployment: "edge"}).Group(nameless, ""); up.Id != "weir/edge/"+key {
		t.Errorf("a member without an id is presented as %q", up.Id)
	}
}
