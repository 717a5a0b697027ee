package cursor

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// TestInterest: a change wakes who asks for a name, for an alias of it or for a set that has it,
// and nobody else.
func TestInterest(t *testing.T) {
	collection := nameOfRows("g/*")
	g := &game{t: t, typeURL: vhs, now: zero, line: state.NewTimeline(zero, state.Config{})}
	var x Interest[string]
	x.Add("star", vhs, All)
	x.Add("glob", vhs, collection)
	for _, name := range []string{"a", "b", "x"} {
		x.Add(name, vhs, Name{Name: name})
	}
	x.Add("gone", vhs, All)
	x.Add("gone", cds, Name{Name: "a"})
	x.Drop("gone", vhs, All)
	x.Drop("gone", cds, Name{Name: "a"})
	x.Drop("nobody", eds, All)
	if got := x.Named(vhs, "", "a"); len(got) != 1 || len(x.Named(vhs, "", "none"))+len(x.Named(eds, "", "a")) > 0 {
		t.Errorf("of a name: %v", got)
	}
	if len(x.of) != 1 {
		t.Errorf("of %d types somebody wants something", len(x.of))
	}
	for _, row := range [][2]string{
		{"star a=1 firm", "star"},
		{"star firm restored", "star"},
		{"glob g1=1 settled", "glob"},
		{"says a=1", "a"},
		{"says b=1/x x>b", "b x"},
		{"says b=2 x?", "b x"},
		{"says b-", "b"},
		{"says c=1", ""},
		{"star a=2", "a star"}, // it came last, and who asks for the name may have it, too (RELAY-25)
		{"star a=2", ""},
	} {
		was := g.line.Newest()
		words := strings.Fields(row[0])
		g.do(words[0], words[1:])
		woken := x.Concerned(was, g.line.Newest())
		if got := strings.Join(slices.Sorted(maps.Keys(woken)), " "); got != row[1] {
			t.Errorf("%s wakes %q, want %q", row[0], got, row[1])
		}
	}
}

// TestPieces: what is encoded is what the answer says, whoever else is sent it.
func TestPieces(t *testing.T) {
	end := zero.Add(time.Minute)
	for _, c := range []struct {
		name             string
		delta, ttl, memo bool
	}{
		{"delta", true, false, false},
		{"delta, shared", true, false, true},
		{"delta with TTLs", true, true, true},
		{"sotw", false, false, false},
		{"sotw, shared", false, false, true},
		{"sotw with TTLs", false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{TypeURL: cds, Delta: c.delta, TTL: c.ttl}
			source := Source{Ends: ends}
			if c.memo {
				source.Shares = memoOf(&Memo{})
			}
			cursor := New(cfg)
			cursor.Open(source)
			cursor.Subscribe(0, All)
			cursor.Requested(zero)
			line := state.NewTimeline(zero, state.Config{})
			firm := &state.Status{Phase: state.Firm, Age: state.Live}
			var edits []state.Edit
			for i := range 300 {
				l := like{typeURL: cds, name: fmt.Sprint("n", i)}
				l.payload = l.name + " " + strings.Repeat("p", i)
				if i%7 == 0 {
					l.end = end
				}
				edits = append(edits, say(l))
			}
			line.Publish(zero, 1, state.Change{TypeURL: cds, Selector: "*", Edits: edits, Status: firm})
			all := map[string]string{}
			for round := range uint64(3) {
				a := cursor.Take(zero, plan.Step{TypeURL: cds, Parts: []plan.Part{{To: line.Newest()}}})
				plain, pairs := a.Pieces(zero, nil)
				read(t, bytes.Join(append(plain, pairs...), nil), c.delta, all)
				x, _ := line.Newest().Of(cds, "*")
				if len(all) != x.Members.Len() {
					t.Fatalf("%d bodies of %d", len(all), x.Members.Len())
				}
				for e := range x.Members.All() {
					_, payload, _ := xds.AnyParts(e.Body().Any())
					if all[e.Name()] != string(payload) {
						t.Fatalf("%s is %q in round %d", e.Name(), all[e.Name()], round)
					}
				}
				line.Publish(zero, round+2, state.Change{TypeURL: cds, Selector: "*", Edits: []state.Edit{
					say(like{typeURL: cds, name: "n1", payload: fmt.Sprint("n1 ", round)}), say(like{typeURL: cds, name: fmt.Sprint("new", round), payload: fmt.Sprint("new", round)}),
				}})
			}
		})
	}
}

// read adds the bodies in the fields of a response, whose payload begins with their name.
func read(t *testing.T, fields []byte, delta bool, to map[string]string) {
	t.Helper()
	note := func(payload []byte) {
		name, _, _ := strings.Cut(string(payload), " ")
		to[name] = string(payload)
	}
	if delta {
		var r discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(fields, &r); err != nil {
			t.Fatal(err)
		}
		for _, x := range r.Resources {
			note(x.Resource.Value)
		}
		return
	}
	var r discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(fields, &r); err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Resources {
		var wrapped discoveryv3.Resource
		if !x.MessageIs(&wrapped) {
			note(x.Value)
		} else if err := x.UnmarshalTo(&wrapped); err != nil || wrapped.Ttl.AsDuration() != time.Minute {
			t.Fatal(err, wrapped.Ttl)
		} else {
			note(wrapped.Resource.Value)
		}
	}
}
