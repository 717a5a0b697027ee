package plan

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/state"
)

// BenchmarkNext is what the order of types costs for one delivery: a changed cluster, and its ACK.
// The client takes what a step names, and compares nothing.
func BenchmarkNext(b *testing.B) {
	line := state.NewTimeline(zero, state.Config{})
	for i, typeURL := range []string{cds, eds, lds, rds} {
		firm := state.Status{Phase: state.Firm, Age: state.Live}
		line.Publish(zero, uint64(i), state.Change{TypeURL: typeURL, Selector: "*", Status: &firm, Edits: []state.Edit{say(typeURL, "a", "a")}})
	}
	states := [2]*state.Target{line.Target(state.Rest)}
	line.Publish(zero, 9, change(cds, say(cds, "a", "b")))
	states[1] = line.Target(state.Rest)
	var at [2]*state.State // of clusters, and of the rest
	nonce := uint64(0)
	take := func(s Step) uint64 {
		if s.TypeURL != cds || at[0] == s.Parts[0].To {
			return 0
		}
		at[0] = s.Parts[0].To
		nonce++
		return nonce
	}
	c := asked{}
	asks := []Ask{{Client: c, TypeURL: cds}, {Client: c, TypeURL: eds}, {Client: c, TypeURL: lds}, {Client: c, TypeURL: rds}}
	stream := New(Config{Delta: true, Hold: config.Hold, Cold: config.Cold}, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		target := states[i%2 : i%2+1]
		stream.Next(zero, target, asks, take)
		stream.Ack(zero, cds, nonce)
		stream.Next(zero, target, asks, take)
	}
	if nonce == 0 {
		b.Fatal("nothing was written")
	}
}

// asked is a client that knows all.
type asked struct{}

func (asked) Waits(Config, int, *state.State) time.Time { return time.Time{} }
func (asked) Unconfirmed(int, *state.State) bool        { return false }
func (asked) Lacking(int, *state.State) bool            { return false }
