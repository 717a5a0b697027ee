package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/xds"
)

// What the cursors of clients are made of: what the group says of how a type is sent, and where the
// names come from.

// Cursor makes the cursor of a client of the group, which is completed by what the group says of
// how clients are sent a type.
func (g *Group) Cursor(c cursor.Config) *cursor.Cursor {
	cfg := g.config()
	c.Withhold, c.OriginVersions, c.Unreachable = cfg.WithholdTTL, true, g.origin.unreachable
	c.Patience, c.Cold = g.origin.patience(), g.origin.table.config().ColdWait
	if c.Version != "" { // otherwise it says of none that it has it
		for _, k := range g.line.States() {
			c.States = append(c.States, k.State)
		}
	}
	return cursor.New(c)
}

// Claim is what a client says of a version that it holds.
func (g *Group) Claim(version string) xds.Digest {
	return xds.Claim(version, g.config().OriginVersions)
}

// RemovedNames are the fields of a delta response for removed names, in pieces between which it may
// be cut.
func RemovedNames(names []string) [][]byte { return joinNames(names) }

// UnitsOf is what an answer of a cursor says in located form, by name.
func UnitsOf(a *cursor.Answer, delta, ttl bool, now time.Time) []Unit {
	l := Located{Variants: a.Located.Changed, Heartbeats: a.Located.Heartbeats}
	if a.Whole {
		l.Variants = a.Located.All
	}
	for _, g := range a.Located.Gone {
		l.Removed = append(l.Removed, Gone{Name: g.Name, Constraints: g.Constraints, written: g.Written})
	}
	return l.units(delta, ttl, now, nil)
}

// Source is where the names come from that the client asks for, of a group that is one of those of
// its stream. located: the client wrote locators.
func (w *Wants) Source(of int, located bool) cursor.Source {
	g := w.shard.group
	s := cursor.Source{
		Group: of, Params: w.shard.params, Located: located, Ends: g.origin.ends, Shares: w.shared, ByContent: !g.config().OriginVersions,
	}
	if w.permit != nil {
		s.Allows = w.permit.Allows
	}
	return s
}
