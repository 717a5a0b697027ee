package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// The states of a group, for people: what it holds now, with the changes that are noted undone one
// by one. So the ID of each state costs what has changed, and not what there is.

// StateRow is one state of a group, which was in force from a revision on until the next one.
type StateRow struct {
	Revision uint64    `json:"revision"`
	ID       string    `json:"id,omitempty"` // "": it is not Whole
	At       time.Time `json:"at,omitzero"`  // when it began; zero: before what is known
	// What changed, and of which types: short names in ORD-1 order. All are empty for the oldest
	// state that is known.
	Added   int       `json:"added"`
	Changed int       `json:"changed"`
	Removed int       `json:"removed"`
	Types   []string  `json:"types"`
	Whole   bool      `json:"whole"`         // nothing of it was lost, so it can be served again
	Present bool      `json:"present"`       // it is what clients are given now
	Good    time.Time `json:"good,omitzero"` // when a state of this ID was seen good; zero: it was not
}

// States are those of the group of a key, the newest first, so many at most: one for each revision
// at which configuration has changed, and the oldest that is known. What clients begin to ask for,
// or do not want any more, is no change. It is nil if there is no such group, or no history.
func (o *Origin) States(group string, most int) []StateRow { return o.states(group, most, nil) }

// states are States up to the first one that is enough; nil: all. Marks of older ones, which came
// back, are not seen then. It locks the origin, and the types one after the other.
func (o *Origin) states(group string, most int, enough func(*StateRow) bool) []StateRow {
	g := o.GroupOf(group)
	if g == nil || !o.table.past.On() {
		return nil
	}
	w := g.wayBack()
	rows := w.rows(most, enough)
	seenGood(rows, o.table.past.Marks(o.name, group))
	return rows
}

// seenGood notes which of the states were seen good. A state that came back is as good as before.
func seenGood(rows []StateRow, marks []history.Mark) {
	good := map[string]time.Time{}
	i := len(marks) - 1
	for r := range rows {
		row := &rows[r]
		for ; i >= 0 && marks[i].Revision >= row.Revision; i-- {
			row.Good = marks[i].At
		}
		if row.ID != "" && !row.Good.IsZero() {
			good[row.ID] = row.Good
		}
	}
	for r := range rows {
		if at, is := good[rows[r].ID]; is && rows[r].Good.IsZero() {
			rows[r].Good = at
		}
	}
}

// wayBack is what is needed to undo the changes of a group.
type wayBack struct {
	newest uint64       // changes after it may lack, and are undone before the first row
	end    history.Edge // before it not all is known
	shards []shardPast
	begun  contents // as it is now
	tree   *xds.Tree
	// changes are those since tree, of what was undone. A state that is not listed needs no ID.
	changes []xds.Change
	held    map[*history.Resource]*xds.Variant // what has changed, as it is after what was undone
}

// shardPast is what a shard holds and held.
type shardPast struct {
	typeURL string
	params  string
	now     []heldNow
	steps   []history.Step // not undone yet, the newest first
}

// heldNow are the members of a set, or a name.
type heldNow struct {
	set, name string
	variants  []*xds.Variant
}

// wayBack collects what the group holds and held. It locks the types one after the other.
func (g *Group) wayBack() *wayBack {
	w := &wayBack{newest: g.origin.table.Revision(), end: history.EdgeOf(g.begun), held: map[*history.Resource]*xds.Variant{}}
	for _, s := range *g.all.Load() {
		if s.configures() {
			x, end := s.back()
			w.end = w.end.Newer(end)
			w.shards = append(w.shards, x)
		}
	}
	for i := range w.shards {
		w.begin(&w.shards[i])
	}
	w.tree, w.begun = xds.NewTree(w.begun), nil
	return w
}

// back collects what the shard holds and held. It locks the shard.
func (s *shard) back() (x shardPast, end history.Edge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x = shardPast{typeURL: s.typeURL, params: s.params.Key()}
	sets := map[string]*set{}
	s.sets(func(t *set) {
		if t.isHeld() {
			end = end.Newer(history.EdgeOf(t.lost))
		}
		if !t.isHeld() || !t.isKept() {
			return
		}
		sets[t.selector] = t
		h := heldNow{set: t.selector, variants: make([]*xds.Variant, 0, t.members.len())}
		for m := range t.members.all() {
			if v := t.given(m); v != nil && !v.DoNotCache {
				h.variants = append(h.variants, v)
			}
		}
		x.now = append(x.now, h)
	})
	for _, e := range s.named.entries {
		if e.isKept() && e.chosen != nil {
			x.now = append(x.now, heldNow{name: e.name, variants: []*xds.Variant{e.chosen}})
		}
	}
	steps, edge := s.table().past.Back(s.past.Place(), x.params, func(r *history.Resource, revision uint64) bool {
		if r.Set == "" {
			return s.named.entries[r.Name] != nil // somebody asks for it now
		}
		t := sets[r.Set]
		return t != nil && revision > t.unnoted
	})
	end = end.Newer(edge)
	for i := range steps {
		if since := steps[i].Since; steps[i].Set == "" || since.Revision > sets[steps[i].Set].unnoted {
			end = end.Newer(since)
		}
	}
	x.steps = steps
	return x, end
}

