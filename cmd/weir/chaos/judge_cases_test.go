package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// trial is a small truth and one client's history, in the making.
type trial struct {
	truth *truth
	since time.Time
	h     history
}

func newTrial(dialect relaytest.Dialect) *trial {
	x := &trial{truth: newTruth()}
	x.h = history{client: "client", dialect: dialect, wild: map[string]bool{cds: true}, ordered: true}
	x.truth.set(cds, "x", "")  // content 1
	x.truth.set(cds, "z", "")  // content 2
	x.truth.set(rds, "r", "x") // content 3
	x.since = time.Now()
	x.open()
	return x
}

func (x *trial) open() { x.event(event{kind: opened}) }

func (x *trial) event(e event) {
	time.Sleep(time.Microsecond) // moments differ
	e.at = time.Now()
	x.h.events = append(x.h.events, e)
}

// sent notes an answer: words are name=content, or r=content>cluster, or -name.
func (x *trial) sent(typeURL string, words ...string) {
	e := event{kind: answer, typeURL: typeURL, full: x.h.dialect == relaytest.SotW && fullState(typeURL)}
	for _, w := range words {
		if name, gone := strings.CutPrefix(w, "-"); gone {
			e.removed = append(e.removed, name)
			continue
		}
		name, body, _ := strings.Cut(w, "=")
		body, ref, _ := strings.Cut(body, ">")
		e.items = append(e.items, item{name: name, body: uint64(body[0] - '0'), ref: ref})
	}
	x.event(e)
}

// TestJudge: each thing that must not happen is seen, and nothing else is.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, want string // want is a part of the only complaint; empty: there is none
		dialect    relaytest.Dialect
		play       func(*trial)
	}{
		{"all is well", "", relaytest.Delta, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.sent(rds, "r=3>x")
			x.truth.set(cds, "y", "")
			x.sent(cds, "y=4")
			x.truth.set(rds, "r", "y")
			x.sent(rds, "r=5>y")
			x.truth.remove(cds, "x")
			x.sent(cds, "-x")
		}},
		{"content goes back", "goes back to content 1", relaytest.Delta, func(x *trial) {
			x.truth.set(cds, "x", "")
			x.sent(cds, "x=4", "z=2")
			x.sent(cds, "x=1")
		}},
		{"the origin rolls back", "", relaytest.Delta, func(x *trial) {
			old := x.truth.state()
			x.truth.set(cds, "x", "")
			x.sent(cds, "x=4", "z=2")
			x.truth.restate(old)
			x.sent(cds, "x=1")
		}},
		{"content of nowhere", "never stated", relaytest.Delta, func(x *trial) { x.sent(cds, "x=9", "z=2") }},
		{"content before its time", "never stated", relaytest.Delta, func(x *trial) {
			x.sent(cds, "x=4", "z=2")
			time.Sleep(time.Millisecond)
			x.truth.set(cds, "x", "")
		}},
		{"removed by nobody", `"z" is taken away`, relaytest.Delta, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.sent(cds, "-z")
		}},
		{"removed again after it came back", `"z" is taken away`, relaytest.Delta, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.truth.remove(cds, "z")
			x.truth.set(cds, "z", "")
			x.sent(cds, "z=5")
			x.sent(cds, "-z")
		}},
		{"older than a removal", "goes back", relaytest.Delta, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.truth.remove(cds, "z")
			x.sent(cds, "-z")
			x.sent(cds, "z=2")
		}},
		{"said not to exist", "is said not to exist", relaytest.Delta, func(x *trial) { x.sent(eds, "-nowhere"); x.sent(cds, "-x") }},
		{"part of a whole", `lacks "z"`, relaytest.SotW, func(x *trial) { x.sent(cds, "x=1") }},
		{"left out of a whole", "is taken away", relaytest.SotW, func(x *trial) {
			x.truth.set(cds, "new", "")
			x.sent(cds, "x=1", "z=2", "new=4")
			x.sent(cds, "x=1", "z=2")
		}},
		{"route before cluster", `leads to cluster "y"`, relaytest.Delta, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.truth.set(rds, "r", "y")
			x.sent(rds, "r=4>y")
		}},
		{"cluster gone before route", `leads to cluster "x"`, relaytest.SotW, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.sent(rds, "r=3>x")
			x.truth.remove(cds, "x")
			x.sent(cds, "z=2")
		}},
		{"unless the origin tore them", "", relaytest.SotW, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.sent(rds, "r=3>x")
			x.truth.remove(cds, "x")
			x.truth.tear("x")
			x.sent(cds, "z=2")
		}},
		{"or a new stream begins", "", relaytest.SotW, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.sent(rds, "r=3>x")
			x.truth.remove(cds, "x")
			x.open()
			x.sent(cds, "z=2")
		}},
		{"which delta clients need not suffer", `leads to cluster "x"`, relaytest.Delta, func(x *trial) {
			x.sent(cds, "x=1", "z=2")
			x.sent(rds, "r=3>x")
			x.truth.remove(cds, "x")
			x.open()
			x.sent(cds, "-x")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTrial(c.dialect)
			c.play(x)
			complaints, _ := try(x.truth, x.since, &x.h)
			switch {
			case c.want == "" && len(complaints) > 0:
				t.Errorf("complaints about what is right: %s", complaints)
			case c.want != "" && (len(complaints) != 1 || !strings.Contains(complaints[0], c.want)):
				t.Errorf("got %d complaints %s, want one of %q", len(complaints), complaints, c.want)
			}
		})
	}
}
