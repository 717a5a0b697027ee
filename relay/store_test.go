package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// params reads k=v,k=v.
func params(text string) constraints.Params {
	m := map[string]string{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		k, v, _ := strings.Cut(word, "=")
		m[k] = v
	}
	return constraints.NewParams(m)
}

// compile reads constraints that hold all together: k=v, or !k for a key that is not there.
func compile(tb testing.TB, text string) *constraints.Set {
	tb.Helper()
	set, err := constraints.Compile(constrain(text))
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// constrain is them as a message.
func constrain(text string) *discoveryv3.DynamicParameterConstraints {
	type c = discoveryv3.DynamicParameterConstraints
	var all []*c
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		k, v, valued := strings.Cut(strings.TrimPrefix(word, "!"), "=")
		one := &discoveryv3.DynamicParameterConstraints_SingleConstraint{Key: k}
		one.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{}
		if valued {
			one.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: v}
		}
		x := &c{Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: one}}
		if word[0] == '!' {
			x = &c{Type: &discoveryv3.DynamicParameterConstraints_NotConstraints{NotConstraints: x}}
		}
		all = append(all, x)
	}
	return &c{Type: &discoveryv3.DynamicParameterConstraints_AndConstraints{
		AndConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: all},
	}}
}

// kinRig is a rig whose origin understands locators. Words are NAME{CONSTRAINTS}=BODY, and
// -NAME{CONSTRAINTS}.
type storeRig struct{ *rig }

func newStoreRig(tb testing.TB, o OriginConfig) storeRig {
	o.Name, o.TP2 = "mesh", true
	return storeRig{newRig(tb, Config{Origins: []OriginConfig{o}})}
}

func cutBraces(word string) (name, inner, rest string) {
	name, more, ok := strings.Cut(word, "{")
	if !ok {
		name, rest, _ = strings.Cut(word, "=")
		return name, "", rest
	}
	inner, rest, _ = strings.Cut(more, "}")
	return name, inner, strings.TrimPrefix(rest, "=")
}

func (r storeRig) sub(typeURL, p string, delta bool, names ...string) *Sub {
	s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: typeURL, Delta: delta, Params: params(p)})
	if delta {
		s.Update(zero, names, nil)
		return s
	}
	i := slices.Index(names, xds.Wildcard)
	if i >= 0 {
		names = slices.Delete(slices.Clone(names), i, i+1)
	}
	s.Replace(zero, names, i >= 0)
	return s
}

func (r storeRig) update(typeURL string, words ...string) *xds.Update {
	u := &xds.Update{TypeURL: typeURL, Full: r.table.Origin("mesh").config().SotW}
	for _, word := range words {
		name, inner, body := cutBraces(strings.TrimPrefix(word, "-"))
		switch set := compile(r.tb, inner); {
		case word[0] != '-':
			x := madeResource(typeURL, name, "v"+body, body)
			x.Constraints = set
			u.Resources = append(u.Resources, x)
		case set == nil:
			u.Removed = append(u.Removed, name)
		default:
			u.RemovedVariants = append(u.RemovedVariants, xds.RemovedVariant{Name: name, Constraints: set.Key(), Set: set})
		}
	}
	return u
}

func (r storeRig) says(lane laneIndex, now time.Time, typeURL string, words ...string) {
	r.tb.Helper()
	if _, ok := r.group.lanes[lane].Apply(now, r.update(typeURL, words...)); !ok {
		r.tb.Fatal("never asked")
	}
}

// asks is what a lane asks now, in words.
func (r storeRig) asks(lane laneIndex, all bool) string {
	var out []string
	say := func(sign string, ns []Name) {
		for _, n := range ns {
			out = append(out, fmt.Sprintf("%s%s{%s}", sign, n.Name, strings.ReplaceAll(n.Params.Key(), `"`, "")))
		}
	}
	list, _ := r.group.lanes[lane].Take(zero, all)
	for _, a := range list {
		if a.Wildcard {
			r.tb.Error("a plain wildcard at an origin with locators")
		}
		if a.Initial != nil {
			r.tb.Error("versions presented of what is asked by locator (DYN-20)")
		}
		if all {
			say("=", a.All)
		} else {
			say("+", a.Subscribe)
			say("-", a.Unsubscribe)
		}
		out = append(out, ";")
	}
	return strings.Join(out, " ")
}

// told is what a Sub is told now, in words.
func told(s *Sub) string {
	a := s.Take(zero)
	if a == nil {
		return "nothing"
	}
	var out []string
	for _, v := range a.Variants {
		out = append(out, v.Name+"="+xds.StringField(payloadOf(v), 2))
	}
	for _, name := range a.Removed {
		out = append(out, "-"+name)
	}
	slices.Sort(out)
	s.Ack(a.Receipt())
	return strings.Join(out, " ")
}

