package relay

import (
	"fmt"
	"testing"
	"time"
)

// refused is a rig whose main lane was refused for so many made-up types, of each of which a client wants the name a.
func refused(t *testing.T, types int) (*rig, []*Sub) {
	r := newRig(t, Config{Linger: -1})
	var subs []*Sub
	for i := range types {
		subs = append(subs, r.sub(fmt.Sprintf("%sexample.T%03d", typePrefix, i), true, "a"))
	}
	r.open()
	if n := len(r.group.lanes[mainLane].Refused(zero).Suspects); n != types {
		t.Fatalf("%d suspects of %d types", n, types)
	}
	return r, subs
}

// trying are the types under way on lanes of their own.
func (r *rig) trying() (ls []*Lane) {
	r.tb.Helper()
	if err := r.table.Check(); err != nil {
		r.tb.Fatal(err)
	}
	for _, s := range *r.group.all.Load() {
		if l := s.lane(mainLane); l.only != nil && l.Wanted() {
			ls = append(ls, l)
		}
	}
	return ls
}

// TestTrialsGiveUpTheirRoom: a type that nobody wants any more makes room, and is tried when somebody does again.
func TestTrialsGiveUpTheirRoom(t *testing.T) {
	r, subs := refused(t, maxTrials+2)
	first := r.trying()
	if len(first) != maxTrials {
		t.Fatalf("%d types are tried at a time, want %d", len(first), maxTrials)
	}
	subs[0].Update(zero, nil, []string{"a"})
	if !first[0].Release() {
		t.Error("nothing is wanted, and the lane goes on")
	}
	if now := r.trying(); len(now) != maxTrials || now[maxTrials-1].Apart() != subs[maxTrials].TypeURL() {
		t.Errorf("%d types are tried, want the next in the row among them", len(now))
	}
	subs[0].Update(zero, []string{"a"}, nil)
	first[0].Release()
	subs[1].Close(zero)
	first[1].Release()
	if now := r.trying(); len(now) != maxTrials || now[0] != first[0] {
		t.Errorf("%d types are tried, want the first of them again", len(now))
	}
}

// TestQuarantineIsRemembered: what clients can make us remember is bounded.
func TestQuarantineIsRemembered(t *testing.T) {
	r, subs := refused(t, maxIdleShards+50)
	for n := 0; n < len(subs); {
		for _, l := range r.trying() {
			n++
			l.Open(zero, 0)
			l.Take(zero, false)
			if !l.Refused(zero).Quarantined {
				t.Fatalf("%s is not", l.Apart())
			}
			l.Rest(zero.Add(time.Hour), "because")
			if !l.Release() {
				t.Fatalf("%s is still wanted", l.Apart())
			}
		}
	}
	for _, s := range subs {
		s.Close(zero)
	}
	if n := len(*r.group.all.Load()); n != maxIdleShards {
		t.Errorf("%d types are remembered, want %d", n, maxIdleShards)
	}
	last := r.sub(subs[len(subs)-1].TypeURL(), true, "a")
	r.table.Advance(zero.Add(time.Hour))
	if now := r.trying(); len(now) != 1 || now[0].Apart() != last.TypeURL() || r.group.lanes[mainLane].Wanted() {
		t.Errorf("%d types are tried, want the one that is wanted, apart", len(now))
	}
}

// TestGroupOutlivesItsTrials: a group stays for as long as somebody runs a lane of one of its types.
func TestGroupOutlivesItsTrials(t *testing.T) {
	r, subs := refused(t, 1)
	own, origin := r.trying()[0], r.table.Origin("mesh")
	origin.TakeLanes()
	r.group.lanes[mainLane].Release()
	own.Open(zero, 0)
	own.Take(zero, false)
	subs[0].Close(zero)
	own.Take(zero, false)
	r.group.Release(zero)
	r.table.Advance(zero.Add(10 * time.Second))
	if n := len(origin.Status()); n != 1 {
		t.Errorf("%d groups, want the one whose lane is run", n)
	}
	own.Close()
	own.Release()
	r.table.Advance(zero.Add(time.Hour))
	if n := len(origin.Status()); n != 0 {
		t.Errorf("%d groups, want none", n)
	}
}
