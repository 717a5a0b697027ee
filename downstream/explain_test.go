package downstream

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// explained is what the stream has to do with a name.
func (p *clientEnd) explained(typeURL, name string) Explained {
	p.tb.Helper()
	x, is := p.session.explain(p.now, "envoy-1", typeURL, name)
	if !is || x.Type == nil || len(x.Parts) == 0 {
		p.tb.Fatalf("%s %s is not explained: %+v", typeURL, name, x)
	}
	return x
}

// reasons are those of a name alone.
func (x *ExplainedPart) reasons() string {
	var all []string
	for _, w := range x.Waits {
		all = append(all, w.Reason.String())
	}
	return strings.Join(all, " ")
}

// TestExplainNames: what is told of one name does not depend on what others of its type wait for.
func TestExplainNames(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh"})
	p := r.client(true)
	p.subscribes(cds, "*")
	p.settled(cds, "a=1", "b=1")
	p.gets("the set", "cds a=1 b=1")
	p.acks(cds)
	p.origin.Freeze(p.now)
	p.says(cds, "a=2")
	for name, want := range map[string]string{"a": "freeze", "b": "", "none": ""} {
		if got := p.explained(cds, name).Parts[0].reasons(); got != want {
			t.Errorf("%s waits for %q, want %q", name, got, want)
		}
	}
	if x := p.explained(cds, "*").Parts[0]; x.reasons() != "freeze" || x.Sets[0] != "*" || x.AskedAs != "*" {
		t.Errorf("the set: %+v", x)
	}
	if x := p.explained(cds, "none").Parts[0]; !x.Absent || x.Variant != nil {
		t.Errorf("a name that a complete set lacks: %+v", x)
	}
	if _, is := p.session.explain(p.now, "envoy-2", cds, "a"); is {
		t.Error("it is another node's")
	}
}

// TestExplainAlias: a resource that the client asks for by another name is explained by both.
func TestExplainAlias(t *testing.T) {
	p := newRig(t).client(true)
	p.subscribes(vhd, "r/x.com")
	p.says(vhd, "r/h[r/x.com]=1")
	p.gets("the host", "vhds r/h[r/x.com]=1")
	for _, name := range []string{"r/h", "r/x.com"} {
		x := p.explained(vhd, name).Parts[0]
		if x.Named != "r/x.com" || x.Variant == nil || x.Item.Version == "" || !x.Item.Unjudged || x.AskedAs != "r/x.com" {
			t.Errorf("%s: %+v", name, x)
		}
		if x.SentAt.IsZero() {
			t.Errorf("%s: it is not known when it was sent", name)
		}
	}
	p.acks(vhd)
	if x := p.explained(vhd, "r/h").Parts[0]; x.Item.Status != relay.ItemSynced || !x.SentAt.IsZero() {
		t.Errorf("acknowledged: %+v", x.Item)
	}
}

// TestExplainParameters: each parameter map of a client is a part of its own.
func TestExplainParameters(t *testing.T) {
	p := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true}).client(true)
	for _, env := range []string{"prod", "dev"} {
		p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{
			{Name: "a", DynamicParameters: map[string]string{"env": env}},
		}})
	}
	p.says(cds, "a{env=prod}=1")
	x := p.explained(cds, "a")
	if len(x.Parts) != 2 || x.Parts[0].Params == x.Parts[1].Params {
		t.Fatalf("%d parts: %+v", len(x.Parts), x.Parts)
	}
	for i := range x.Parts {
		part := &x.Parts[i]
		prod := strings.Contains(part.Params, "prod")
		if part.Named != "a" || !part.Located || prod != (part.Variant != nil) || prod == strings.Contains(part.reasons(), "origin") {
			t.Errorf("%s: %+v, waits for %s", part.Params, part.Row, part.reasons())
		}
	}
}