func payloadOf(v *xds.Variant) []byte {
	_, b, _ := xds.AnyParts(v.Any())
	return b
}

func isTold(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// TestStoreByName: two maps of one name are two subscriptions (DYN-2), each gets its variant (DYN-8)
// and follows it alone (DYN-5), and what is absent for one is not for the other (DYN-13).
func TestStoreByName(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	prod, test := r.sub(xds.EndpointType, "env=prod", true, "n"), r.sub(xds.EndpointType, "env=test", true, "n")
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod} +n{env=test} ;")
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1", "n{env=test}=2")
	isTold(t, "prod", told(prod), "n=1")
	isTold(t, "test", told(test), "n=2")
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=3")
	isTold(t, "prod", told(prod), "n=3")
	isTold(t, "test", told(test), "nothing")
	r.says(mainLane, zero, xds.EndpointType, "-n")
	isTold(t, "prod after the removal of the plain name", told(prod), "nothing")
	r.says(mainLane, zero, xds.EndpointType, "-n{env=prod}")
	isTold(t, "prod", told(prod), "-n")
	isTold(t, "test", told(test), "nothing")
	same := r.sub(xds.EndpointType, "env=prod", true, "n")
	isTold(t, "asked for an equal map", r.asks(mainLane, false), "")
	isTold(t, "the same map later", told(same), "-n")
	prod.Close(zero)
	same.Close(zero)
	r.table.Advance(zero.Add(time.Hour))
	isTold(t, "asked when it is left", r.asks(mainLane, false), "-n{env=prod} ;")
}

