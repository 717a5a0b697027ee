package relay

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestNewNames: a subscriber is counted the names that nobody was subscribed to, of all its Subs,
// and nobody else is.
func TestNewNames(t *testing.T) {
	r := newRig(t, Config{})
	now := time.Now()
	first, second := NewSubscriber(), NewSubscriber()
	a := r.group.Open(first, SubOptions{TypeURL: xds.EndpointType, Delta: true})
	b := r.group.Open(second, SubOptions{TypeURL: xds.EndpointType})
	c := r.group.Open(second, SubOptions{TypeURL: xds.RouteType, Delta: true})
	want := func(what string, s *Subscriber, n int) {
		t.Helper()
		if got := s.NewNames(); got != n {
			t.Errorf("%s: %d new names, want %d", what, got, n)
		}
	}
	a.Update(now, []string{"x", "y", "x", xds.Wildcard}, nil)
	want("two names", first, 2)
	want("the same names once more", first, 0)
	b.Replace(now, []string{"x", "y", "z"}, false)
	c.Update(now, []string{"x"}, nil)
	want("one that others do not have, and one of another type", second, 2)
	b.Replace(now, []string{"y", "w"}, false)
	want("one in the place of others", second, 1)
	want("the other", first, 0)
}
