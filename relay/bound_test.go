package relay

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/goleak"
)

var zero = time.Unix(1e9, 0)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a table with one group whose lanes are open.
type rig struct {
	tb    testing.TB
	table *Table
	group *Group
}

func newRig(tb testing.TB, cfg Config) *rig {
	if cfg.Origins == nil {
		cfg.Origins = []OriginConfig{{Name: "mesh"}}
	}
	table, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := table.Origin("mesh").Group(nil)
	if err != nil {
		tb.Fatal(err)
	}
	g.used.Store(true) // its clients acknowledge without saying so
	return &rig{tb, table, g}
}

// statuses are how the types of the origin's groups stand.
func statuses(t *Table) (all []TypeStatus) {
	for _, g := range t.Origin("mesh").Groups() {
		g.Lanes()
		for v := range g.Types() {
			for _, m := range v.Maps() {
				ts, _ := m.Status(nil)
				all = append(all, ts)
			}
		}
	}
	return all
}

// apartOf is how those of them stand that are not on their groups' lanes.
func apartOf(t *Table) (all []QuarantineStatus) {
	for _, g := range t.Origin("mesh").Groups() {
		for v := range g.Types() {
			if as, apart := v.Quarantined(); apart {
				all = append(all, as)
			}
		}
	}
	return all
}

func (r *rig) sub(typeURL string, delta bool, names ...string) *Sub {
	s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: typeURL, Delta: delta})
	s.Update(zero, names, nil)
	return s
}

func (r *rig) open() {
	for _, l := range r.group.lanes {
		l.Open(zero, 0)
		now := zero
		for asks, _ := l.Take(now, false); len(asks) > 0; asks, _ = l.Take(now, false) {
			now = now.Add(answerWait) // a long list goes in turns
		}
	}
}

func made(typeURL, body string, removed []string, names ...string) *xds.Update {
	u := &xds.Update{TypeURL: typeURL, Removed: removed}
	for _, n := range names {
		u.Resources = append(u.Resources, madeResource(typeURL, n, "v"+body, body))
	}
	return u
}

func (r *rig) apply(u *xds.Update) {
	r.tb.Helper()
	if _, ok := r.group.lanes[mainLane].Apply(zero, u); !ok {
		r.tb.Fatal("never asked")
	}
}

// TestTombstonesEnd: one hundred thousand names come and go while one client stands still. What is
// kept for it stays within the bound, and it is taken out as lagging; one that keeps up is told
// everything.
func TestTombstonesEnd(t *testing.T) {
	r := newRig(t, Config{})
	still, quick := r.sub(xds.ClusterType, true, xds.Wildcard), r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "stays"))
	r.table.Advance(zero.Add(time.Minute))
	if still.Take(zero) == nil || quick.Take(zero) == nil {
		t.Fatal("no first answer")
	}
	held := map[string]bool{}
	for i := range 1000 {
		names := make([]string, 100)
		for j := range names {
			names[j] = fmt.Sprintf("n%d-%d", i, j)
		}
		r.apply(made(xds.ClusterType, "1", nil, names...))
		if a := quick.Take(zero); a != nil {
			for _, v := range a.Variants {
				held[v.Name] = true
			}
		}
		r.apply(made(xds.ClusterType, "1", names))
		if a := quick.Take(zero); a != nil {
			for _, n := range a.Removed {
				delete(held, n)
			}
		}
		if ts := statuses(r.table)[0]; ts.Tombstones > ts.Members+spareTombs {
			t.Fatalf("%d tombstones for %d members", ts.Tombstones, ts.Members)
		}
		if err := r.table.Check(); i%100 == 0 && err != nil {
			t.Fatal(err)
		}
	}
	if len(held) != 0 {
		t.Errorf("the quick client still holds %d", len(held))
	}
	if !still.Standing().Lagging || still.Take(zero) != nil {
		t.Error("the client that stood still is not told to go")
	}
	if quick.Standing().Lagging {
		t.Error("the quick client lags")
	}
	still.Close(zero)
	quick.Close(zero)
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestStandStillWithoutRemovals: a client that does not take costs its position only, whatever
// changes.
func TestStandStillWithoutRemovals(t *testing.T) {
	r := newRig(t, Config{})
	still := r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "a"))
	r.table.Advance(zero.Add(time.Minute))
	still.Take(zero)
	for i := range 10_000 {
		r.apply(made(xds.ClusterType, fmt.Sprint(i), nil, "a", "b"))
	}
	a := still.Take(zero)
	if a == nil || len(a.Variants) != 2 || len(a.Removed) != 0 {
		t.Fatalf("told %+v, want the last state of two names", a)
	}
}

