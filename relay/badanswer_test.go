package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestBadFirstAnswer: a client that holds nothing is sent what is good of a first answer that was
// refused in part, or that a refused one followed, without waiting for cold_wait: nothing can be
// deleted by it. One that holds something waits, and so does everybody if nothing is good
// (RELAY-32).
func TestBadFirstAnswer(t *testing.T) {
	bad := func(full bool, names ...string) *xds.Update {
		u := made(xds.ClusterType, "1", nil, names...)
		u.Full, u.Bad, u.Refused = full, true, []string{"c"}
		return u
	}
	good := func(names ...string) *xds.Update { return made(xds.ClusterType, "1", nil, names...) }
	for what, x := range map[string]struct {
		sotw bool // the origin's dialect
		said []*xds.Update
		want int           // resources that a client which holds nothing is sent
		at   time.Duration // and when at the latest
	}{
		"a list with a bad part":           {sotw: true, said: []*xds.Update{bad(true, "a", "b")}, want: 2},
		"a difference with a bad part":     {said: []*xds.Update{bad(false, "a", "b")}, want: 2, at: 50 * time.Millisecond},
		"a good one, and a bad one":        {said: []*xds.Update{good("a"), bad(false, "b")}, want: 2, at: 50 * time.Millisecond},
		"a good one, and nothing but bad":  {said: []*xds.Update{good("a", "b"), bad(false)}, want: 2, at: 50 * time.Millisecond},
		"nothing is good":                  {said: []*xds.Update{bad(false)}, at: 10 * time.Second},
		"nothing of a list is good":        {sotw: true, said: []*xds.Update{bad(true)}, at: 10 * time.Second},
		"nothing is good, and then it is":  {said: []*xds.Update{bad(false), good("a", "b")}, want: 2, at: 50 * time.Millisecond},
		"nothing of the first, then of it": {said: []*xds.Update{bad(false), bad(false, "a")}, want: 1, at: 50 * time.Millisecond},
	} {
		for _, delta := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, delta client=%t", what, delta), func(t *testing.T) {
				r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", SotW: x.sotw}}})
				s := r.sub(xds.ClusterType, delta, xds.Wildcard)
				holds := r.group.Open(NewSubscriber(), SubOptions{
					TypeURL: xds.ClusterType, Delta: true, Initial: map[string]string{"c": "held", "a": "held"},
				})
				holds.Update(zero, []string{xds.Wildcard}, nil)
				r.open()
				for _, u := range x.said {
					r.apply(u)
				}
				early := s.Take(zero) // a delta client is sent members as they come
				if x.at > 0 && !delta && early != nil {
					t.Fatal("it is sent before it can have settled")
				}
				if now := zero.Add(x.at - time.Millisecond); x.at > time.Second {
					r.table.Advance(now)
					if a := s.Take(now); early != nil || a != nil {
						t.Error("there is nothing that is known, and it is answered")
					}
				}
				now := zero.Add(x.at)
				r.table.Advance(now)
				sent := 0
				for _, a := range []*Answer{early, s.Take(now)} {
					if a != nil {
						sent += len(a.Variants)
					}
				}
				if sent != x.want {
					t.Errorf("after %v it was sent %d resources, want %d", x.at, sent, x.want)
				}
				if holds.Take(now) != nil {
					t.Error("a client that holds something is answered")
				}
				r.check()
			})
		}
	}
}
