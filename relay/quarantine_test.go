package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// refused is a rig whose main lane was refused for so many made-up types, of each of which a client
// wants the name a.
func refused(t *testing.T, types int) (*rig, []*Sub) {
	r := newRig(t, Config{Linger: -1})
	var subs []*Sub
	for i := range types {
		subs = append(subs, r.sub(fmt.Sprintf("%sexample.T%03d", xds.TypePrefix, i), true, "a"))
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

// TestTrialsGiveUpTheirRoom: a type that nobody wants any more makes room, and is tried when
// somebody does again.
func TestTrialsGiveUpTheirRoom(t *testing.T) {
	r, subs := refused(t, maxProbing+2)
	first := r.trying()
	if len(first) != maxProbing {
		t.Fatalf("%d types are tried at a time, want %d", len(first), maxProbing)
	}
	subs[0].Update(zero, nil, []string{"a"})
	if !first[0].Release() {
		t.Error("nothing is wanted, and the lane goes on")
	}
	if now := r.trying(); len(now) != maxProbing || now[maxProbing-1].OnlyType() != subs[maxProbing].typeURL {
		t.Errorf("%d types are tried, want the next in the row among them", len(now))
	}
	subs[0].Update(zero, []string{"a"}, nil)
	first[0].Release()
	subs[1].Close(zero)
	first[1].Release()
	if now := r.trying(); len(now) != maxProbing || now[0] != first[0] {
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
				t.Fatalf("%s is not", l.OnlyType())
			}
			l.RetryAt(zero.Add(time.Hour), "because")
			if !l.Release() {
				t.Fatalf("%s is still wanted", l.OnlyType())
			}
		}
	}
	for _, s := range subs {
		s.Close(zero)
	}
	if n := len(*r.group.all.Load()); n != maxIdleShards {
		t.Errorf("%d types are remembered, want %d", n, maxIdleShards)
	}
	last := r.sub(subs[len(subs)-1].typeURL, true, "a")
	r.table.Advance(zero.Add(time.Hour))
	if now := r.trying(); len(now) != 1 || now[0].OnlyType() != last.typeURL || r.group.lanes[mainLane].Wanted() {
		t.Errorf("%d types are tried, want the one that is wanted, apart", len(now))
	}
}

// TestGroupOutlivesItsTrials: a group stays for as long as somebody runs a lane of one of its
// types.
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
	if n := len(origin.Groups()); n != 1 {
		t.Errorf("%d groups, want the one whose lane is run", n)
	}
	own.Close()
	own.Release()
	r.table.Advance(zero.Add(time.Hour))
	if n := len(origin.Groups()); n != 0 {
		t.Errorf("%d groups, want none", n)
	}
}

// TestStrangersBeginApart: whoever goes on making up types that the origin ends streams for costs
// the group no more of them.
func TestStrangersBeginApart(t *testing.T) {
	r := newRig(t, Config{})
	main := r.group.lanes[mainLane]
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "c"))
	ask := func(typeURL string) bool {
		t.Helper()
		r.sub(typeURL, true, "a")
		asks, _ := main.Take(zero, false)
		return len(asks) > 0
	}
	for i := range maxProbing {
		if !ask(fmt.Sprintf("%sexample.T%03d", xds.TypePrefix, i)) {
			t.Fatalf("type %d is not asked with the others", i)
		}
		main.Refused(zero)
		main.Open(zero, 0)
		main.Take(zero, false)
		r.apply(made(xds.ClusterType, "1", nil, "c"))
	}
	for _, l := range r.trying() {
		l.Open(zero, 0)
		l.Take(zero, false)
		l.Refused(zero)
		l.RetryAt(zero.Add(time.Hour), "because")
		l.Release()
	}
	if ask(xds.RouteType) {
		t.Error("one more type that was never answered is asked with the others")
	}
	own := r.trying()
	if len(own) != 1 || own[0].OnlyType() != xds.RouteType {
		t.Fatalf("%d types are tried, want this one", len(own))
	}
	own[0].Open(zero, 0)
	own[0].Take(zero, false)
	if _, ok := own[0].Apply(zero, made(xds.RouteType, "1", nil, "a")); !ok {
		t.Error("it was not asked apart")
	}
	if asks, _ := main.Take(zero, false); len(asks) != 1 || asks[0].TypeURL != xds.RouteType {
		t.Errorf("answered it joins the others, got %+v", asks)
	}
	r.trying()
}

// TestQuarantineOnItsOwnService: where each type has lanes of its own, the end of such a stream has
// one cause, and the type rests at once. Its lanes stay the same throughout; a type that was
// answered before is not suspect (RELAY-92).
func TestQuarantineOnItsOwnService(t *testing.T) {
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", PerType: true}}})
	origin := r.table.Origin("mesh")
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.sub(xds.RuntimeType, true, "a")
	r.sub("type.example/made.up", true, "a")
	lanes := map[string]*Lane{}
	for _, l := range origin.TakeLanes() {
		lanes[l.OnlyType()] = l
		l.Open(zero, 0)
		if asks, _ := l.Take(zero, false); len(asks) != 1 {
			t.Fatalf("the lane of %q asks %+v, want one type", l.OnlyType(), asks)
		}
	}
	if len(lanes) != 3 || lanes[xds.ClusterType] == nil || lanes[xds.RuntimeType] == nil || lanes[""] != r.group.lanes[mainLane] {
		t.Fatalf("lanes are %v, want two of their own, and the group's", lanes)
	}
	clusters, runtime := lanes[xds.ClusterType], lanes[xds.RuntimeType]
	if _, ok := clusters.Apply(zero, made(xds.ClusterType, "1", nil, "c")); !ok {
		t.Error("the clusters' lane did not ask for them")
	}
	if x := clusters.Refused(zero); x.Quarantined || len(x.Suspects) > 0 {
		t.Errorf("a type that was answered is suspect: %+v", x)
	}
	if x := runtime.Refused(zero); !x.Quarantined || !x.First || x.Failures != 1 {
		t.Errorf("want quarantine, got %+v", x)
	}
	runtime.RetryAt(zero.Add(time.Second), "because")
	if runtime.Wanted() || !runtime.Release() {
		t.Error("it is asked while it rests")
	}
	if apart := apartOf(r.table); len(apart) != 1 || apart[0].TypeURL != xds.RuntimeType || apart[0].Quarantined.IsZero() {
		t.Errorf("apart is %+v, want the one in quarantine", apart)
	}
	r.table.Advance(zero.Add(time.Second))
	if now := origin.TakeLanes(); len(now) != 1 || now[0] != runtime {
		t.Fatalf("lanes to run are %v, want the one that rested", now)
	}
	runtime.Open(zero.Add(time.Second), 0)
	runtime.Take(zero.Add(time.Second), false)
	if a, ok := runtime.Apply(zero.Add(time.Second), made(xds.RuntimeType, "1", nil, "a")); !ok || !a.Released {
		t.Errorf("the answer releases it: %+v, %v", a, ok)
	}
	if apart := apartOf(r.table); len(apart) != 0 || !runtime.Wanted() {
		t.Errorf("apart is %+v, and its lane is wanted: %v", apart, runtime.Wanted())
	}
	if asks, reopen := runtime.Take(zero.Add(time.Second), false); len(asks) > 0 || reopen {
		t.Errorf("it is asked again on the same stream: %+v", asks)
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}