// begin adds what the shard holds.
func (w *wayBack) begin(x *shardPast) {
	changed := map[string]map[string]*history.Resource{} // by set and name
	for i := range x.steps {
		r := x.steps[i].Resource
		if changed[r.Set] == nil {
			changed[r.Set] = map[string]*history.Resource{}
		}
		changed[r.Set][r.Name] = r
	}
	for _, h := range x.now {
		for _, v := range h.variants {
			key := resourceKey{x.typeURL, x.params, h.set, h.name}
			if h.set != "" {
				key.name = v.Name
			}
			w.begun.add(&key, v)
			if r := changed[h.set][key.name]; r != nil {
				w.held[r] = v
			}
		}
	}
	x.now = nil
}

// rows are the states, the newest first, up to one that is enough; nil: all.
func (w *wayBack) rows(most int, enough func(*StateRow) bool) (rows []StateRow) {
	ended := false // the oldest state that is whole is among them
	for len(rows) < most {
		if n := len(rows); n > 0 && enough != nil && enough(&rows[n-1]) {
			break // each of a hundred thousand changes that is undone costs two hashes
		}
		revision, more := w.next()
		if !more && ended {
			break
		}
		if !ended && (!more || revision <= w.end.Revision) {
			ended = true
			// A change at this very revision is the row of this state. What it has undone is lost.
			if row := w.row(w.end.Revision); row != nil {
				rows = append(rows, *row)
			} else if rows = append(rows, StateRow{Revision: w.end.Revision, At: w.end.At(), ID: w.id(), Whole: true}); !more {
				break
			}
			w.undo(w.end.Revision)
			continue
		}
		if row := w.row(revision); row != nil && revision <= w.newest {
			rows = append(rows, *row)
		}
		w.undo(revision)
	}
	if len(rows) > 0 {
		rows[0].Present = true
	}
	return rows
}

// next is the newest revision of what is not undone; false: all is.
func (w *wayBack) next() (revision uint64, more bool) {
	for i := range w.shards {
		if x := &w.shards[i]; len(x.steps) > 0 {
			revision, more = max(revision, x.steps[0].Revision), true
		}
	}
	return revision, more
}

// row is the state that began with a revision; nil: nothing has changed with it.
func (w *wayBack) row(revision uint64) *StateRow {
	row := StateRow{Revision: revision, Whole: revision >= w.end.Revision}
	for i := range w.shards {
		x := &w.shards[i]
		seen := map[string]bool{} // a resource that is asked for by several names counts once
		for j := 0; j < len(x.steps) && x.steps[j].Revision == revision; j++ {
			step := &x.steps[j]
			count := row.counter(step, w.held[step.Resource])
			if count == nil || step.Set == "" && seen[step.Own] {
				continue
			}
			if step.Set == "" {
				seen[step.Own] = true
			}
			*count++
			row.At = step.At()
			if name := metrics.ShortName(x.typeURL); !slices.Contains(row.Types, name) {
				row.Types = append(row.Types, name)
			}
		}
	}
	if row.Types == nil {
		return nil
	}
	if row.Whole {
		row.ID = w.id()
	}
	return &row
}

// counter is where a step is counted, which made of a resource what is; nil: nothing has changed.
// What nobody wanted for a while has changed if it came back as something else.
func (row *StateRow) counter(s *history.Step, is *xds.Variant) *int {
	switch kind := s.Kind; {
	case s.First, !s.Counts && sameBody(s.Was, is):
		return nil
	case s.Counts && kind == history.Removed, !s.Counts && is == nil:
		return &row.Removed
	case s.Counts && kind == history.Added, !s.Counts && s.Was == nil:
		return &row.Added
	}
	return &row.Changed
}

// undo goes back to before a revision, which is the newest that is not undone.
func (w *wayBack) undo(revision uint64) {
	for i := range w.shards {
		x := &w.shards[i]
		for len(x.steps) > 0 && x.steps[0].Revision == revision {
			if step := &x.steps[0]; !step.First {
				at := resourceKey{x.typeURL, x.params, step.Set, step.Name}
				w.note(&at, w.held[step.Resource], false)
				w.note(&at, step.Was, true)
				w.held[step.Resource] = step.Was
			}
			x.steps = x.steps[1:]
		}
	}
}

// note notes that a body is held from now on, or no longer; nil: there is none.
func (w *wayBack) note(at *resourceKey, v *xds.Variant, in bool) {
	if v != nil {
		w.changes = append(w.changes, xds.Change{Member: at.digest(v.Digest), In: in})
	}
}

// id is the ID of the state that is reached.
func (w *wayBack) id() string {
	w.tree, w.changes = w.tree.Apply(w.changes), nil
	return idOf(w.tree.Digest())
}
