package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var zero = time.Unix(1_000_000_000, 0)

// rig is a table with one origin and one group, whose lanes a test drives by itself.
type rig struct {
	tb     testing.TB
	table  *relay.Table
	origin *relay.Origin
	group  *relay.Group
	lanes  []*relay.Lane
}

func newRig(tb testing.TB, o relay.OriginConfig) *rig {
	tb.Helper()
	o.Name = "mesh"
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{o}})
	if err != nil {
		tb.Fatal(err)
	}
	g, err := table.Origin("mesh").Group(nil)
	if err != nil {
		tb.Fatal(err)
	}
	g.Acknowledge()
	return &rig{tb: tb, table: table, origin: table.Origin("mesh"), group: g}
}

// params reads k=v,k=v.
func params(text string) constraints.Params {
	m := map[string]string{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		k, v, _ := strings.Cut(word, "=")
		m[k] = v
	}
	return constraints.NewParams(m)
}

// sub is a client that subscribes to names with a parameter map.
func (r *rig) sub(typeURL, p string, names ...string) *relay.Sub {
	s := r.group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: typeURL, Delta: true, Params: params(p)})
	s.Update(zero, names, nil)
	return s
}

// open opens the lanes that are wanted, and has everything asked.
func (r *rig) open() {
	for lanes := r.origin.TakeLanes(); len(lanes) > 0; lanes = r.origin.TakeLanes() {
		r.lanes = append(r.lanes, lanes...)
		for _, l := range lanes {
			l.Open(zero, 0)
			now := zero
			for asks, _ := l.Take(now, false); len(asks) > 0; asks, _ = l.Take(now, false) {
				now = now.Add(time.Minute) // a long list goes in turns
			}
		}
	}
}

// says has the origin answer on every lane that asked for the type. Words are
// NAME{CONSTRAINTS}=BODY, where constraints are k=v or !k, and -NAME for a removal.
func (r *rig) says(typeURL string, words ...string) {
	r.tb.Helper()
	u := &xds.Update{TypeURL: typeURL}
	for _, word := range words {
		if name, gone := strings.CutPrefix(word, "-"); gone {
			u.Removed = append(u.Removed, name)
			continue
		}
		name, body, _ := strings.Cut(word, "=")
		inner := ""
		if head, rest, has := strings.Cut(word, "{"); has {
			name = head
			inner, body, _ = strings.Cut(rest, "}=")
		}
		u.Resources = append(u.Resources, r.resource(name, inner, body))
	}
	heard := false
	for _, l := range r.lanes {
		_, ok := l.Apply(zero, u)
		heard = heard || ok
	}
	if !heard {
		r.tb.Fatal("never asked")
	}
}

func (r *rig) resource(name, inner, body string) xds.Resource {
	payload, err := anypb.New(wrapperspb.String(body))
	if err != nil {
		r.tb.Fatal(err)
	}
	encoded, err := proto.Marshal(payload)
	if err != nil {
		r.tb.Fatal(err)
	}
	x := xds.Resource{Name: name, Version: "v" + body, Any: encoded, PayloadType: []byte(payload.TypeUrl), Payload: payload.Value}
	var all []*relaytest.Constraints
	for _, word := range strings.FieldsFunc(inner, func(r rune) bool { return r == ',' }) {
		if key, not := strings.CutPrefix(word, "!"); not {
			all = append(all, relaytest.Not(relaytest.Has(key)))
		} else {
			key, value, _ := strings.Cut(word, "=")
			all = append(all, relaytest.Is(key, value))
		}
	}
	if len(all) > 0 {
		if x.Constraints, err = constraints.Compile(relaytest.And(all...)); err != nil {
			r.tb.Fatal(err)
		}
	}
	return x
}

// pictures are the rows of a query: NAME{CONSTRAINTS} of MAPS for CLIENTS, and what else is so.
func (r *rig) pictures(q ResourceQuery) string {
	var rows []string
	Query(r.origin, q, func(s ResourceInfo) bool {
		row := s.Name
		if s.Constraints != "" {
			row += "{" + s.Constraints + "}"
		}
		row += fmt.Sprintf(" of [%s] %d for %d", strings.Join(s.Params, " "), s.Maps, s.Clients)
		for _, x := range []struct {
			is   bool
			word string
		}{{s.Wildcard, "wildcard"}, {!s.Live, "stale"}, {s.Absent, "absent"}, {s.Shadowed, "shadowed"}} {
			if x.is {
				row += " " + x.word
			}
		}
		rows = append(rows, row)
		return true
	})
	return strings.ReplaceAll(strings.Join(rows, "; "), `"`, "")
}

func is(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}
