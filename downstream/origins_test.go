package downstream

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// newOriginsRig is a table with the listener's own origin, one group, and another, east, that
// groups by cluster and has one at most.
func newOriginsRig(tb testing.TB) (r *rig, east *rig) {
	tb.Helper()
	table, err := relay.New(relay.Config{MaxGroups: 1, Origins: []relay.OriginConfig{
		{Name: "mesh"}, {Name: "east", Authorities: []string{"east"}, GroupBy: []string{"cluster"}},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	r = &rig{tb: tb, table: table, origin: table.Origin("mesh"), now: zero}
	r.cfg = Config{Table: table, Instance: "here"}
	r.configure(func(*Config, *ListenerConfig) {})
	return r, &rig{tb: tb, table: table, origin: table.Origin("east"), now: zero}
}

// TestGroupsOfOthers: where limits.groups is reached at another origin, a stream is refused the
// names of that origin, one by one, and has the rest; one that has its group is not disturbed
// (RELAY-67, FED-5).
func TestGroupsOfOthers(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r, east := newOriginsRig(t)
		far := long(eds, "//east/far")
		ask := func(p *clientEnd, names ...string) {
			if delta {
				p.subscribes(eds, names...)
			} else {
				p.asks(eds, names...)
			}
			east.up()
		}
		first := r.client(delta)
		ask(first, "near", far)
		r.says(eds, "near=1")
		east.says(eds, far+"=1")
		first.gets("both", "eds near=1 "+far+"=1")

		second := r.client(delta)
		second.node = &corev3.Node{Id: "envoy-2", Cluster: "another"}
		ask(second, "near", far)
		second.gets("what it can have, and why not the rest", "eds near=1 !"+far+":ResourceExhausted")
		if x, _ := second.session.explain(r.now, "envoy-2", eds, far); !x.Limited || !strings.HasPrefix(x.Refused, "limits.groups 1 is reached") {
			t.Errorf("delta %t: it is explained as %q", delta, x.Refused)
		}
		east.says(eds, far+"=2")
		if delta {
			first.acks(eds)
		} else {
			first.asks(eds, "near", far)
		}
		first.gets("the first one goes on", "eds "+far+"=2")

		// The group is gone a while after its last client.
		first.session.close(r.now)
		r.wait(10 * time.Minute)
		east.now = r.now
		east.up()
		for _, l := range east.lanes {
			l.Close()
			l.Release()
		}
		east.lanes = nil
		r.wait(10 * time.Minute)
		third := r.client(delta)
		third.node = &corev3.Node{Id: "envoy-3", Cluster: "another"}
		ask(third, far)
		east.now = r.now
		east.says(eds, far+"=3")
		third.gets("and then another has its place", "eds "+far+"=3")
	}
}

// TestPartsInStatus: what a client is subscribed to is shown by origin where it is not all the
// listener's own.
func TestPartsInStatus(t *testing.T) {
	r, _ := newOriginsRig(t)
	p := r.client(true)
	p.subscribes(cds, "*", long(cds, "//east/a"), long(cds, "//east/b"))
	p.subscribes(eds, "a")
	p.subscribes(rds, long(rds, "//east/a"))
	if got := p.of(eds); got.Parts != nil || got.Names != 1 {
		t.Errorf("endpoints: %+v", got)
	}
	if got := p.of(cds); got.Names != 2 || !got.Wildcard || len(got.Parts) != 2 ||
		got.Parts[0] != (PartStatus{Origin: "mesh", Group: r.group(p), Wildcard: true}) ||
		got.Parts[1].Origin != "east" || got.Parts[1].Names != 2 || got.Parts[1].Wildcard {
		t.Errorf("clusters: %+v", got)
	}
	if got := p.of(rds); len(got.Parts) != 1 || got.Parts[0].Origin != "east" || got.Parts[0].Names != 1 {
		t.Errorf("routes: %+v", got)
	}
}

func (r *rig) group(p *clientEnd) string { return p.session.status(time.Now()).Group }

// TestVersionsOfOrigins: with the origins' own versions a list is called what the newest response
// that had to do with it was, whichever origin's; if one of them is told by content, all is
// (VER-5).
func TestVersionsOfOrigins(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{
			{Name: "mesh", OriginVersions: true}, {Name: "east", Authorities: []string{"east"}, OriginVersions: !mixed},
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{tb: t, table: table, origin: table.Origin("mesh"), now: zero}
		r.cfg = Config{Table: table, Instance: "here"}
		r.configure(func(*Config, *ListenerConfig) {})
		east := &rig{tb: t, table: table, origin: table.Origin("east"), now: zero}
		p, far := r.client(false), long(eds, "//east/far")
		p.asks(eds, "near", far)
		east.up()
		says := func(from *rig, version string, words ...string) string {
			t.Helper()
			from.version = version
			from.says(eds, words...)
			out := p.writes()
			if len(out) != 1 {
				t.Fatalf("%d responses", len(out))
			}
			p.asks(eds, "near", far)
			return out[0].version
		}
		got := []string{
			says(r, "mesh-7", "near=1"), says(east, "east-3", far+"=1"), says(r, "mesh-8", "near=2"), says(east, "east-4", far+"=2"),
		}
		for i, version := range got {
			ours := strings.HasPrefix(version, "w3")
			if want := []string{"mesh-7", "east-3", "mesh-8", "east-4"}[i]; ours != mixed || !mixed && version != want {
				t.Errorf("mixed %v: response %d is called %q, want %q", mixed, i, version, want)
			}
		}
	}
}