// TestStoreSplit: a variant is replaced by two, and later by one again: one update for whoever is
// concerned, and no removal (DYN-10).
func TestStoreSplit(t *testing.T) {
	for _, sotw := range []bool{false, true} {
		r := newStoreRig(t, OriginConfig{SotW: sotw})
		one, two := r.sub(xds.ClusterType, "env=prod,v=1", true, "n"), r.sub(xds.ClusterType, "env=prod,v=2", true, "n")
		r.open()
		r.says(mainLane, zero, xds.ClusterType, "n{env=prod}=old")
		isTold(t, "v1", told(one), "n=old")
		isTold(t, "v2", told(two), "n=old")
		split := []string{"n{env=prod,v=1}=a", "n{env=prod,v=2}=b", "-n{env=prod}"}
		merge := []string{"n{env=prod}=new", "-n{env=prod,v=1}", "-n{env=prod,v=2}"}
		if sotw { // the list says it
			split, merge = split[:2], merge[:1]
		}
		r.says(mainLane, zero, xds.ClusterType, split...)
		isTold(t, "v1", told(one), "n=a")
		isTold(t, "v2", told(two), "n=b")
		r.says(mainLane, zero, xds.ClusterType, merge...)
		isTold(t, "v1", told(one), "n=new")
		isTold(t, "v2", told(two), "n=new")
		if err := r.table.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestStoreLiveVariant: a new map is answered at once by what matches it, before the origin has
// spoken for it, and asked all the same (RELAY-68); one that nothing matches waits (DYN-8).
func TestStoreLiveVariant(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.EndpointType, "env=prod", true, "n")
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1")
	more, test := r.sub(xds.EndpointType, "env=prod,v=1", true, "n"), r.sub(xds.EndpointType, "env=test", true, "n")
	isTold(t, "a map that the variant matches", told(more), "n=1")
	isTold(t, "one that it does not", told(test), "nothing")
	isTold(t, "asked", r.asks(mainLane, false), "+n{env=prod,v=1} +n{env=test} ;")
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=2")
	isTold(t, "the new map follows", told(more), "n=2")
}

// TestStoreWildcards: `*` has its own set for each map, asked and left by locator without another
// stream.
func TestStoreWildcards(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	prod, test := r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard), r.sub(xds.ClusterType, "env=test", true, xds.Wildcard)
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked", r.asks(mainLane, false), "+*{env=prod} +*{env=test} ;")
	r.says(mainLane, zero, xds.ClusterType, "n{env=prod}=1", "n{env=test}=2", "m=3")
	r.table.Advance(zero.Add(time.Minute))
	isTold(t, "prod", told(prod), "m=3 n=1")
	isTold(t, "test", told(test), "m=3 n=2")
	r.says(mainLane, zero, xds.ClusterType, "m=4")
	isTold(t, "prod", told(prod), "m=4")
	isTold(t, "test", told(test), "m=4")
	r.says(mainLane, zero, xds.ClusterType, "-n{env=test}")
	isTold(t, "prod", told(prod), "nothing")
	isTold(t, "test", told(test), "-n")
	test.Close(zero)
	r.table.Advance(zero.Add(time.Hour))
	list, reopen := r.group.lanes[mainLane].Take(zero, false)
	if reopen || len(list) != 1 || len(list[0].Unsubscribe) != 1 || list[0].Unsubscribe[0].Params.Key() != `"env"="test"` {
		t.Errorf("asked %+v, another stream %t, want one unsubscribe by locator", list, reopen)
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestStoreWildcardSeeded: an origin that does not send twice on a stream what has not changed
// answers a second map with nothing new.
func TestStoreWildcardSeeded(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	r.open()
	r.says(mainLane, zero, xds.ClusterType, "n{env=prod}=1", "m=1")
	both, test := r.sub(xds.ClusterType, "env=prod,v=1", true, xds.Wildcard), r.sub(xds.ClusterType, "env=test", true, xds.Wildcard)
	r.asks(mainLane, false)
	isTold(t, "before the answer", told(both), "nothing")
	r.says(mainLane, zero, xds.ClusterType)
	r.table.Advance(zero.Add(time.Minute))
	isTold(t, "a map that matches", told(both), "m=1 n=1")
	isTold(t, "one that matches in part", told(test), "m=1")
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestStoreSilentWildcard: a response that has nothing for a map is an answer to its `*`, if no other
// comes for a while; until then the client waits for what may be under way.
func TestStoreSilentWildcard(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	prod, test := r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard), r.sub(xds.ClusterType, "env=test", true, xds.Wildcard)
	r.open()
	r.says(mainLane, zero, xds.ClusterType, "n{env=prod}=1")
	r.table.Advance(zero.Add(r.table.config().Settle))
	isTold(t, "prod", told(prod), "n=1")
	isTold(t, "test, too early", told(test), "nothing")
	r.table.Advance(zero.Add(r.table.config().FirmSettle))
	if a := test.Take(zero); a == nil || !a.empty() {
		t.Errorf("test was told %+v, want an empty answer (DELTA-13)", a)
	}
}

// TestStoreSotWList: a request of state of the world lists the locators of all maps, and a list that
// was made before a map was asked does not settle it.
func TestStoreSotWList(t *testing.T) {
	r := newStoreRig(t, OriginConfig{SotW: true})
	prod := r.sub(xds.ClusterType, "env=prod", false, xds.Wildcard)
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked", r.asks(mainLane, true), "=*{env=prod} ;")
	test := r.sub(xds.ClusterType, "env=test", false, xds.Wildcard)
	now := zero.Add(time.Second)
	asks, _ := r.group.lanes[mainLane].Take(now, true)
	if len(asks) != 1 || len(asks[0].All) != 2 {
		t.Fatalf("asked %+v, want both", asks)
	}
	r.says(mainLane, now, xds.ClusterType, "n{env=prod}=1", "m=1")
	isTold(t, "prod", told(prod), "m=1 n=1")
	isTold(t, "test, of a list made before it was asked", told(test), "nothing")
	r.says(mainLane, now, xds.ClusterType, "n{env=prod}=1", "n{env=test}=2", "m=1")
	isTold(t, "test", told(test), "m=1 n=2")
}

// TestStoreRemovalDoubts: what a map has by that of another was renamed before it was asked for this
// one. The removal of the variant that took its place says of this map, too, that there is none.
func TestStoreRemovalDoubts(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.EndpointType, "env=prod", true, "n")
	r.group.lanes[mainLane].Open(zero, 0)
	r.asks(mainLane, false)
	r.says(mainLane, zero, xds.EndpointType, "n{}=1")
	test := r.sub(xds.EndpointType, "env=test", true, "n")
	isTold(t, "test", told(test), "n=1")
	r.says(mainLane, zero, xds.EndpointType, "n{!v}=1", "-n")
	r.asks(mainLane, false)
	r.says(mainLane, zero, xds.EndpointType, "-n{!v}")
	isTold(t, "test", told(test), "nothing")
	r.table.Advance(zero.Add(r.patience()))
	isTold(t, "test, later", told(test), "-n")
}

// TestStoreLanes: names are not asked on the stream that carries `*` of any map, since what it brings
// cannot be told apart (RELAY-20).
func TestStoreLanes(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	name := r.sub(xds.ClusterType, "env=test", true, "n")
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked", r.asks(mainLane, false), "+n{env=test} ;")
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	if _, reopen := r.group.lanes[mainLane].Take(zero, false); reopen {
		t.Error("the main lane is given up before the side lane has asked the names")
	}
	r.group.lanes[sideLane].Open(zero, 0)
	isTold(t, "asked on the side lane", r.asks(sideLane, false), "+n{env=test} ;")
	if _, reopen := r.group.lanes[mainLane].Take(zero, false); !reopen {
		t.Error("the main lane is not opened anew")
	}
	r.group.lanes[mainLane].Close()
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked on the main lane", r.asks(mainLane, false), "+*{env=prod} ;")
	r.says(mainLane, zero, xds.ClusterType, "n=set")
	isTold(t, "the name, of a body that came for `*`", told(name), "nothing")
	r.says(sideLane, zero, xds.ClusterType, "n{env=test}=own")
	isTold(t, "the name", told(name), "n=own")
	later := r.sub(xds.ClusterType, "env=qa", true, "n")
	isTold(t, "asked for another map", r.asks(mainLane, false), "")
	isTold(t, "asked for another map on the side lane", r.asks(sideLane, false), "+n{env=qa} ;")
	_ = later
}

// TestStoreLaneLeft: names of two maps are to move to the side lane, as `*` was asked for a third.
// One of the maps ends before that lane can ask the names of the other. The main lane was asked for
// the type all the same, so what it brings is acknowledged until it is opened anew (RELAY-31).
func TestStoreLaneLeft(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	left := r.sub(xds.ClusterType, "env=test", true, "n")
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked", r.asks(mainLane, false), "+n{env=test} ;")
	r.sub(xds.ClusterType, "env=qa", true, "n")
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	isTold(t, "asked while the names move", r.asks(mainLane, false), "")
	left.Close(zero)
	r.table.Advance(zero.Add(time.Hour))
	r.says(mainLane, zero, xds.ClusterType, "n{env=test}=1")
	r.group.lanes[sideLane].Open(zero, 0)
	isTold(t, "asked on the side lane", r.asks(sideLane, false), "+n{env=qa} ;")
	if _, reopen := r.group.lanes[mainLane].Take(zero, false); !reopen {
		t.Error("the main lane is not opened anew")
	}
	r.group.lanes[mainLane].Close()
	if n := len(r.group.store(xds.ClusterType).all); n != 2 {
		t.Errorf("%d maps are held, want those of `*` and of the name", n)
	}
}

// TestStoreStrays: what no map asked for is counted once, and what one of them asked for is not
// (RELAY-28), in whichever order.
func TestStoreStrays(t *testing.T) {
	for words, want := range map[string][2]int{
		"n=1 m{env=test}=1 x=1 n{env=qa}=1": {2, 1}, // x, and the variant for qa
		"n{env=qa}=1 n{env=prod}=1":         {1, 1},
		"b{env=prod}=1 b{env=test}=1":       {0, 0},
		// that map has clients, but none of them asks for n
		"n{env=test}=1 n{env=prod}=1":        {1, 0},
		"x{env=qa}=1 -x -y{env=qa}":          {1, 1},
		"b{env=prod}=1 b{!env}=1 b{env=qa}=": {2, 2},
	} {
		r := newStoreRig(t, OriginConfig{})
		r.sub(xds.EndpointType, "env=prod", true, "n", "b")
		r.sub(xds.EndpointType, "env=test", true, "m", "b")
		r.open()
		a, _ := r.group.lanes[mainLane].Apply(zero, r.update(xds.EndpointType, strings.Fields(words)...))
		if got := [2]int{a.Unrequested, a.Unmatched}; got != want {
			t.Errorf("%s: unrequested and unmatched %v, want %v", words, got, want)
		}
	}
}

// TestStoreStrayErrors likewise.
func TestStoreStrayErrors(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.EndpointType, "env=prod", true, "n")
	r.sub(xds.EndpointType, "env=test", true, "m")
	r.open()
	u := r.update(xds.EndpointType, "n{env=prod}=1")
	u.Errors = []*NameError{{Name: "m", Code: 13}, {Name: "x", Code: 13}}
	if a, _ := r.group.lanes[mainLane].Apply(zero, u); a.Unrequested != 1 || a.Unmatched != 0 {
		t.Errorf("unrequested %d, unmatched %d, want the error of x alone", a.Unrequested, a.Unmatched)
	}
}

