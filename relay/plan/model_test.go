package plan

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/state"
)

var (
	seeds = flag.Int("seeds", 100, "how many plays TestModel plays")
	seed  = flag.Uint64("seed", 1, "the first seed of TestModel")
	tell  = flag.Bool("tell", false, "print what happens in a play")
)

// TestModel: at every moment each route that a client was sent has its cluster, endpoints and
// secret; no route goes before its cluster is acknowledged, but after order_hold; listeners and
// routes are of one state; no front is older than order_hold; and all clients get what there is in
// the end.
func TestModel(t *testing.T) {
	start, playing, wrote := time.Now(), uint64(0), 0
	defer func() {
		if t.Failed() {
			t.Logf("again: go test ./relay/plan -run TestModel -seeds 1 -seed %d -tell", playing)
		}
	}()
	for i := range *seeds {
		playing = *seed + uint64(i)
		wrote += play(t, playing)
	}
	t.Logf("%d seeds from %d on, %d responses, in %v", *seeds, *seed, wrote, time.Since(start).Round(ms))
}

// player is a client of the model.
type player struct {
	*client
	tier    int
	envoy   bool // asks for endpoints by the names of its clusters
	grpc    bool // asks for clusters and endpoints by name
	silent  bool // never answers clusters: one of them warms
	slow    time.Duration
	answers []answer
	look    time.Time
	behind  []time.Time     // by group: since when its front is not that of the target
	blind   []bool          // by group: clusters were waited for after the last turn
	acked   map[string]bool // clusters that it has acknowledged
	newest  uint64          // the last response of clusters that it has acknowledged
	shown   time.Time       // when it was written listeners or routes last
	loose   map[int]bool    // groups whose routes went though clusters were not known
}

type answer struct {
	at       time.Time
	typeURL  string
	nonce    uint64
	clusters []string
}

// origin is one group's timeline, and how it is used.
type origin struct {
	*state.Timeline
	prefix   string
	revision uint64
	served   [state.Tiers]map[string]bool // listeners and routes that were ever a tier's
	settles  time.Time                    // when the origin speaks of its clusters at last
	confirms time.Time                    // when it confirms what was restored
	hidden   []state.Edit                 // its clusters until then
}

type world struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	n       int
	wrote   int
	changed time.Time // when anything happened last
	origins []*origin
	players []*player
	holds   bool
}

func play(t *testing.T, seed uint64) int {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), now: zero, changed: zero}
	w.holds = w.r.IntN(3) > 0
	for i := range 1 + w.r.IntN(2) {
		w.origins = append(w.origins, w.origin(i))
	}
	for range 1 + w.r.IntN(3) {
		w.players = append(w.players, w.player())
	}
	calm := w.r.IntN(2) == 0
	end := zero.Add(5 * time.Second)
	act := w.now
	for w.now.Before(end.Add(4 * time.Second)) {
		if !act.After(w.now) && w.now.Before(end) {
			waits := slices.ContainsFunc(w.origins, func(o *origin) bool { return !o.settles.IsZero() || !o.confirms.IsZero() })
			if w.now.Sub(w.changed) >= 1400*ms && !waits { // EC-2
				for _, p := range w.players {
					if !p.silent && p.slow <= 120*ms {
						w.converged(p)
					}
				}
			}
			w.changed = w.now
			w.act()
			act = w.now.Add(time.Duration(w.r.Int64N(60)) * ms)
			if calm && w.r.IntN(10) == 0 {
				act = act.Add(1500 * ms)
			}
		}
		w.open()
		next := end.Add(4 * time.Second)
		soonest := func(at time.Time) {
			if at.After(w.now) && at.Before(next) {
				next = at
			}
		}
		for _, p := range w.players {
			w.turn(p)
			soonest(p.look)
			for _, a := range p.answers {
				soonest(a.at)
			}
		}
		if w.now.Before(end) {
			soonest(act)
		}
		for _, o := range w.origins {
			soonest(o.settles)
			soonest(o.confirms)
		}
		w.now = next
	}
	for _, p := range w.players {
		w.converged(p)
	}
	return w.wrote
}

