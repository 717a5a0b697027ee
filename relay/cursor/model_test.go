package cursor

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

var (
	seeds = flag.Int("seeds", 200, "how many plays TestModel plays")
	seed  = flag.Uint64("seed", 1, "the first seed of TestModel")
	tell  = flag.Bool("tell", false, "print what happens in a play")
)

// TestModel: clients of sets, names and aliases, in both dialects, with permits, parameters and
// TTLs, of one origin or two, are brought to random states, and keep what random states have. After
// each step each has what its subscription selects, worked out from nothing; and no response says
// what the client knows, or leaves out what is due.
func TestModel(t *testing.T) {
	start, playing := time.Now(), uint64(0)
	defer func() {
		if t.Failed() {
			t.Logf("again: go test ./relay/cursor -run TestModel -seeds 1 -seed %d -tell", playing)
		}
	}()
	answers := 0
	for i := range *seeds {
		playing = *seed + uint64(i)
		answers += play(t, playing)
	}
	t.Logf("%d seeds from %d on, %d responses, in %v", *seeds, *seed, answers, time.Since(start).Round(ms))
}

type world struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	typeURL string
	memo    *Memo
	origins []*origin
	players []*player
	answers int
}

// origin is a timeline, and what it may speak of.
type origin struct {
	*state.Timeline
	prefix   string
	revision uint64
}

const glob = "xdstp://%s/envoy.config.cluster.v3.Cluster/g/*"

func (o *origin) plain() []string   { return o.all("n0", "n1", "n2", "g0", "g1") }
func (o *origin) grouped() []string { return o.all("g0", "g1") }
func (o *origin) aliases() []string { return o.all("a0", "a1", "a2") }

func (o *origin) all(names ...string) []string {
	for i, name := range names {
		names[i] = o.prefix + name
	}
	return names
}

func (o *origin) star() Name { return All }
func (o *origin) glob() Name {
	begin := o.prefix + "g"
	return Name{Name: fmt.Sprintf(glob, o.prefix), Covers: func(name string) bool { return strings.HasPrefix(name, begin) }}
}

