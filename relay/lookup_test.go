package relay

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestFoundAndGone: what a response brings was looked up before the lock is taken to apply it. What
// has gone in between, or has come, is looked up again.
func TestFoundAndGone(t *testing.T) {
	r := newRig(t, Config{Linger: -1})
	take := func() { r.group.lanes[mainLane].Take(zero, false) }
	// applied takes up a response of one resource of a type, and has something happen before it has
	// the lock for it.
	version := ""
	applied := func(typeURL string, between func()) {
		version += "new"
		u, gen := &update{Update: *made(typeURL, version, nil, "a")}, r.group.lanes[mainLane].gen.Load()
		k, from := r.group.store(typeURL), &provenance{typeURL: typeURL}
		if !k.find(u, mainLane, gen) || u.found[0].body == nil || u.holder == nil {
			t.Fatal("a is not found")
		}
		between()
		k.mu.Lock()
		k.apply(&Applied{}, zero, u, []*Variant{newVariant(from, &u.Resources[0], version)}, mainLane, gen, from)
		k.unlock()
		if err := r.table.Check(); err != nil {
			t.Error(err)
		}
	}
	told := func(s *Sub) {
		t.Helper()
		if a := s.Take(zero); a == nil || len(a.Variants) != 1 || a.Variants[0].originVersion != version {
			t.Errorf("told %+v, want what the response brought", a)
		}
	}
	r.sub(xds.EndpointType, true, "b")
	s, star := r.sub(xds.EndpointType, true, "a"), r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	for _, typeURL := range []string{xds.EndpointType, xds.ClusterType} {
		u := made(typeURL, "old", nil, "a", "b")
		u.Resources[0].TTL, u.Resources[0].HasTTL = time.Hour, true
		r.apply(u)
	}
	r.table.Advance(zero.Add(time.Minute))
	s.Take(zero)
	star.Take(zero)

	applied(xds.EndpointType, func() {
		s.Close(zero)
		take() // which gives the name back
		s = r.sub(xds.EndpointType, true, "a")
		take()
	})
	told(s)

	var other *Sub
	applied(xds.EndpointType, func() {
		other = r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: true, Params: params("env=prod")})
		other.Update(zero, []string{"a"}, nil)
		take()
	})
	told(other)

	applied(xds.ClusterType, func() { r.table.Advance(zero.Add(time.Hour)) })
	told(star)
}