// origin begins an origin. It may not have spoken of its clusters yet, or its listeners and routes
// may be restored.
func (w *world) origin(i int) *origin {
	o := &origin{Timeline: state.NewTimeline(w.now, state.Config{Bounds: func() (int64, time.Duration) { return 1 << 30, time.Hour }}), prefix: fmt.Sprint("o", i, "-")}
	for tier := range o.served {
		o.served[tier] = map[string]bool{}
	}
	firm := state.Status{Phase: state.Firm, Age: state.Live}
	var all []state.Change
	for _, typeURL := range []string{cds, eds, sds, lds, rds} {
		c := change(typeURL)
		c.Status = &firm
		all = append(all, c)
	}
	switch w.r.IntN(4) {
	case 0: // the origin is silent about clusters, perhaps for longer than cold_wait
		o.settles = w.now.Add(time.Duration(w.r.Int64N(3000)) * ms)
		all[0].Status = &state.Status{Phase: state.Unanswered, Asked: w.now}
	case 1:
		o.confirms = w.now.Add(time.Duration(w.r.Int64N(2000)) * ms)
		restored := state.Status{Phase: state.Firm, Age: state.Restored}
		all[3].Status, all[4].Status = &restored, &restored
	}
	w.publish(o, all...)
	w.publish(o, w.changes(o)...)
	return o
}

func (w *world) publish(o *origin, all ...state.Change) {
	if !o.settles.IsZero() { // what it says of clusters is not known yet
		for i := range all {
			if all[i].TypeURL == cds {
				o.hidden = append(o.hidden, all[i].Edits...)
				all[i].Edits = nil
			}
		}
	}
	o.revision++
	o.Publish(w.now, o.revision, all...)
	w.tell("%s published %d", o.prefix, o.revision)
}

// open lets the origins speak of what they were silent about.
func (w *world) open() {
	for _, o := range w.origins {
		if !o.settles.IsZero() && !o.settles.After(w.now) {
			o.settles, w.changed = time.Time{}, w.now
			last := map[string]state.Edit{}
			for _, e := range o.hidden {
				last[e.Name] = e
			}
			c := change(cds, slices.DeleteFunc(slices.Collect(maps.Values(last)), func(e state.Edit) bool { return !e.Entry.Known() })...)
			c.Status = &state.Status{Phase: state.Firm, Age: state.Live}
			o.Publish(w.now, o.revision, c)
			w.tell("%s speaks of its clusters", o.prefix)
		}
		if !o.confirms.IsZero() && !o.confirms.After(w.now) {
			o.confirms, w.changed = time.Time{}, w.now
			live := &state.Status{Phase: state.Firm, Age: state.Live}
			w.publish(o, state.Change{TypeURL: lds, Selector: "*", Status: live}, state.Change{TypeURL: rds, Selector: "*", Status: live})
		}
		for tier := range o.served {
			o.served[tier][printOf(o.Target(tier).State)] = true
		}
	}
}

