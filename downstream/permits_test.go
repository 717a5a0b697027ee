package downstream

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

const roles = 50

// benchRules are 100 rules for 50 roles. roles: two of them fit a client. shared: the same, and the
// clients of a role have one identity. wide: all fit, and have
// the same pattern of who. patterns: all fit, and each has a pattern of its own. all: two fit, and
// allow every name.
func benchRules(tb testing.TB, kind string) *authz.Rules {
	rules := make([]authz.Rule, 2*roles)
	for i := range rules {
		r := authz.Rule{
			Who: []string{fmt.Sprintf("spiffe://corp/ns/{ns}/sa/role-%d/pod/*", i%roles)}, Types: []string{cds, eds},
			Claims: map[string][]string{"node.cluster": {"{ns}"}}, Set: map[string]string{"node.metadata.TEAM": "{ns}"},
		}
		switch kind {
		case "roles", "shared":
			r.Names = []string{fmt.Sprintf("role-%d/*", i%roles), fmt.Sprintf("shared-%d/*", i/roles)}
		case "globs":
			r.Names = []string{"role-*/*", "shared-*/*"}
		case "wide":
			r.Who, r.Names = []string{"spiffe://corp/ns/{ns}/**"}, []string{fmt.Sprintf("{ns}-%d/*", i), fmt.Sprintf("shared-*-%d/*", i)}
		case "patterns":
			part := fmt.Sprintf("{ns%d}", i)
			r.Who, r.Names = []string{"spiffe://corp/ns/" + part + "/**"}, []string{part + fmt.Sprintf("-%d/*", i), fmt.Sprintf("shared-%d/*", i)}
			r.Claims, r.Set = map[string][]string{"node.cluster": {part}}, map[string]string{"node.metadata.TEAM": part}
		}
		rules[i] = r
	}
	out, problems := authz.Compile(rules)
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return out
}

// roleIdentity is that of a client, which it has alone. shared: all of its role have it.
func roleIdentity(kind string, i int) string {
	if kind == "shared" {
		return fmt.Sprintf("spiffe://corp/ns/team-%d/sa/role-%d/pod/0", i%roles%10, i%roles)
	}
	return fmt.Sprintf("spiffe://corp/ns/team-%d/sa/role-%d/pod/%d", i%roles%10, i%roles, i)
}

// rightsAt are those of a client whose node says nothing but a cluster.
func (r *rig) rightsAt(identity, cluster string) *rights {
	r.tb.Helper()
	of := r.set.allowances(&caller{identity: identity})
	rights, err := rightsOf(of, setIn(&corev3.Node{Cluster: cluster}, of))
	if err != nil {
		r.tb.Fatal(err)
	}
	return rights
}

// TestRolesSharePermits: 10,000 clients of 50 roles, each with an identity of its own, have 50
// permits of a type, and by other rules others.
func TestRolesSharePermits(t *testing.T) {
	r := newRig(t)
	found := map[*relay.Permit]int{}
	var kept []*rights
	play := func() {
		r.configure(func(c *Config, _ *ListenerConfig) { c.Rules = benchRules(t, "roles") })
		for i := range 10_000 {
			x := r.rightsAt(roleIdentity("roles", i), fmt.Sprintf("team-%d", i%roles%10))
			for _, typeURL := range []string{cds, eds} {
				found[x.permit(r.origin, typeURL, constraints.Params{})]++
			}
			kept = append(kept, x)
		}
	}
	if play(); len(found) != roles {
		t.Errorf("%d permits, want %d", len(found), roles)
	}
	for p, n := range found {
		if n != 2*10_000/roles {
			t.Errorf("%d have %q", n, p.Key())
		}
	}
	if play(); len(found) != 2*roles {
		t.Errorf("%d permits by two sets of rules, want %d", len(found), 2*roles)
	}
	if a, b := r.rightsAt(roleIdentity("shared", 7), "team-7"), r.rightsAt(roleIdentity("shared", 57), "team-7"); a.allowances != b.allowances {
		t.Error("clients of one identity do not share what the rules are for it")
	}
	runtime.KeepAlive(kept)
}

// TestIdentitiesLeaveNothing: 100,000 clients, each with another identity and a permit of its own,
// come and go.
func TestIdentitiesLeaveNothing(t *testing.T) {
	const (
		clients = 100_000
		most    = 20_000 // between two collections there are 5,000
	)
	r := newRig(t)
	r.configure(func(c *Config, _ *ListenerConfig) {
		c.Rules = compiled(t, authz.Rule{Who: []string{"spiffe://corp/ns/{ns}/pod/{pod}"}, Names: []string{"{ns}/{pod}/*"}})
	})
	ofOthers := identities.Len() + permits.Len()
	for i := range clients {
		if p := r.rightsAt(fmt.Sprintf("spiffe://corp/ns/a/pod/%d", i), "").permit(r.origin, cds, constraints.Params{}); !p.Allows(fmt.Sprintf("a/%d/x", i)) {
			t.Fatal("it may not have what is its own")
		}
		if i%5_000 == 0 {
			runtime.GC()
		}
		if n, m := identities.Len(), permits.Len(); n+m > ofOthers+2*most {
			t.Fatalf("after %d clients %d identities and %d permits are kept", i, n, m)
		}
	}
}

// TestEverNewParameters: a client that asks with ever new parameters keeps a bounded number of
// permits. Other rules then end its stream, although they give it the same.
func TestEverNewParameters(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true})
	rule := func() {
		r.configure(func(c *Config, _ *ListenerConfig) {
			c.Rules = compiled(t, authz.Rule{Who: []string{"anonymous"}, Names: []string{"a"}})
		})
	}
	rule()
	p := r.client(true)
	for i := range 3 * maxPermits {
		if err := p.locates(eds, fmt.Sprintf("b{env=%d}", i)); err != nil {
			t.Fatal(err)
		}
		p.writes()
		if err := p.locates(eds, fmt.Sprintf("-b{env=%d}", i)); err != nil {
			t.Fatal(err)
		}
		if n := len(p.session.rights.permits); n > maxPermits {
			t.Fatalf("it keeps %d permits", n)
		}
		if i == maxPermits/2 {
			if rule(); !p.session.keepsRights(r.set) {
				t.Error("equal rules end a stream of which all is known")
			}
		}
	}
	if rule(); p.session.keepsRights(r.set) {
		t.Error("a stream goes on by other rules, and what they take from it is not known")
	}
}
