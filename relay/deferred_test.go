package relay

import (
	"math"
	"slices"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestDeferredClustersStayListed: a removed Cluster stays in the list if it was removed after the
// walk began, or while an older update was pending. It stays for as long as what was pending then
// (ORD-3).
func TestDeferredClustersStayListed(t *testing.T) {
	r := newRig(t, Config{})
	s := r.sub(xds.ClusterType, false, "a", "b", "c")
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "a", "b", "c"))
	s.Take(zero)
	const none = math.MaxUint64
	gets := func(sentence string, k Deferral, want ...string) {
		t.Helper()
		a, got := s.TakeDeferring(zero, k), []string(nil)
		if a != nil {
			for _, v := range a.Variants {
				got = append(got, v.Name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", sentence, got, want)
		}
	}
	before := r.table.Revision()
	r.apply(made(xds.ClusterType, "1", []string{"c"}))
	gets("newer than what was looked at: as before", Deferral{Pending: none, Seen: before})
	for pending, goes := range map[uint64]bool{before + 1: false, before + 2: true} {
		if got := s.DeferredDue(zero, Deferral{Pending: pending, Seen: none}); got != goes {
			t.Errorf("it goes with %d pending: %v, want %v", pending, got, goes)
		}
	}
	r.apply(made(xds.ClusterType, "1", []string{"b"}))
	now := r.table.Revision()
	gets("something is pending that was pending when b went, and not when c did", Deferral{Pending: now, Seen: now}, "a", "b")
	gets("and still is", Deferral{Pending: now, Seen: now + 1})
	gets("what is pending came later", Deferral{Pending: now + 1, Seen: now + 1}, "a")
	if _, keeps := s.Deferred(); keeps {
		t.Error("something is still kept")
	}
	gets("that was all", Deferral{Pending: none, Seen: now})
}
