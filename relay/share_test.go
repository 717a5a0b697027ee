package relay

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestShare is RELAY-69, RELAY-70 and RELAY-71: maps that one variant serves cost one locator; who
// shares is asked for itself before it loses anything; and when who stands for the others leaves,
// one of them is asked before.
func TestShare(t *testing.T) {
	begin := func(share bool) (storeRig, *Sub, *Sub) {
		r := newStoreRig(t, OriginConfig{Share: share})
		one := r.sub(xds.EndpointType, "env=prod,v=1", true, "n")
		r.group.lanes[mainLane].Open(zero, 0)
		isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=1} ;")
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1")
		isTold(t, "v1", told(one), "n=1")
		two := r.sub(xds.EndpointType, "env=prod,v=2", true, "n")
		isTold(t, "v2", told(two), "n=1")
		return r, one, two
	}
	check := func(r storeRig) {
		t.Helper()
		if err := r.table.Check(); err != nil {
			t.Error(err)
		}
	}
	t.Run("off", func(t *testing.T) {
		r, _, _ := begin(false)
		isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=2} ;")
	})
	t.Run("one locator, and both follow", func(t *testing.T) {
		r, one, two := begin(true)
		isTold(t, "asked", r.asks(mainLane, false), "")
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=2")
		isTold(t, "v1", told(one), "n=2")
		isTold(t, "v2", told(two), "n=2")
		r.group.lanes[mainLane].Close()
		r.group.lanes[mainLane].Open(zero, 0)
		isTold(t, "asked on the next stream", r.asks(mainLane, false), "+n{env=prod,v=1} ;")
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=3")
		isTold(t, "v2", told(two), "n=3")
		check(r)
	})
	t.Run("not before the first answer", func(t *testing.T) {
		r := newStoreRig(t, OriginConfig{Share: true})
		r.sub(xds.EndpointType, "env=prod,v=1", true, "n")
		r.sub(xds.EndpointType, "env=prod,v=2", true, "n")
		r.group.lanes[mainLane].Open(zero, 0)
		isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=1} +n{env=prod,v=2} ;")
	})
	t.Run("not what must not be cached", func(t *testing.T) {
		r := newStoreRig(t, OriginConfig{Share: true})
		r.sub(xds.EndpointType, "env=prod,v=1", true, "n")
		r.open()
		u := r.update(xds.EndpointType, "n{env=prod}=1")
		u.Resources[0].DoNotCache = true
		r.group.lanes[mainLane].Apply(zero, u)
		r.sub(xds.EndpointType, "env=prod,v=2", true, "n")
		isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=2} ;")
	})
	t.Run("a split that the origin states for the map it knows alone", func(t *testing.T) {
		r, one, two := begin(true)
		r.asks(mainLane, false)
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=1}=a", "-n{env=prod}")
		isTold(t, "v1", told(one), "n=a")
		isTold(t, "v2", told(two), "nothing")
		isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=2} ;")
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=2}=b")
		isTold(t, "v2", told(two), "n=b")
		if e := r.group.store(xds.EndpointType).all[1].named.entries["n"]; len(e.variants) != 1 {
			t.Errorf("it holds %d variants, want the new one alone", len(e.variants))
		}
		check(r)
	})
	t.Run("what is kept is kept for cold_wait from the question on", func(t *testing.T) {
		r, _, two := begin(true)
		r.asks(mainLane, false)
		at := zero.Add(time.Hour) // nobody has asked or been told anything for long
		r.says(mainLane, at, xds.EndpointType, "n{env=prod,v=1}=a", "-n{env=prod}")
		r.group.lanes[mainLane].Take(at.Add(2*time.Second), false)
		r.table.Advance(at.Add(11 * time.Second))
		isTold(t, "v2", told(two), "nothing")
		r.table.Advance(at.Add(12 * time.Second))
		isTold(t, "v2", told(two), "-n")
		check(r)
	})
	t.Run("what is kept is kept while the origin is away", func(t *testing.T) { // RELAY-2
		r, _, two := begin(true)
		r.asks(mainLane, false)
		lane, at := r.group.lanes[mainLane], zero
		r.says(mainLane, at, xds.EndpointType, "n{env=prod,v=1}=a", "-n{env=prod}")
		later := func(d time.Duration) {
			at = at.Add(d)
			r.table.Advance(at)
		}
		lane.Close() // before the other map is asked
		later(time.Hour)
		isTold(t, "v2, not asked", told(two), "nothing")
		for range 5 { // and each stream ends before cold_wait has passed
			lane.Open(at, 0)
			lane.Take(at, false)
			later(9 * time.Second)
			lane.Close()
			later(9 * time.Second)
		}
		isTold(t, "v2, asked in vain", told(two), "nothing")
		three := r.sub(xds.EndpointType, "env=prod,v=2", true, "n")
		isTold(t, "who comes now", told(three), "n=1")
		lane.Open(at, 0)
		lane.Take(at, false)
		later(9 * time.Second)
		isTold(t, "v2, before cold_wait", told(two), "nothing")
		later(time.Second)
		isTold(t, "v2, after cold_wait", told(two), "-n")
		check(r)
	})
	t.Run("what is kept is kept while the answer may be arriving", func(t *testing.T) {
		r, _, two := begin(true)
		r.asks(mainLane, false)
		lane := r.group.lanes[mainLane]
		var arriving Arrivals
		lane.Over(&arriving)
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=1}=a", "-n{env=prod}")
		lane.Take(zero, false)
		arriving.Bytes(zero.Add(8*time.Second), 1<<20)
		r.table.Advance(zero.Add(17 * time.Second))
		isTold(t, "v2, while bytes arrive", told(two), "nothing")
		r.table.Advance(zero.Add(18 * time.Second))
		isTold(t, "v2, cold_wait after them", told(two), "-n")
		check(r)
	})
	t.Run("a split that states both", func(t *testing.T) {
		r, one, two := begin(true)
		r.asks(mainLane, false)
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=1}=a", "n{env=prod,v=2}=b", "-n{env=prod}")
		isTold(t, "v1", told(one), "n=a")
		isTold(t, "v2", told(two), "n=b")
		isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=2} ;")
		check(r)
	})
	t.Run("a split, and what it brought goes before the other map is asked", func(t *testing.T) {
		for answer, want := range map[string]string{"-n": "-n", "n{env=prod}=c": "n=c"} {
			r, _, two := begin(true)
			r.asks(mainLane, false)
			r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=1}=a", "n{env=prod,v=2}=b", "-n{env=prod}")
			isTold(t, "v2", told(two), "n=b")
			r.says(mainLane, zero, xds.EndpointType, "-n{env=prod,v=2}")
			isTold(t, "v2 before it was asked", told(two), "nothing")
			isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=2} ;")
			r.says(mainLane, zero, xds.EndpointType, answer)
			r.table.Advance(zero.Add(r.table.config().FirmSettle))
			isTold(t, "v2 after "+answer, told(two), want)
			check(r)
		}
	})
	t.Run("who stands for others leaves, and another one is asked already", func(t *testing.T) {
		r := newStoreRig(t, OriginConfig{Share: true})
		one := r.sub(xds.EndpointType, "env=prod,v=1", true, "n")
		r.sub(xds.EndpointType, "env=prod,v=2", true, "n")
		r.group.lanes[mainLane].Open(zero, 0)
		isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=1} +n{env=prod,v=2} ;")
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1")
		three, four := r.sub(xds.EndpointType, "env=prod,v=3", true, "n"), r.sub(xds.EndpointType, "env=prod,v=4", true, "n")
		isTold(t, "v3 and v4", told(three)+" "+told(four), "n=1 n=1")
		isTold(t, "asked", r.asks(mainLane, false), "")
		one.Close(zero)
		r.table.Advance(zero.Add(time.Hour))
		isTold(t, "asked", r.asks(mainLane, false), "-n{env=prod,v=1} ;")
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=2")
		isTold(t, "v3 and v4", told(three)+" "+told(four), "n=2 n=2")
		check(r)
	})
	t.Run("removed, and absent for the other map too", func(t *testing.T) {
		for _, answer := range []string{"-n", "-n{env=prod}"} {
			r, one, two := begin(true)
			r.asks(mainLane, false)
			r.says(mainLane, zero, xds.EndpointType, "-n{env=prod}")
			isTold(t, "v1", told(one), "-n")
			isTold(t, "v2 before it was asked", told(two), "nothing")
			isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=2} ;")
			r.says(mainLane, zero, xds.EndpointType, answer)
			isTold(t, "v2", told(two), "-n")
			check(r)
		}
	})
	t.Run("an absence that may be another map's is no answer", func(t *testing.T) { // DYN-13
		for _, variant := range []string{"n{env=prod}", "n"} {
			for _, asked := range []bool{true, false} {
				r := newStoreRig(t, OriginConfig{Share: true})
				r.sub(xds.EndpointType, "env=prod,v=1", true, "n")
				r.open()
				r.says(mainLane, zero, xds.EndpointType, variant+"=1")
				two := r.sub(xds.EndpointType, "env=prod,v=2", true, "n")
				isTold(t, "v2", told(two), "n=1")
				r.asks(mainLane, false)
				r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=1}=a", "-"+variant)
				three := r.sub(xds.EndpointType, "env=test", true, "n")
				if asked {
					isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=2} +n{env=test} ;")
				}
				r.says(mainLane, zero, xds.EndpointType, "-n")
				isTold(t, "v2, of "+variant, told(two), "nothing")
				if asked {
					isTold(t, "test", told(three), "-n")
				}
				r.asks(mainLane, false)
				r.says(mainLane, zero, xds.EndpointType, "n{env=prod,v=2}=b")
				isTold(t, "v2, answered", told(two), "n=b")
				r.table.Advance(zero.Add(time.Hour))
				isTold(t, "v2, later", told(two), "nothing")
				check(r)
			}
		}
	})
	t.Run("removed, and no answer", func(t *testing.T) {
		r, _, two := begin(true)
		r.asks(mainLane, false)
		r.says(mainLane, zero, xds.EndpointType, "-n{env=prod}")
		r.asks(mainLane, false)
		r.table.Advance(zero.Add(r.table.config().ColdWait - time.Second))
		isTold(t, "v2", told(two), "nothing")
		r.table.Advance(zero.Add(r.table.config().ColdWait))
		isTold(t, "v2 after cold_wait", told(two), "-n")
		check(r)
	})
	t.Run("who stands for the other leaves", func(t *testing.T) {
		r, one, two := begin(true)
		r.asks(mainLane, false)
		one.Close(zero)
		r.table.Advance(zero.Add(time.Hour))
		list, _ := r.group.lanes[mainLane].Take(zero, false)
		if len(list) != 1 || len(list[0].Subscribe) != 1 || list[0].Subscribe[0].Params.Key() != `"env"="prod","v"="2"` {
			t.Fatalf("asked %+v, want the other map first", list)
		}
		if len(list[0].Unsubscribe) == 0 {
			isTold(t, "asked then", r.asks(mainLane, false), "-n{env=prod,v=1} ;")
		}
		r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=2")
		isTold(t, "v2", told(two), "n=2")
		check(r)
	})
}

// TestSharedAfterLapse: a name that left the request comes back to it by another map, which is asked
// and has the same. So it is not asked, and its client does not wait for an answer (RELAY-99).
func TestSharedAfterLapse(t *testing.T) {
	r := newStoreRig(t, OriginConfig{Share: true, SotW: true})
	r.sub(xds.ClusterType, "env=prod,v=1", true, "n")
	two := r.sub(xds.ClusterType, "env=prod,v=2", true, "n")
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=1} +n{env=prod,v=2} ;")
	r.says(mainLane, zero, xds.ClusterType, "n{env=prod}=1")
	isTold(t, "v2", told(two), "n=1")
	two.Close(zero)
	isTold(t, "asked without v2", r.asks(mainLane, false), "-n{env=prod,v=2} ;")
	three := r.sub(xds.ClusterType, "env=prod,v=2", true, "n")
	isTold(t, "v2 before it is looked at", told(three), "nothing")
	isTold(t, "asked with v2 again", r.asks(mainLane, false), "")
	isTold(t, "v2 again", told(three), "n=1")
	r.says(mainLane, zero, xds.ClusterType, "n{env=prod}=2")
	isTold(t, "v2, later", told(three), "n=2")
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}