// printOf is what a state has of listeners and routes.
func printOf(s *state.State) string {
	var all []string
	for _, typeURL := range []string{lds, rds} {
		x, _ := s.Of(typeURL, "*")
		for e := range x.Members.All() {
			all = append(all, e.Name()+" "+words(e))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func (w *world) body(typeURL, name, refs string) state.Edit {
	w.n++
	return say(typeURL, name, fmt.Sprint(refs, " ", w.n))
}

// changes make a consistent next state of the origin: every route's cluster is there, with
// endpoints and a secret.
func (w *world) changes(o *origin) []state.Change {
	s := o.Newest()
	edits := map[string][]state.Edit{}
	add := func(typeURL string, e state.Edit) { edits[typeURL] = append(edits[typeURL], e) }
	all := func(typeURL string) []state.Entry {
		x, _ := s.Of(typeURL, "*")
		return slices.Collect(x.Members.All())
	}
	cluster := func() string {
		w.n++
		name := fmt.Sprint(o.prefix, "c", w.n)
		if w.r.IntN(2) == 0 {
			name = fmt.Sprint(o.prefix, "c", w.n%17)
		}
		for _, typeURL := range []string{cds, eds, sds} {
			add(typeURL, w.body(typeURL, name, name))
		}
		return name
	}
	unused := func(route, cluster string) {
		for _, r := range all(rds) {
			if r.Name() != route && refers(r) == cluster {
				return
			}
		}
		for _, typeURL := range []string{cds, eds, sds} {
			add(typeURL, state.Edit{Name: cluster})
		}
	}
	routes := all(rds)
	switch x := w.r.IntN(8); {
	case x == 0 || len(routes) == 0: // a cluster and the route to it
		c := cluster()
		r := fmt.Sprint(o.prefix, "r", w.n)
		add(rds, w.body(rds, r, c))
		add(lds, w.body(lds, r, r))
	case x < 4: // a route goes to another cluster
		r := pick(w.r, routes)
		c := cluster()
		add(rds, w.body(rds, r.Name(), c))
		if c != refers(r) {
			unused(r.Name(), refers(r))
		}
	case x == 4: // a route is taken away, and its cluster
		r := pick(w.r, routes)
		add(rds, state.Edit{Name: r.Name()})
		add(lds, state.Edit{Name: r.Name()})
		unused(r.Name(), refers(r))
	case x == 5:
		if c := all(cds); len(c) > 0 {
			e := pick(w.r, c)
			add(cds, w.body(cds, e.Name(), e.Name()))
		}
	default:
		e := pick(w.r, all(eds))
		add(eds, w.body(eds, e.Name(), e.Name()))
	}
	var out []state.Change
	for _, typeURL := range []string{cds, eds, sds, lds, rds} {
		if len(edits[typeURL]) > 0 {
			out = append(out, change(typeURL, edits[typeURL]...))
		}
	}
	return out
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func (w *world) act() {
	o := pick(w.r, w.origins)
	x := w.r.IntN(100)
	if !w.holds && x >= 70 && x < 95 {
		x = 0
	}
	if w.holds && !o.settles.IsZero() { // a state of before would have routes whose clusters were never known
		return
	}
	tier := w.r.IntN(state.Tiers)
	old := func() *state.State {
		if states := o.States(); len(states) > 0 {
			return states[len(states)-1-w.r.IntN(min(len(states), 8))].State
		}
		return o.Newest()
	}
	switch {
	case x < 70:
		w.publish(o, w.changes(o)...)
	case x < 76: // freeze, or a canary gate
		o.Hold(w.now, tier, o.Newest())
	case x < 82: // rollback
		s := old()
		o.Hold(w.now, tier, s)
		if w.r.IntN(2) == 0 {
			o.Hold(w.now, 1-tier, s)
		}
	case x < 90:
		o.Hold(w.now, tier, nil)
	case x < 93: // promotion
		o.Hold(w.now, state.Rest, o.Target(state.Canary).State)
	case x < 95: // A, B, A within one moment
		o.Hold(w.now, tier, old())
		w.open()
		for _, p := range w.players {
			w.turn(p)
		}
		o.Hold(w.now, tier, nil)
	default: // comes back with what it has, or with nothing
		p := pick(w.r, w.players)
		w.tell("%v comes back", p)
		p.answers, p.behind, p.blind = nil, make([]time.Time, len(w.origins)), make([]bool, len(w.origins))
		p.look, p.shown = w.now, time.Time{}
		if w.r.IntN(2) == 0 {
			p.acked = map[string]bool{}
			for _, a := range p.asks {
				a.has = map[string]held{}
			}
		}
		for name := range p.asks[cds].has { // it says that it has them
			p.acked[name] = true
		}
		p.connect()
	}
}

func (w *world) player() *player {
	p := &player{
		client: newClient(w.t, w.r.IntN(2) == 0, len(w.origins), cds, eds, sds, lds, rds),
		tier:   w.r.IntN(state.Tiers), silent: w.r.IntN(4) == 0, acked: map[string]bool{}, loose: map[int]bool{},
		slow:   []time.Duration{0, 20 * ms, 120 * ms, 900 * ms}[w.r.IntN(4)],
		behind: make([]time.Time, len(w.origins)), blind: make([]bool, len(w.origins)),
	}
	switch w.r.IntN(3) {
	case 0:
		p.envoy = true
		p.ask(eds, "none")
	case 1:
		p.grpc = w.r.IntN(2) == 0
	}
	if p.grpc {
		p.ask(cds, "none")
		p.ask(eds, "none")
	}
	p.written = func(s Step, nonce uint64) { w.written(p, s, nonce) }
	p.removes = func(typeURL, name string, was held) { w.removed(p, typeURL, name, was) }
	return p
}

func (w *world) tell(format string, args ...any) {
	if *tell {
		w.t.Logf("%v: "+format, append([]any{w.now.Sub(zero)}, args...)...)
	}
}

// turn is what a client and its stream do at a moment.
func (w *world) turn(p *player) {
	for i := 0; i < len(p.answers); {
		a := p.answers[i]
		if a.at.After(w.now) {
			i++
			continue
		}
		p.answers = slices.Delete(p.answers, i, i+1)
		p.stream.Ack(w.now, a.typeURL, a.nonce) // or a NACK: it holds nothing either
		if a.typeURL == cds && a.nonce > p.newest {
			p.acked, p.newest = map[string]bool{}, a.nonce
			for _, name := range a.clusters {
				p.acked[name] = true
			}
		}
		p.names(w.r)
	}
	targets := make([]*state.Target, len(w.origins))
	for g, o := range w.origins {
		targets[g] = o.Target(p.tier)
	}
	before := make([]group, len(w.origins))
	copy(before, p.stream.groups)
	for g := range targets {
		if silent, _ := unknown(w.now, targets[g].State); silent {
			p.loose[g] = true
		}
	}
	p.log = nil
	p.look = p.next(w.now, targets)
	if len(p.log) > 0 {
		w.tell("%v tier %d: %s", p, p.tier, strings.Join(p.log, "; "))
	}
	w.after(p, before, targets)
}

// names asks for what the client refers to, and drops what it does not. Clients of gRPC ask for
// what their routes name, and let an old one go when they have the new one with its endpoints.
func (p *player) names(r *rand.Rand) {
	if !p.envoy && !p.grpc || r.IntN(4) == 0 {
		return
	}
	clusters, ready := []string{"none"}, true
	for _, route := range p.asks[rds].has {
		clusters = append(clusters, refers(route.Entry))
		_, one := p.asks[cds].has[refers(route.Entry)]
		_, two := p.asks[eds].has[refers(route.Entry)]
		ready = ready && one && two
	}
	if p.grpc {
		if !ready {
			clusters = slices.AppendSeq(clusters, maps.Keys(p.asks[cds].names))
		}
		p.ask(cds, clusters...)
		p.ask(eds, clusters...)
		return
	}
	p.ask(eds, append(slices.Collect(maps.Keys(p.asks[cds].has)), "none")...)
}

// written checks what a client has after each response.
func (w *world) written(p *player, s Step, nonce uint64) {
	typeURL := s.TypeURL
	w.wrote++
	due := false // a front is
	for _, x := range p.stream.groups {
		due = due || x.waits && !x.due.After(w.now)
	}
	if of, is := lastOf(p.stream.inFlight(typeURL)); is && !due { // of what was missing, one may follow the other
		last := of.at
		missing := s.Only == Missing && backend(typeURL) && typeURL != cds
		pass := p.delta && front(typeURL) && last.Equal(w.now) // what is taken away, after what is added
		if w.now.Before(last.Add(config.Hold)) && !missing && !pass {
			w.t.Fatalf("%v: %v: %s while a response of %v is not answered (NONCE-10)", w.now.Sub(zero), p, short[typeURL], last.Sub(zero))
		}
	}
	if front(typeURL) {
		p.shown = w.now
	}
	for g, blind := range p.blind { // clusters have as long for their answer as any
		if blind && typeURL == cds {
			p.behind[g] = w.now
		}
	}
	if !p.silent || typeURL != cds {
		a := answer{at: w.now.Add(time.Duration(w.r.Int64N(int64(p.slow) + 1))), typeURL: typeURL, nonce: nonce}
		if typeURL == cds {
			a.clusters = slices.Collect(maps.Keys(p.asks[cds].has))
		}
		p.answers = append(p.answers, a)
	}
	w.whole(p)
}

// removed checks what is taken away.
func (w *world) removed(p *player, typeURL, name string, was held) {
	target := w.origins[was.group].Target(p.tier)
	if !backend(typeURL) {
		return
	}
	if target.Kind(lds)[0].Age == state.Restored && !target.Held {
		w.t.Fatalf("%v: %v: %s %s is taken away while listeners are not confirmed (ORD-11)", w.now.Sub(zero), p, short[typeURL], name)
	}
	pending := false
	for g, x := range p.stream.groups {
		pending = pending || x.front == nil || printOf(x.front) != printOf(w.origins[g].Target(p.tier).State)
	}
	if p.asks[typeURL].Named && (w.now.Before(p.shown.Add(config.Hold)) || pending) {
		w.t.Fatalf("%v: %v: %s %s is taken away, which it asks for by name (ORD-10)", w.now.Sub(zero), p, short[typeURL], name)
	}
	for _, route := range p.asks[rds].has {
		if !p.grpc && refers(route.Entry) == name && (typeURL != sds || !w.holds) {
			w.t.Fatalf("%v: %v: %s %s is taken away, which a route uses", w.now.Sub(zero), p, short[typeURL], name)
		}
	}
}

// whole checks make before break.
func (w *world) whole(p *player) {
	if what := w.missing(p, func(g int) bool { return !p.loose[g] }); what != "" {
		w.t.Fatalf("%v: %v of tier %d: %s: after %s", w.now.Sub(zero), p, p.tier, what, strings.Join(p.log, "; "))
	}
}

// missing is what a route of some groups refers to, and the client has not.
func (w *world) missing(p *player, of func(g int) bool) string {
	for name, route := range p.asks[rds].has {
		if p.grpc || !of(route.group) {
			continue
		}
		for _, typeURL := range []string{cds, eds, sds} {
			if typeURL == eds && p.envoy || typeURL == sds && w.holds {
				continue // asked for when the cluster has come; always the newest
			}
			if _, is := p.asks[typeURL].has[refers(route.Entry)]; !is {
				return fmt.Sprint("route ", name, " has no ", short[typeURL], " ", refers(route.Entry))
			}
		}
	}
	return ""
}

// unknown reports whether a set of clusters is not known, and whether that is waited for.
func unknown(now time.Time, s *state.State) (is, waits bool) {
	x := s.Kind(cds)[0]
	return x.Phase < state.Settled, x.Phase < state.Settled && now.Before(x.Asked.Add(config.Cold))
}

// after checks what holds after each turn.
func (w *world) after(p *player, before []group, targets []*state.Target) {
	for g, x := range p.stream.groups {
		target := targets[g]
		silent, waits := unknown(w.now, target.State)
		for _, other := range targets { // a list waits for all parts of it (FED-5)
			_, is := unknown(w.now, other.State)
			waits = waits || is && !p.delta
		}
		waits = waits && !p.grpc // who asks by name
		if x.front != before[g].front && x.front != nil {
			due := before[g].due
			if !before[g].waits || !before[g].differs {
				due = target.Since.Add(config.Hold)
			}
			routes, _ := x.front.Of(rds, "*")
			had := state.Set{}
			if was := before[g].front; was != nil {
				had = was.Kind(rds)[0].Members
			}
			for r := range routes.Members.All() {
				if had.Get(r.Name()).Has() && refers(had.Get(r.Name())) == refers(r) {
					continue
				}
				if w.now.Before(due) && x.front.Kind(cds)[0].Phase >= state.Settled && !p.grpc && !p.acked[refers(r)] {
					w.t.Fatalf("%v: %v: route %s goes before the ACK of %s (ORD-5)", w.now.Sub(zero), p, r.Name(), refers(r))
				}
			}
			if waits {
				w.t.Fatalf("%v: %v: the front goes while clusters are waited for (ORD-8)", w.now.Sub(zero), p)
			}
			w.mixture(p, g)
		}
		if p.loose[g] && !silent && w.missing(p, func(of int) bool { return of == g }) == "" {
			p.loose[g] = false
		}
		p.blind[g] = waits
		switch {
		case target.Same(x.front) || x.front != nil && !fronts(x.front, target.State):
			p.behind[g] = time.Time{}
		case x.front != before[g].front || p.behind[g].IsZero() || waits:
			p.behind[g] = w.now
		case w.now.Sub(p.behind[g]) > config.Hold:
			w.t.Fatalf("%v: %v: its listeners and routes are %v behind", w.now.Sub(zero), p, w.now.Sub(p.behind[g]))
		}
	}
}

// fronts reports whether two states have other listeners or routes.
func fronts(a, b *state.State) bool {
	return slices.ContainsFunc([]string{lds, rds}, func(typeURL string) bool {
		return !slices.EqualFunc(a.Kind(typeURL), b.Kind(typeURL), members)
	})
}

// mixture checks that listeners and routes are of one state that the tier was served.
func (w *world) mixture(p *player, g int) {
	var all []string
	for _, typeURL := range []string{lds, rds} {
		for name, h := range p.asks[typeURL].has {
			if h.group == g {
				all = append(all, name+" "+words(h.Entry))
			}
		}
	}
	slices.Sort(all)
	if !w.origins[g].served[p.tier][strings.Join(all, "\n")] {
		w.t.Fatalf("%v: %v of tier %d has listeners and routes of several states: %v", w.now.Sub(zero), p, p.tier, all)
	}
}

// converged checks that a client has what there is.
func (w *world) converged(p *player) {
	for typeURL, a := range p.asks {
		want := map[string]held{}
		for g, o := range w.origins {
			x, _ := o.Target(p.tier).Of(typeURL, "*")
			for e := range x.Members.All() {
				if a.names == nil || a.names[e.Name()] {
					want[e.Name()] = held{e, g}
				}
			}
		}
		if !maps.EqualFunc(want, a.has, held.same) {
			w.t.Fatalf("%v of tier %d: %s has %v, want %v; %+v", p, p.tier, short[typeURL], slices.Sorted(maps.Keys(a.has)), slices.Sorted(maps.Keys(want)), w.origins[0].Target(p.tier).Kind(typeURL))
		}
	}
}