// TestStoreImage: what a snapshot keeps is for one map, and comes back for it.
func TestStoreImage(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.EndpointType, "env=prod", true, "n")
	r.sub(xds.EndpointType, "env=test", true, "n")
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1", "n{env=test}=2")
	back := newStoreRig(t, OriginConfig{})
	back.group.Release(zero)
	for x := range r.table.Images(func(*TypeImage) uint64 { return 0 }) {
		if err := back.table.Restore(zero, x); err != nil {
			t.Fatal(err)
		}
	}
	isTold(t, "prod", told(back.sub(xds.EndpointType, "env=prod", true, "n")), "n=1")
	isTold(t, "test", told(back.sub(xds.EndpointType, "env=test", true, "n")), "n=2")
	isTold(t, "both", told(back.sub(xds.EndpointType, "env=qa", true, "n")), "nothing")
}

// TestStoreMassSplitIsNoLoss: an origin that comes back with every variant split, or merged again,
// takes nothing away from anybody, so nothing of it is held back as a mass removal (RELAY-97).
func TestStoreMassSplitIsNoLoss(t *testing.T) {
	guard := gate.GuardConfig{Share: 0.5, Min: 10, Hold: 30 * time.Second}
	for _, by := range []string{"name", "*"} {
		r := newStoreRig(t, OriginConfig{Guard: guard})
		var names, held, split, merge []string
		for i := range 20 {
			n := fmt.Sprintf("n%d", i)
			names, held = append(names, n), append(held, n+"{env=prod}=old")
			split = append(split, n+"{env=prod,v=1}=a", n+"{env=prod,v=2}=b", "-"+n+"{env=prod}")
			merge = append(merge, n+"{env=prod}=new", "-"+n+"{env=prod,v=1}", "-"+n+"{env=prod,v=2}")
		}
		if by == xds.Wildcard {
			names = []string{xds.Wildcard}
		}
		s := r.sub(xds.ClusterType, "env=prod,v=1", true, names...)
		r.open()
		now := zero.Add(time.Minute)
		r.says(mainLane, zero, xds.ClusterType, held...)
		r.table.Advance(now)
		s.Take(now)
		for _, words := range [][]string{split, merge} {
			r.group.lanes[mainLane].Close()
			r.group.lanes[mainLane].Open(now, 0)
			r.group.lanes[mainLane].Take(now, false)
			r.says(mainLane, now, xds.ClusterType, words...)
			a := s.Take(now)
			if a == nil || len(a.Variants) != 20 || len(a.Removed) != 0 {
				t.Fatalf("by %s: told %+v of %s..., want twenty bodies", by, a, words[0])
			}
			if held, _ := r.group.plain(xds.ClusterType).guarded(true); held > 0 {
				t.Errorf("by %s: %d removals are held", by, held)
			}
		}
	}
}

