package relay

import (
	"slices"
	"testing"
)

// took are answers with the given numbers, each of which has what happened in one revision.
func took(numbers ...uint32) (u unaccepted) {
	for _, n := range numbers {
		u.add(span{first: n, last: n, from: uint64(n) - 1, to: uint64(n)})
	}
	return u
}

// of is the verdict on what was sent with an answer.
func (u unaccepted) of(number uint32) verdict {
	return u.verdict(func(x *span) bool { return x.first <= number && number <= x.last })
}

// TestVerdicts: an answer is unjudged until the client accepts or rejects it, and accepted where
// nothing is remembered of it.
func TestVerdicts(t *testing.T) {
	accept, refuse := (*unaccepted).accept, (*unaccepted).refuse
	type step struct {
		do     func(*unaccepted, uint32)
		number uint32
	}
	tests := []struct {
		name  string
		steps []step
		want  []verdict // of answers 1, 2 and 3
		spans int
	}{
		{"none was answered", nil, []verdict{unjudged, unjudged, unjudged}, 3},
		{"one was accepted", []step{{accept, 2}}, []verdict{unjudged, accepted, unjudged}, 2},
		{"one was rejected", []step{{refuse, 2}}, []verdict{unjudged, rejected, unjudged}, 3},
		{"neighbours were rejected", []step{{refuse, 1}, {refuse, 2}}, []verdict{rejected, rejected, unjudged}, 2},
		{"in the other order", []step{{refuse, 2}, {refuse, 1}}, []verdict{rejected, rejected, unjudged}, 3},
		{"not neighbours", []step{{refuse, 1}, {refuse, 3}}, []verdict{rejected, unjudged, rejected}, 3},
		{"one between them was accepted", []step{{refuse, 1}, {accept, 2}, {refuse, 3}}, []verdict{rejected, accepted, rejected}, 2},
		{"an answer that is merged", []step{{refuse, 1}, {refuse, 2}, {accept, 2}}, []verdict{rejected, rejected, unjudged}, 2},
		{"an answer that was never sent", []step{{refuse, 9}, {accept, 9}}, []verdict{unjudged, unjudged, unjudged}, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			u := took(1, 2, 3)
			for _, s := range test.steps {
				s.do(&u, s.number)
			}
			got := []verdict{u.of(1), u.of(2), u.of(3)}
			if !slices.Equal(got, test.want) {
				t.Errorf("verdicts are %v, want %v", got, test.want)
			}
			if len(u) != test.spans {
				t.Errorf("%d spans are remembered, want %d", len(u), test.spans)
			}
			if last := u.last(3); last != test.want[2] {
				t.Errorf("the verdict on the last answer is %v, want %v", last, test.want[2])
			}
		})
	}
}

// TestVerdictsAreBounded: a client that never answers costs maxSpans. What is merged for that counts
// as unjudged, even where it was rejected, and covers all that the merged answers had.
func TestVerdictsAreBounded(t *testing.T) {
	u := took(1)
	u.refuse(1)
	for n := uint32(2); n <= 3*maxSpans; n++ {
		u.add(span{first: n, last: n, from: uint64(n) - 1, to: uint64(n)})
		if len(u) > maxSpans {
			t.Fatalf("%d spans are remembered after %d answers, more than %d", len(u), n, maxSpans)
		}
		if v := u.of(n); v != unjudged {
			t.Fatalf("the verdict on answer %d is %v, before there was one", n, v)
		}
	}
	if v := u.of(1); v != unjudged {
		t.Errorf("the verdict on a merged answer is %v, want unjudged", v)
	}
	if u[0].from != 0 || u[0].first != 1 {
		t.Errorf("what was merged begins at answer %d and revision %d, not at 1 and 0", u[0].first, u[0].from)
	}
	for i := range u[1:] {
		if u[i].last+1 != u[i+1].first || u[i].to != u[i+1].from {
			t.Errorf("there is a gap between spans %v and %v", u[i], u[i+1])
		}
	}
}
