package cursor

import (
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
)

// union is a client of `*` at one origin, and of names at another one.
type union struct {
	*Cursor
	t     *testing.T
	lines [2]*state.Timeline
	rev   uint64
}

const (
	ownOrigin, east = 0, 1
	shared          = "xdstp://east/envoy.config.cluster.v3.Cluster/x"
)

func newUnion(t *testing.T, delta bool) *union {
	u := &union{Cursor: New(Config{TypeURL: cds, Delta: delta, Began: zero, Patience: patience, Cold: cold}), t: t}
	for i := range u.lines {
		u.lines[i] = state.NewTimeline(zero, state.Config{})
		u.lines[i].Connect(0, state.Lane{Open: true})
		u.Open(Source{Group: i, Ends: ends})
	}
	u.says(ownOrigin, "*")
	return u
}

// says is what an origin says of the shared name, or in its set: a payload, or "-".
func (u *union) says(origin int, selector string, payloads ...string) {
	c := state.Change{TypeURL: cds}
	if selector != "" {
		c.Selector, c.Status = selector, firm
	}
	for _, payload := range payloads {
		switch {
		case payload != "-":
			c.Edits = []state.Edit{say(like{typeURL: cds, name: shared, payload: payload})}
		case selector == "":
			c.Edits = []state.Edit{gone(shared)}
		default:
			c.Edits = []state.Edit{{Name: shared}}
		}
	}
	u.rev++
	u.lines[origin].Publish(zero, u.rev, c)
}

// gets compares the next answer: `+payload`, `-`, `!` for an error, `[payload]` for what a list
// has.
func (u *union) gets(want string) {
	u.t.Helper()
	a := u.Take(zero, plan.Step{TypeURL: cds, Parts: []plan.Part{{To: u.lines[0].Newest()}, {To: u.lines[1].Newest()}}})
	var words []string
	if a != nil && a.Whole {
		for _, s := range a.All {
			for e := range s.All() {
				words = append(words, "["+word(e.Body())+"]")
			}
		}
	} else if a != nil {
		for _, v := range a.Changed {
			words = append(words, "+"+word(v))
		}
	}
	if a != nil {
		words = append(words, strings.Split(strings.Repeat("- ", len(a.Removed))+strings.Repeat("! ", len(a.Errors)), " ")...)
	}
	if got := strings.TrimSpace(strings.Join(words, " ")); got != want {
		u.t.Errorf("it gets %q, and is to get %q", got, want)
	}
}

// wild has a delta client ask for `*`, which has the shared name.
func (u *union) wild() {
	u.t.Helper()
	u.says(ownOrigin, "*", "star-1")
	u.Subscribe(ownOrigin, All)
	u.Requested(zero)
	u.gets("+star-1")
}

func (u *union) names(yes bool) {
	if yes {
		u.Subscribe(east, Name{Name: shared})
	} else {
		u.Unsubscribe(east, shared)
	}
	u.Requested(zero)
}

// TestUnion: a name that one origin is asked for, and that `*` of another one has, is one resource
// (FED-5, DELTA-20).
func TestUnion(t *testing.T) {
	t.Run("delta", func(t *testing.T) {
		u := newUnion(t, true)
		u.wild()
		u.names(true)
		u.gets("") // nothing is known of it
		u.says(east, "", "east-1")
		u.gets("+east-1")
		u.says(ownOrigin, "*", "star-2")
		u.gets("") // it is not the client's
		u.says(east, "", "-")
		u.gets("+star-2")
		u.says(east, "", "east-2")
		u.gets("+east-2")
		u.names(false)
		u.gets("+star-2") // WILD-9
		u.names(true)
		u.gets("+east-2")
		u.says(ownOrigin, "*", "-")
		u.gets("")
		u.names(false)
		u.gets("-")
		u.says(east, "", "-")
		u.says(ownOrigin, "*", "star-3")
		u.gets("+star-3")
		u.names(true)
		u.gets("+star-3") // what is there of it is the answer (DELTA-2)
	})
	t.Run("sotw", func(t *testing.T) {
		u := newUnion(t, false)
		u.says(ownOrigin, "*", "star-1")
		u.says(east, "", "east-1")
		u.Subscribe(ownOrigin, All)
		u.names(true)
		u.gets("[east-1]")
		u.says(east, "", "-")
		u.gets("[star-1]")
		u.says(east, "", "east-2")
		u.gets("[east-2]")
		u.names(false)
		u.gets("[star-1]")
	})
	t.Run("what `*` brought stays for who names it, until its origin has answered (RELAY-7)", func(t *testing.T) {
		u := newUnion(t, true)
		u.wild()
		u.names(true)
		u.Unsubscribe(ownOrigin, "*")
		u.Requested(zero)
		u.gets("")
		if v := u.parts[east].held.Get(shared).Body(); v == nil || word(v) != "star-1" {
			t.Errorf("%s is held", word(v))
		}
		u.says(east, "", "-")
		u.gets("-")
	})
}
