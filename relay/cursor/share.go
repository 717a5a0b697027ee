package cursor

import (
	"slices"
	"sync"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// Memo keeps the last ways that clients of one set went, each for all who go the same. Many clients
// use it at the same time.
type Memo struct {
	mu   sync.Mutex
	last [8]*way // guarded by mu
	next int     // guarded by mu
}

// way is what a client of one set and nothing else is sent to come from one set to another. It does
// not change once it is made.
type way struct {
	from    journey
	once    sync.Once
	plain   bool // it may be taken: each entry is a body with a name, or nothing
	changed []*xds.Variant
	removed []string
	held    state.Set        // by the client then
	sent    [][]*xds.Variant // changed, and
	all     []state.Set      // held, as the lists by source that they are
	kept    bool             // some of it is kept for a state of Keep
	encoded [2]encoded
	list    encoded // all that is held, in state of the world
}

// encoded are bodies in one form, for all who go the way.
type encoded struct {
	once   sync.Once
	pieces [][]byte
}

// journey is all that a way depends on.
type journey struct {
	held, to state.Set
	settled  bool
	all      bool
	keep     [3]keep
}

type keep struct {
	is, settled bool
	members     state.Set
}

// takeShared takes a step for a client that asks for one set and nothing else; false: it has more.
func (c *Cursor) takeShared(s plan.Step) (a *Answer, done bool) {
	if len(c.parts) != 1 || s.Only != plan.Everything || c.again {
		return nil, false
	}
	p := &c.parts[0]
	step := &s.Parts[p.Group]
	if len(p.sets) != 1 || p.sets[0].Memo == nil || len(p.names)+len(p.claims)+len(p.owed)+len(p.look)+len(p.told)+len(p.spelt) > 0 || step.To == nil {
		return nil, false
	}
	t := &p.sets[0]
	if p.Located || t.Filter == nil && (p.Allows != nil || p.Params.Len() > 0) || t.fresh && !c.Delta && c.Version != "" {
		return nil, false
	}
	x := t.in(step.To)
	if !c.ready(p, t, &x) || x.Err != nil || t.err != nil || c.TTL && (p.held.Timed() || x.Members.Timed()) {
		return nil, false
	}
	j := journey{held: p.held, to: c.members(p, 0, step.To), settled: x.Phase >= state.Settled, all: step.All}
	for i, s := range step.Keep {
		if s != nil {
			x := t.in(s)
			j.keep[i] = keep{true, c.ready(p, t, &x) && x.Phase >= state.Settled, c.members(p, 0, s)}
		}
	}
	w := t.Memo.way(j)
	first := t.fresh && j.settled
	if !w.plain || first && t.Name.Name != xds.Wildcard || !c.Delta && w.held.Len() == 0 && !j.settled {
		return nil, false
	}
	return c.goShared(p, step, &x, w, first), true
}

// goShared notes a way as gone, and is the answer.
func (c *Cursor) goShared(p *part, step *plan.Part, x *state.Selected, w *way, first bool) *Answer {
	p.sets[0].members, p.sets[0].fresh = w.from.to, p.sets[0].fresh && !w.from.settled && w.from.to.Len() == 0
	p.held, p.kept, p.last, p.all = w.held, nil, step.States(), step.All
	names := c.named(p, step.To)
	p.asked, p.newer = names.Members, names.Newer
	if w.kept { // should it ask for anything else, they are to be looked at
		for was := range state.Diff(w.held, w.from.to) {
			p.kept.add(was.Name())
		}
	}
	whole := c.Whole()
	if tells := c.Delta || whole; len(w.changed) == 0 && !(tells && (first || len(w.removed) > 0)) {
		return nil
	}
	c.from, c.said = xds.Newer(c.from, step.To.From(c.TypeURL)), x.Version
	c.number++
	a := &Answer{Number: c.number, Bodies: Bodies{Changed: w.changed}, Group: p.Group, Whole: whole, delta: c.Delta, shared: w}
	if c.Delta {
		a.Removed = w.removed
	} else {
		a.Version = w.held.Sum().TreeVersion()
		c.version = a.Version
	}
	if whole {
		c.sentWhole, a.All = true, w.all
	}
	if whole || w.from.held.Len() == 0 {
		c.fly(flight{all: w.all})
	} else {
		c.fly(flight{sent: w.sent})
	}
	return a
}

// way finds or makes a way.
func (m *Memo) way(j journey) *way {
	w := m.find(j)
	w.once.Do(w.make) // not while others wait for another one
	return w
}

func (m *Memo) find(j journey) *way {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.last {
		if w != nil && w.from == j {
			return w
		}
	}
	w := &way{from: j}
	m.last[m.next%len(m.last)] = w
	m.next++
	return w
}

func (w *way) make() {
	j := &w.from
	var edits []state.Edit
	for was, is := range state.Diff(j.held, j.to) {
		v := is.Body()
		if is.Known() && (v == nil || v.Constraints != nil || v.Nameless || v.DoNotCache || is.Besides().Err != nil) {
			return
		}
		switch {
		case !exists(is) && exists(was) && was.Body().Timed(): // nothing keeps what has expired
			return
		case !exists(is) && exists(was) && j.keeps(was.Name(), v == nil):
			w.kept = true
			edits = append(edits, state.Edit{Name: was.Name(), Entry: was})
		case v == nil:
			w.removed = append(w.removed, was.Body().Spelling())
		case was.Body() == nil || was.Body().Digest != v.Digest:
			w.changed = append(w.changed, v)
		}
	}
	w.plain, w.held = true, j.to.With(edits...)
	w.sent, w.all = [][]*xds.Variant{w.changed}, []state.Set{w.held}
}

// exists is as in plan.Part.Has: an assignment that is emptied before its cluster goes has nothing.
func exists(e state.Entry) bool {
	v := e.Body()
	return v != nil && !v.Orphaned()
}

// keeps is plan.Part.Has for a member that is held, and that the newest state has not, or emptied.
func (j *journey) keeps(name string, gone bool) bool {
	if gone && !j.settled || j.all {
		return true
	}
	for _, k := range j.keep {
		e := k.members.Get(name)
		if k.is && (exists(e) || !e.Known() && !k.settled) {
			return true
		}
	}
	return false
}

// whole are the pieces of the list that a client has then.
func (w *way) whole() [][]byte {
	w.list.once.Do(func() { w.list.pieces = w.held.Pieces(nil, state.SotW) })
	return slices.Clip(w.list.pieces)
}

// pieces appends the changed bodies, encoded; all who go the way share them.
func (w *way) pieces(f state.Form, to [][]byte) [][]byte {
	if w.from.held.Len() == 0 { // the leaves have it encoded
		return w.held.Pieces(to, f)
	}
	e := &w.encoded[f]
	e.once.Do(func() {
		const piece = 64 << 10
		var b []byte
		for _, v := range w.changed {
			x := v.Delta()
			if f == state.SotW {
				x = v.SotW()
			}
			if len(b) > 0 && len(b)+len(x) > piece {
				e.pieces, b = append(e.pieces, b), nil
			}
			b = append(b, x...)
		}
		if len(b) > 0 {
			e.pieces = append(e.pieces, b)
		}
	})
	if to == nil {
		return slices.Clip(e.pieces)
	}
	return append(to, e.pieces...)
}
