package relay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestPositions has a client of some sets in a line: what was there when it was sent its sets, what
// the origin changed since, and what its positions say of a name then.
func TestPositions(t *testing.T) {
	const a, b = "xdstp://o/T/a/", "xdstp://o/T/b/"
	for _, x := range []struct {
		what          string
		sets, members string // when the client was sent its sets
		then          string // what changed since: NAME=BODY and -NAME
		name          string
		want          string
	}{
		{what: "of a set that is not subscribed to", sets: b + "*", members: b + "n=1", name: a + "n", want: "nothing"},
		{what: "a member that was sent", sets: "*", members: "m=1 n=1", name: "m", want: "covered, there, sent, as it is"},
		{what: "a name that no set has", sets: "*", members: "m=1", name: "n", want: "covered"},
		{what: "a member that is new", sets: "*", members: "m=1", then: "n=1", name: "n", want: "covered, there; behind"},
		{what: "a member that changed", sets: "*", members: "m=1", then: "m=2", name: "m", want: "covered, there, sent; behind"},
		{what: "a member that is gone", sets: "*", members: "m=1 n=1", then: "-m", name: "m", want: "covered, sent; behind"},
		{what: "one that came and went", sets: "*", members: "m=1", then: "n=1 -n", name: "n", want: "covered; behind"},
		{what: "a member of one of two globs", sets: a + "* " + b + "*", members: a + "n=1 " + b + "n=1", name: a + "n", want: "covered, there, sent, as it is"},
		{what: "it changed", sets: a + "* " + b + "*", members: a + "n=1 " + b + "n=1", then: a + "n=2", name: a + "n", want: "covered, there, sent; behind"},
		{what: "the other did", sets: a + "* " + b + "*", members: a + "n=1 " + b + "n=1", then: b + "n=2", name: a + "n", want: "covered, there, sent, as it is; behind"},
		{what: "`*` has no members of globs", sets: "* " + a + "*", members: "m=1 " + a + "n=1", name: "m", want: "covered, there, sent, as it is"},
	} {
		r := newRig(t, Config{})
		s := r.sub(xds.ClusterType, true, strings.Fields(x.sets)...)
		r.open()
		now := zero.Add(time.Minute)
		for _, word := range strings.Fields(x.members) {
			name, body, _ := strings.Cut(word, "=")
			r.apply(made(xds.ClusterType, body, nil, name))
		}
		r.table.Advance(now)
		if a := s.Take(now); a == nil || len(a.Variants) != len(strings.Fields(x.members)) {
			t.Fatalf("%s: the client was not sent its sets: %+v", x.what, a)
		}
		for _, word := range strings.Fields(x.then) {
			if name, gone := strings.CutPrefix(word, "-"); gone {
				r.apply(made(xds.ClusterType, "", []string{name}))
			} else {
				name, body, _ := strings.Cut(word, "=")
				r.apply(made(xds.ClusterType, body, nil, name))
			}
		}
		if got := saysOf(s, x.name); got != x.want {
			t.Errorf("%s: %s, want %s", x.what, got, x.want)
		}
		if alone := s.sets.alone() != nil; alone != (x.sets == "*") || s.sets.star() != nil != strings.HasPrefix(x.sets, "*") {
			t.Errorf("%s: alone in `*`: %v", x.what, alone)
		}
		for _, selector := range strings.Fields(x.sets) {
			if p := s.sets.selects(selector); selector != xds.Wildcard && (p == nil || s.sets.of(p.view.set) != p) {
				t.Errorf("%s: no position in %s", x.what, selector)
			}
		}
	}
}

// saysOf is what a client's positions say of a name.
func saysOf(s *Sub, name string) string {
	var words []string
	if s.sets.covered(name) {
		words = append(words, "covered")
	}
	live := s.sets.live(name)
	if live != nil {
		words = append(words, "there")
	}
	if d, told := s.sets.sent(name); told {
		if words = append(words, "sent"); live != nil && d == live.variant.Digest {
			words = append(words, "as it is")
		}
	}
	if len(words) == 0 {
		words = []string{"nothing"}
	}
	text := strings.Join(words, ", ")
	if s.sets.behind() {
		text += "; behind"
	}
	return text
}

// TestPositionsThatEnd: a client that leaves its sets one after the other has no position left, and
// nothing that was kept beside them.
func TestPositionsThatEnd(t *testing.T) {
	sets := []string{xds.Wildcard, "xdstp://o/T/a/*", "xdstp://o/T/b/*"}
	for first := range sets {
		r := newRig(t, Config{})
		s := r.sub(xds.ClusterType, true, sets...)
		order := append(slices.Clone(sets[first:]), sets[:first]...)
		for i, selector := range order {
			n := 0
			for p := s.sets.first; p != nil; p = p.also {
				if n++; p.also != nil && p.also.prior != p {
					t.Errorf("before %s is left, the list is broken", selector)
				}
			}
			if n != len(sets)-i || s.sets.more == nil || len(s.sets.more.by) != n {
				t.Errorf("before %s is left there are %d positions, want %d", selector, n, len(sets)-i)
			}
			s.Update(zero, nil, []string{selector})
		}
		if x := &s.sets; x.first != nil || x.more != nil || x.again != nil || x.covered("m") || x.star() != nil {
			t.Errorf("after all sets are left: %+v", x)
		}
	}
}
