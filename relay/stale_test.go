package relay

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// again ends the main lane's stream and begins another, on which everything is asked anew.
func (r storeRig) again(now time.Time) {
	l := r.group.lanes[mainLane]
	l.Close()
	l.Open(now, 0)
	l.Take(now, r.table.Origin("mesh").config().SotW)
}

// pause is what passes before a guess that deletes (RELAY-6).
func (r storeRig) pause() time.Duration { return r.table.config().FirmSettle }

// patience is how long the origin may be silent about a name in doubt.
func (r storeRig) patience() time.Duration { return r.table.Origin("mesh").patience() }

// TestStaleVariant: what was replaced while there was no stream is named by nobody, so the first
// variant that the next stream brings takes its place, also where the old one has more keys
// (DYN-9), and by whichever way it is asked.
func TestStaleVariant(t *testing.T) {
	for _, name := range []string{"n", xds.Wildcard} {
		r := newStoreRig(t, OriginConfig{})
		s := r.sub(xds.EndpointType, "env=prod,v=1", true, name)
		r.open()
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=1}=old")
		r.table.Advance(zero.Add(r.pause()))
		isTold(t, name, told(s), "n=old")
		r.again(zero)
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=new")
		isTold(t, name+" on the next stream", told(s), "n=new")
		// the stream has spoken of it: now the origin has mistakes
		r.says(mainLane, zero, xds.EndpointType, "m=1", "n=2")
		if vs := r.group.store(xds.EndpointType).all[0].variants("n"); len(vs) != 2 {
			t.Errorf("%s: %d variants are held, want those of two constraints", name, len(vs))
		}
	}
}

// TestStaleVariantIsGone: that a name is not there may be said to another map (DYN-13), so what one
// holds from a stream before goes after a time in which nothing of it has come, and not if
// something has.
func TestStaleVariantIsGone(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	prod, test := r.sub(xds.EndpointType, "env=prod", true, "n"), r.sub(xds.EndpointType, "env=test", true, "n")
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1", "n{env=test}=2")
	isTold(t, "prod", told(prod), "n=1")
	isTold(t, "test", told(test), "n=2")
	r.again(zero)
	r.says(mainLane, zero, xds.EndpointType, "-n")
	r.table.Advance(zero.Add(r.patience() / 2))
	isTold(t, "prod, too early", told(prod), "nothing")
	r.says(mainLane, zero.Add(r.patience()/2), xds.EndpointType, "n{env=test}=2")
	r.table.Advance(zero.Add(r.patience()))
	isTold(t, "prod", told(prod), "-n")
	isTold(t, "test", told(test), "nothing")
}

// TestRemovalBeforeTheAsk: a map that has a variant by another one (RELAY-68) keeps it when that
// one loses it, until the origin answers for the map: the removal may have been under way when the
// map was asked (RELAY-70, DYN-13). Without an answer it goes after a time.
func TestRemovalBeforeTheAsk(t *testing.T) {
	begin := func(constrained string) (r storeRig, one *Sub) {
		r = newStoreRig(t, OriginConfig{})
		two := r.sub(xds.EndpointType, "env=prod,v=2", true, "n")
		r.open()
		r.says(mainLane, zero, xds.EndpointType, "n"+constrained+"=old")
		isTold(t, "v=2", told(two), "n=old")
		one = r.sub(xds.EndpointType, "env=prod,v=1", true, "n")
		isTold(t, "v=1", told(one), "n=old")
		isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=1} ;")
		r.says(mainLane, zero, xds.EndpointType, "-n"+constrained)
		isTold(t, "v=2, whose answer it is", told(two), "-n")
		isTold(t, "v=1, before its answer", told(one), "nothing")
		return r, one
	}
	for _, constrained := range []string{"", "{env=prod}"} {
		r, one := begin(constrained)
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=1}=new")
		isTold(t, "v=1, answered", told(one), "n=new")
		if vs := r.group.shard(xds.EndpointType, params("env=prod,v=1")).variants("n"); len(vs) != 1 {
			t.Errorf("%d variants are held, want the new one", len(vs))
		}
		r.table.Advance(zero.Add(r.patience()))
		isTold(t, "v=1, later", told(one), "nothing")

		r, one = begin(constrained)
		r.table.Advance(zero.Add(r.patience()))
		isTold(t, "v=1, never answered", told(one), "-n")

		r, one = begin(constrained)
		r.again(zero)
		r.table.Advance(zero.Add(r.patience()))
		isTold(t, "v=1, on the next stream", told(one), "nothing")
		r.says(mainLane, zero.Add(r.patience()), xds.EndpointType, "n{env=prod,v=1}=new")
		isTold(t, "v=1, answered there", told(one), "n=new")
	}
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.EndpointType, "env=prod,v=2", true, "n")
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=old")
	o := SubOptions{TypeURL: xds.EndpointType, Delta: true, Located: true, Params: params("env=prod,v=1")}
	one := r.group.Open(NewSubscriber(), o)
	one.Update(zero, []string{"n"}, nil)
	isTold(t, "by locator", told(one), "n=old")
	r.asks(mainLane, false)
	r.says(mainLane, zero, xds.EndpointType, "-n{env=prod}")
	isTold(t, "by locator, of the variant", told(one), "-n")
}

// TestSeedOfOverlapping: of what another map's `*` has brought a new one begins with all that
// matches it, chosen among as ever (DYN-9); but of nothing whose `*` is given up, since nobody
// would say that it goes.
func TestSeedOfOverlapping(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.EndpointType, "env=prod,v=1", true, xds.Wildcard)
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n=1", "n{env=prod}=2", "n{v=1}=3")
	r.sub(xds.EndpointType, "env=prod", true, xds.Wildcard)
	r.asks(mainLane, false)
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
	member := func(p string) *member { return r.group.shard(xds.EndpointType, params(p)).star.members.get("n") }
	if m := member("env=prod"); m == nil || len(m.variants) != 2 {
		t.Errorf("the other map begins with %+v, want the two variants that match it", m)
	}
	r = newStoreRig(t, OriginConfig{})
	first := r.sub(xds.EndpointType, "v=1", true, xds.Wildcard)
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n=1")
	first.Close(zero)
	r.table.Advance(zero.Add(time.Hour))                    // linger is over, and the lane has not looked
	r.sub(xds.EndpointType, "env=prod", true, xds.Wildcard) // looked at before the other
	r.asks(mainLane, false)
	if m := member("env=prod"); m != nil {
		t.Errorf("a map begins with %+v, of a set that is given up", m)
	}
}

// TestStoreAskedBefore: a type whose last locator was taken back was asked on the stream all the
// same.
func TestStoreAskedBefore(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	s := r.sub(xds.ClusterType, "env=test", true, xds.Wildcard)
	r.open()
	s.Close(zero)
	r.table.Advance(zero.Add(time.Hour))
	isTold(t, "asked", r.asks(mainLane, false), "-*{env=test} ;")
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	asks, _ := r.group.lanes[mainLane].Take(zero, false)
	if len(asks) != 1 || asks[0].First {
		t.Errorf("asked %+v, want one ask that is not the first", asks)
	}
}