// TestMadeUpTypesEnd: a client that asks for ever new types does not fill the table.
func TestMadeUpTypesEnd(t *testing.T) {
	r := newRig(t, Config{Linger: -1})
	main := r.group.lanes[mainLane]
	main.Open(zero, 0)
	for i := range 10_000 {
		s := r.sub(fmt.Sprintf("type.googleapis.com/made.up.T%d", i), true, "a")
		if _, reopen := main.Take(zero, false); reopen {
			main.Close()
			main.Open(zero, 0)
			main.Take(zero, false)
		}
		s.Close(zero)
		if n := len(*r.group.all.Load()); n > maxIdleShards+2 {
			t.Fatalf("%d types are kept", n)
		}
	}
}

func TestGroupsEnd(t *testing.T) {
	r := newRig(t, Config{MaxGroups: 2, Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	n := relaytestNode()
	g, err := r.table.Origin("mesh").Group(n)
	if err != nil {
		t.Fatal(err)
	}
	n2 := relaytestNode()
	n2.Cluster = "third"
	if _, err := r.table.Origin("mesh").Group(n2); !errors.Is(err, ErrGroups) {
		t.Errorf("third group: %v", err)
	}
	g.Release(zero)
	r.table.Advance(zero.Add(2 * time.Minute))
	if _, err := r.table.Origin("mesh").Group(n2); err != nil {
		t.Errorf("after the second ended: %v", err)
	}
}

// TestConcurrentUse: subscribers, an origin and the clock at once, for the race detector; each
// client ends with the last state.
func TestConcurrentUse(t *testing.T) {
	r := newRig(t, Config{})
	const clients, changes = 8, 300
	var subs []*Sub
	for i := range clients {
		if i%2 == 0 {
			subs = append(subs, r.sub(xds.ClusterType, i%4 == 0, xds.Wildcard))
		} else {
			subs = append(subs, r.sub(xds.EndpointType, i%4 == 1, "a", "b"))
		}
	}
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "a", "b"))
	r.apply(made(xds.EndpointType, "0", nil, "a", "b"))
	r.table.Advance(zero.Add(time.Minute))

	var wg sync.WaitGroup
	last := make([]map[string]string, clients)
	stop := make(chan struct{})
	for i, s := range subs {
		last[i] = map[string]string{}
		wg.Go(func() {
			for done := false; !done; {
				select {
				case <-s.owner.Wake():
				case <-stop:
					done = true
				}
				for a := s.Take(zero); a != nil; a = s.Take(zero) {
					for _, v := range a.Variants {
						_, value, _ := xds.AnyParts(v.Any())
						last[i][v.Name] = xds.StringField(value, 2)
					}
					a.Pieces(s.delta, zero, nil)
					s.Ack(a.Receipt())
				}
			}
		})
	}
	wg.Go(func() {
		for i := range changes {
			s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: true})
			s.Update(zero, []string{fmt.Sprint("x", i)}, nil)
			r.table.Advance(zero.Add(time.Minute))
			s.Close(zero)
			statuses(r.table)
		}
	})
	for i := range changes {
		r.apply(made(xds.ClusterType, fmt.Sprint(i), nil, "a", "b"))
		r.apply(made(xds.EndpointType, fmt.Sprint(i), nil, "a", "b"))
	}
	close(stop)
	wg.Wait()
	want := fmt.Sprint(changes - 1)
	for i, held := range last {
		if held["a"] != want || held["b"] != want {
			t.Errorf("client %d ends with %v, want %s", i, held, want)
		}
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// plain is the shard of a type for no parameters; nil: there is none.
func (g *Group) plain(typeURL string) *shard {
	if k := g.store(typeURL); k != nil {
		return k.all[0]
	}
	return nil
}
