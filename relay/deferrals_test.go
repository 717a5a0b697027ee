package relay

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestDeferrals has what decides about a removal in a line: whether it is deferred when it would be
// sent at time zero, and whether it is still deferred later, when something else is pending.
func TestDeferrals(t *testing.T) {
	const none = math.MaxUint64
	pends := func(rev uint64) Deferral { return Deferral{Pending: rev, PendingEmpty: none, Seen: 10} }
	holds := func(hold, named, returned time.Duration) Deferral {
		return Deferral{Pending: none, PendingEmpty: none, Seen: 10, Hold: hold, HoldNamed: named, HoldReturned: returned}
	}
	for _, x := range []struct {
		what     string
		removal  deferredRemoval
		k        Deferral
		deferred bool

		after time.Duration
		then  Deferral
		due   bool
	}{
		{"nothing is pending, and it was removed before that was looked at", deferredRemoval{until: 9}, pends(none), false, 0, pends(none), false},
		{"as early as what was looked at", deferredRemoval{until: 10}, pends(none), false, 0, pends(none), false},
		{"removed since: something may be pending by now (ORD-3)", deferredRemoval{until: 11}, pends(none), true, 0, pends(none), true},
		{"something is pending (ORD-3)", deferredRemoval{until: 9}, pends(5), true, 0, pends(5), false},
		{"what is pending came before the removal was looked at", deferredRemoval{until: 9}, pends(5), true, 0, pends(10), false},
		{"what is pending is newer", deferredRemoval{until: 9}, pends(5), true, 0, pends(11), true},
		{"newer than the removal's own revision", deferredRemoval{until: 12}, pends(5), true, 0, pends(12), false},
		{"pending routes do not hold back empty endpoints", deferredRemoval{until: 9, empty: true}, pends(5), false, 0, pends(5), false},
		{"pending endpoints do", deferredRemoval{until: 9, empty: true}, Deferral{Pending: none, PendingEmpty: 5, Seen: 10}, true, 0, pends(5), true},
		{"every removal is held for a time (ORD-11)", deferredRemoval{}, holds(3, 0, 0), true, 2, holds(3, 0, 0), false},
		{"which ends", deferredRemoval{}, holds(3, 0, 0), true, 3, holds(3, 0, 0), true},
		{"one by name for longer (ORD-10)", deferredRemoval{named: true}, holds(3, 9, 0), true, 8, holds(3, 9, 0), false},
		{"that is no matter of others", deferredRemoval{set: true}, holds(0, 9, 9), false, 0, holds(0, 9, 9), false},
		{"the longer time counts", deferredRemoval{named: true}, holds(9, 3, 0), true, 8, holds(9, 3, 0), false},
		{"one that the client came back with", deferredRemoval{returned: true}, holds(0, 0, 9), true, 8, holds(0, 0, 9), false},
		{"which ends", deferredRemoval{returned: true}, holds(0, 0, 9), true, 9, holds(0, 0, 9), true},
		{"the time is over, and something is pending", deferredRemoval{}, holds(3, 0, 0), true, 4, pends(10), false},
		{"nothing is ever deferred", deferredRemoval{until: 9, named: true, returned: true}, deferNothing, false, 0, deferNothing, false},
	} {
		var d deferrals
		if got := d.add("c", x.removal, zero, &x.k); got != x.deferred || d.has("c") != x.deferred {
			t.Errorf("%s: deferred %v, want %v", x.what, got, x.deferred)
		}
		if got := d.anyDue(zero.Add(x.after), &x.then); got != x.due {
			t.Errorf("%s: due %v later, want %v", x.what, got, x.due)
		}
	}
}

// TestDeferralsInAList: a list has the Clusters whose removal is deferred, and they are in its
// version. Of endpoints it has none.
func TestDeferralsInAList(t *testing.T) {
	made := func(name string) *xds.Variant {
		r := madeResource(xds.ClusterType, name, "", "1")
		return xds.NewVariant(&xds.Provenance{TypeURL: xds.ClusterType}, &r, "")
	}
	own, kept := made("own"), made("kept")
	b := &Body{Variants: []*xds.Variant{own}}
	var d deferrals
	version := func() string {
		content := contentOf{}
		content.addAll(b.Variants)
		return (&Sub{deferred: d}).listVersion(content)
	}
	if d.addTo(b) != b || version() != setOf(b.Variants).Version() || !d.oldest().IsZero() {
		t.Error("without a deferred removal the list is another one")
	}
	k := Deferral{Pending: 1, PendingEmpty: 1, Seen: 10}
	d.add("endpoints", deferredRemoval{}, zero.Add(time.Second), &k)
	d.add("kept", deferredRemoval{body: kept, set: true}, zero, &k)
	if got := d.addTo(b); len(b.Variants) != 1 || !slices.Equal(got.Variants, []*xds.Variant{own, kept}) {
		t.Errorf("the list has %d Clusters, and the one that it was made of has %d now; want 2 and 1", len(got.Variants), len(b.Variants))
	}
	if version() != xds.SetOf([]xds.Digest{own.Digest, kept.Digest}).Version() {
		t.Error("the version is not that of the list")
	}
	if got := d.oldest(); !got.Equal(zero) {
		t.Errorf("the oldest is of %v, want %v", got, zero)
	}
	// Deferred anew, it is still of the set.
	d.add("kept", deferredRemoval{body: kept, named: true}, zero.Add(time.Minute), &k)
	if x := d["kept"]; !x.set || !x.named || !x.since.Equal(zero.Add(time.Minute)) {
		t.Errorf("deferred again it is %+v, want it by name and with the set, since a minute later", x)
	}
}