func play(t *testing.T, seed uint64) int {
	r := rand.New(rand.NewPCG(seed, 3))
	w := &world{t: t, r: r, now: zero, typeURL: pick(r, []string{cds, eds, vhs, sds}), memo: &Memo{}}
	for i := range 1 + r.IntN(2) {
		o := &origin{Timeline: state.NewTimeline(zero, state.Config{Bounds: func() (int64, time.Duration) { return 1 << 30, time.Hour }}), prefix: fmt.Sprint("o", i, "-")}
		o.Connect(0, state.Lane{Open: true})
		w.origins = append(w.origins, o)
	}
	for range 1 + r.IntN(3) {
		w.players = append(w.players, w.player())
	}
	for range 60 {
		w.now = w.now.Add(time.Duration(r.Int64N(int64(time.Second))))
		if r.IntN(3) > 0 {
			w.change(pick(r, w.origins))
		}
		for _, p := range w.players {
			if r.IntN(3) == 0 {
				w.request(p)
			}
			if r.IntN(2) == 0 {
				w.step(p, w.random())
			}
		}
	}
	w.end()
	return w.answers
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func (w *world) tell(format string, args ...any) {
	if *tell {
		w.t.Logf("%v: "+format, append([]any{w.now.Sub(zero)}, args...)...)
	}
}

// change is what an origin says, or what becomes of its states.
func (w *world) change(o *origin) {
	old := func() *state.State {
		if all := o.States(); len(all) > 0 {
			return pick(w.r, all).State
		}
		return o.Newest()
	}
	switch x := w.r.IntN(100); {
	case x < 60:
		w.publish(o, w.said(o)...)
	case x < 70:
		o.Publish(w.now, o.revision, forMaps(w.learned(o))...)
	case x < 78:
		o.Hold(w.now, w.r.IntN(state.Tiers), old())
	case x < 86:
		o.Hold(w.now, w.r.IntN(state.Tiers), nil)
	case x < 92:
		o.Connect(0, state.Lane{Open: w.r.IntN(3) > 0})
	default:
		w.forget(o)
	}
}

func (w *world) publish(o *origin, all ...state.Change) {
	o.revision++
	o.Publish(w.now, o.revision, forMaps(all...)...)
	if *tell {
		w.tell("%s %s", o.prefix, w.words(o.Newest()))
	}
}

// said is what one response says.
func (w *world) said(o *origin) []state.Change {
	switch w.r.IntN(3) {
	case 0:
		return []state.Change{w.inSet(o, o.star().Name, o.plain())}
	case 1:
		return []state.Change{w.inSet(o, o.glob().Name, o.grouped())}
	}
	return []state.Change{{TypeURL: w.typeURL, Edits: w.byName(o)}}
}

func (w *world) inSet(o *origin, selector string, names []string) state.Change {
	c := state.Change{TypeURL: w.typeURL, Selector: selector}
	x, _ := o.Newest().Of(w.typeURL, selector)
	if w.r.IntN(2) == 0 || x.Phase < state.Settled {
		status := state.Status{Phase: min(x.Phase+state.Phase(w.r.IntN(3)), state.Firm), Age: state.Live}
		if w.r.IntN(6) == 0 {
			status.Age = pick(w.r, []state.Age{state.Restored, state.Stale, state.Fallback})
		}
		if w.r.IntN(8) == 0 && selector != xds.Wildcard {
			status.Err = xds.NewNameError(selector, unavailable, pick(w.r, []string{"slow", "down"}))
		}
		c.Status = &status
	}
	if x.Phase == state.Unanswered && (c.Status == nil || c.Status.Phase == state.Unanswered) {
		return c
	}
	for _, name := range names {
		switch w.r.IntN(4) {
		case 0:
			c.Edits = append(c.Edits, say(w.body(name)))
		case 1:
			c.Edits = append(c.Edits, state.Edit{Name: name})
		}
	}
	return c
}

func (w *world) body(name string) like {
	l := like{typeURL: w.typeURL, name: name, payload: fmt.Sprint(w.r.IntN(3))}
	if w.r.IntN(4) == 0 {
		l.end = w.now.Add(time.Duration(w.r.IntN(3)+1) * time.Minute)
	}
	if w.typeURL == cds && w.r.IntN(8) == 0 {
		l.env = "a"
	}
	if w.r.IntN(10) == 0 {
		l.err = xds.NewNameError(name, unavailable, pick(w.r, []string{"ill", "lame"}))
	}
	return l
}

// byName is what is said of names that were asked, and of the aliases that bodies list.
func (w *world) byName(o *origin) []state.Edit {
	x, _ := o.Newest().Of(w.typeURL, "")
	if w.r.IntN(4) == 0 {
		name := pick(w.r, o.aliases())
		if x.Members.Get(name).Known() {
			return nil
		}
		if listed(x.Members, name, "") { // the origin does not contradict itself
			return nil
		}
		if w.r.IntN(2) == 0 {
			return []state.Edit{gone(name, params("a"))}
		}
		return []state.Edit{failed(name, pick(w.r, []uint32{notFound, unavailable}), "no")}
	}
	name := pick(w.r, o.plain())
	var edits []state.Edit
	var lists []string
	switch w.r.IntN(6) {
	case 0:
		edits = append(edits, gone(name, params("a")))
	case 1:
		edits = append(edits, failed(name, pick(w.r, []uint32{notFound, unavailable}), pick(w.r, []string{"no", "none"})))
	case 2: // both maps, with a body each
		if w.typeURL == cds {
			one, two := w.body(name), w.body(name)
			one.env, two.env = "a", "b"
			edits = append(edits, state.Edit{Name: name, Entry: state.NewEntry(state.Facts{Name: name, Bodies: []*xds.Variant{body(one), body(two)}})})
			break
		}
		fallthrough
	default:
		l := w.body(name)
		if w.typeURL == vhs {
			for _, a := range o.aliases() {
				if w.r.IntN(3) == 0 && !listed(x.Members, a, name) {
					lists = append(lists, a)
				}
			}
			l.aliases = lists
		}
		edits = append(edits, say(l))
	}
	for _, a := range o.aliases() {
		switch of := x.Members.Get(a).Facts().Alias; {
		case slices.Contains(lists, a):
			edits = append(edits, alias(a, name))
		case of == name && w.r.IntN(2) == 0:
			edits = append(edits, gone(a, params("a")))
		case of == name:
			edits = append(edits, state.Edit{Name: a})
		}
	}
	return edits
}

// listed reports whether any body but that of one resource lists an alias.
func listed(names state.Set, alias, but string) bool {
	for e := range names.All() {
		if v := e.Body(); v != nil && v.Name != but && v.ListsAs(alias) {
			return true
		}
	}
	return false
}

// learned is what becomes known because somebody asked.
func (w *world) learned(o *origin) state.Change {
	name := pick(w.r, o.plain())
	x, _ := o.Newest().Of(w.typeURL, "")
	for _, a := range o.aliases() {
		if x.Members.Get(a).Facts().Alias == name { // its body lists it
			return state.Change{TypeURL: w.typeURL}
		}
	}
	if w.r.IntN(2) == 0 {
		return state.Change{TypeURL: w.typeURL, Edits: []state.Edit{gone(name, params("a"))}}
	}
	return state.Change{TypeURL: w.typeURL, Edits: []state.Edit{say(w.body(name))}}
}

// forget makes a name unknown that nobody asks for.
func (w *world) forget(o *origin) {
	name := pick(w.r, o.plain())
	x, _ := o.Newest().Of(w.typeURL, "")
	if v := x.Members.Get(name).Body(); v != nil && len(v.Aliases) > 0 {
		return
	}
	for _, p := range w.players {
		if len(p.names) > 0 {
			return
		}
	}
	o.Publish(w.now, o.revision, forMaps(state.Change{TypeURL: w.typeURL, Edits: []state.Edit{{Name: name}}})...)
}

// random is a step, mostly to the target; it may keep what other states have.
func (w *world) random() func(p *player) plan.Step {
	return func(p *player) plan.Step {
		s := plan.Step{TypeURL: w.typeURL, Parts: make([]plan.Part, len(w.origins)), Push: w.r.IntN(4) == 0}
		for g, o := range w.origins {
			s.Parts[g].To = o.Target(p.tier).State
			for i := range s.Parts[g].Keep {
				if all := o.States(); w.r.IntN(4) == 0 && len(all) > 0 {
					s.Parts[g].Keep[i] = pick(w.r, all).State
				}
			}
			s.Parts[g].All = w.r.IntN(8) == 0
			if w.r.IntN(30) == 0 {
				s.Parts[g].To = nil
			}
		}
		if w.r.IntN(8) == 0 {
			s.Only = pick(w.r, []plan.Only{plan.Missing, plan.Demanded, plan.Heartbeats})
		}
		return s
	}
}

// end: everything is known, so each client has all that it asks for, and is sent nothing more.
func (w *world) end() {
	w.now = w.now.Add(cold)
	for _, o := range w.origins {
		o.Connect(0, state.Lane{Open: true})
		firm := &state.Status{Phase: state.Firm, Age: state.Live}
		all := []state.Change{{TypeURL: w.typeURL, Selector: o.star().Name, Status: firm}, {TypeURL: w.typeURL, Selector: o.glob().Name, Status: firm}}
		x, _ := o.Newest().Of(w.typeURL, "")
		names := state.Change{TypeURL: w.typeURL}
		for _, name := range append(o.plain(), o.aliases()...) {
			if e := x.Members.Get(name); !e.Known() || e.Facts().Err != nil && e.Body() == nil {
				names.Edits = append(names.Edits, gone(name, params("a")))
			}
		}
		w.publish(o, append(all, names)...)
		o.Hold(w.now, state.Rest, nil)
		o.Hold(w.now, state.Canary, nil)
	}
	for _, p := range w.players {
		still := func(p *player) plan.Step {
			s := plan.Step{TypeURL: w.typeURL, Parts: make([]plan.Part, len(w.origins))}
			for g, o := range w.origins {
				s.Parts[g].To = o.Target(p.tier).State
			}
			return s
		}
		for range 4 {
			w.step(p, still)
			w.now = w.now.Add(patience)
		}
		if a := w.step(p, still); a != nil {
			w.t.Fatalf("%v is sent %s, and nothing has changed", p, wordsOf(a))
		}
		for i, o := range w.origins {
			for _, name := range append(o.plain(), o.aliases()...) {
				f := p.brute(o.Target(p.tier).State, i, name, p.cursor.parts[i].held.Get(name).Body(), true)
				if has := p.has[name]; f.known && f.body == nil && has != nil && (p.delta || p.cursor.Whole()) || f.body != nil && (has == nil || has.Digest != f.body.Digest) {
					w.t.Fatalf("%v has %v of %s at the end, and is to have %v", p, word(has), name, word(f.body))
				}
			}
		}
		for name := range p.pending {
			i := w.originOf(name)
			s := w.origins[i].Target(p.tier).State
			x, _ := s.Of(w.typeURL, "")
			if f := p.brute(s, i, name, nil, true); f.body != nil || p.delta && f.known && x.Members.Get(name).Facts().Alias == "" {
				w.t.Fatalf("%v was never answered for %s", p, name)
			}
		}
	}
}

// words are what a state has, for people.
func (w *world) words(s *state.State) string {
	if s == nil {
		return "nothing yet"
	}
	var all []string
	for _, x := range s.Kind(w.typeURL) {
		line := fmt.Sprintf("%q phase %d age %d:", x.Selector, x.Phase, x.Age)
		for e := range x.Members.All() {
			f := e.Facts()
			line += " " + f.Name + "="
			for _, v := range f.Bodies {
				line += word(v)
			}
			if f.Alias != "" {
				line += ">" + f.Alias
			}
			if len(f.Absent) > 0 {
				line += "-"
			}
			if f.Err != nil {
				line += "!" + f.Err.Message
			}
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return fmt.Sprintf("open %t %s", s.Lanes[0].Open, strings.Join(all, "; "))
}

func word(v *xds.Variant) string {
	if v == nil {
		return "none"
	}
	_, payload, _ := xds.AnyParts(v.Any())
	text := string(payload) + strings.Join(v.Aliases, "/")
	if v.Constraints != nil {
		text += "@" + v.Constraints.Key()
	}
	if v.Timed() {
		text += "~" + v.Expires().Format("04:05")
	}
	return text
}