// TestStoreResponseConcernsOneMap: a response with variants for one map is applied to that map
// alone, once the sets of the others wait for nothing. Those that wait are told that there was a
// response.
func TestStoreResponseConcernsOneMap(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	var subs []*Sub
	for i := range 8 {
		subs = append(subs, r.sub(xds.ClusterType, fmt.Sprintf("id=%d", i), true, xds.Wildcard))
	}
	r.open()
	k, says := r.group.store(xds.ClusterType), func(now time.Time, i int, body string) {
		r.says(mainLane, now, xds.ClusterType, fmt.Sprintf("n{id=%d}=%s", i, body))
	}
	u := r.update(xds.ClusterType, "n{id=0}=1")
	concerned := func() int {
		all, _ := k.concerned(&update{Update: *u}, mainLane, r.group.lanes[mainLane].gen.Load())
		return len(all)
	}
	says(zero, 0, "1")
	if n := concerned(); n != 8 {
		t.Errorf("%d maps are concerned before the sets are complete, want all", n)
	}
	now := zero.Add(time.Minute)
	r.table.Advance(now)
	says(now, 0, "2")
	if n := concerned(); n != 1 {
		t.Errorf("%d maps are concerned, want one", n)
	}
	says(now, 1, "1")
	isTold(t, "the one it is for", told(subs[1]), "n=1")
	late := r.sub(xds.ClusterType, "id=9", true, xds.Wildcard)
	r.asks(mainLane, false)
	if n := concerned(); n != 9 {
		t.Errorf("%d maps are concerned while one waits for its first answer, want all", n)
	}
	says(now, 0, "3")
	if n := concerned(); n != 9 {
		t.Errorf("%d maps are concerned while one waits for the pause after its first answer, want all", n)
	}
	r.table.Advance(now.Add(time.Minute))
	if a := late.Take(now); a == nil || !a.empty() {
		t.Errorf("the late one was told %+v, want an empty answer (DELTA-13)", a)
	}
}