// TestExplainOrigins: a name of another authority is explained by the group of its own origin, and
// one that no origin has by the refusal, which leaves no trace.
func TestExplainOrigins(t *testing.T) {
	r, _ := newOriginsRig(t)
	p := r.client(true)
	p.subscribes(cds, "a")
	before := p.session.authorities
	x := p.explained(cds, "xdstp://nobody/envoy.config.cluster.v3.Cluster/a")
	if x.Refused != noAuthority.text || x.Denied || x.Limited || len(p.session.authorities.asked) != len(before.asked) {
		t.Errorf("%+v", x)
	}
	if x := p.explained(cds, "a"); x.Refused != "" || x.Parts[0].Group.Origin().Name() != r.origin.Name() {
		t.Errorf("%+v", x)
	}
}

// TestExplainNoRoom: of a name that was refused because memory is short the limit is told, and that
// the stream waits for room. What the client has, and in SotW what it has not asked for, is not said
// to be refused.
func TestExplainNoRoom(t *testing.T) {
	const limit = 1 << 20
	for _, delta := range []bool{true, false} {
		r := newRig(t)
		ask := func(p *clientEnd, typeURL string, names ...string) {
			if delta {
				p.subscribes(typeURL, names...)
			} else {
				p.asks(typeURL, names...)
			}
		}
		first := r.client(delta)
		ask(first, eds, "a")
		r.says(eds, "a=1")
		r.table.Measured(limit+1, limit)
		p := r.client(delta)
		ask(p, eds, "a", "b")
		x := p.explained(eds, "b")
		if !x.Limited || x.Denied || !strings.HasPrefix(x.Refused, "limits.memory 1048576 is reached") || x.Parts[0].Named != "" {
			t.Errorf("delta %t: %+v", delta, x)
		}
		if w := p.waits(eds); !slices.Contains(w, "limit+"+shortFor.String()) {
			t.Errorf("delta %t: the type waits for %v", delta, w)
		}
		if x := p.explained(eds, "a"); x.Parts[0].Named != "a" {
			t.Errorf("delta %t: what it has: %+v", delta, x)
		}
		if x := p.explained(eds, "other"); x.Limited != delta || delta != strings.Contains(x.Refused, "unless the client has not asked for it") {
			t.Errorf("delta %t: what it has not asked for: %+v", delta, x)
		}
		if x := first.explained(eds, "b"); x.Refused != "" {
			t.Errorf("of a client that is refused nothing: %+v", x)
		}
	}
}

// TestExplainDedicated: a type that the listener has asked for each stream alone has a group of its
// own, and a SotW client a list.
func TestExplainDedicated(t *testing.T) {
	r := newRig(t)
	r.configure(func(_ *Config, lc *ListenerConfig) { lc.Dedicated = []string{cds} })
	p := r.client(false)
	p.asks(cds, "a")
	p.asks(eds, "a")
	p.says(cds, "a=1")
	p.gets("the cluster", "cds a=1")
	if x := p.explained(cds, "a").Parts[0]; !x.Group.IsDedicated() || !x.Item.Unjudged || x.SentAt.IsZero() {
		t.Errorf("%+v", x)
	}
	if x := p.explained(eds, "a").Parts[0]; x.Group.IsDedicated() || x.reasons() != "origin" {
		t.Errorf("%+v", x)
	}
}

// TestExplainSecrets: what an origin or a client says of a secret is not told (RELAY-76).
func TestExplainSecrets(t *testing.T) {
	p := newRigOf(t, relay.OriginConfig{Name: "mesh", Secrets: true}).client(true)
	p.session.from = caller{local: true}
	p.subscribes(sds, "key")
	p.says(sds, "!key:INTERNAL") // "because"
	part := p.explained(sds, "key").Parts[0]
	if part.Error == nil || strings.Contains(part.Error.Message, "because") {
		t.Errorf("of an error it tells %+v", part.Error)
	}
}

// TestExplainLongList: of a list that is asked piece by piece, a name whose turn has not come.
func TestExplainLongList(t *testing.T) {
	p := newRig(t).client(true)
	p.subscribes(eds, numbered("a", 5000)...)
	p.lanes[0].Take(p.now, false)
	found := map[string]int{}
	for _, name := range numbered("a", 5000) {
		found[p.explained(eds, name).Parts[0].reasons()]++
	}
	if found["ask"] == 0 || found["origin"] == 0 || len(found) != 2 {
		t.Errorf("they wait for %v", found)
	}
}
