package cursor

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// take is one step of a client. It changes nothing of the cursor before it is known that the
// response can be written.
type take struct {
	*Cursor
	plan.Step
	now    time.Time
	a      *Answer
	outs   []outcomes      // by part
	wrote  bool            // there is a response
	later  []string        // names of a part that are looked at when all others were
	last   bool            // they are
	left   map[string]why  // what is still owed then
	beside map[string]bool // names that a source other than that of `*` was looked at for, and whether it has them
	waits  bool            // a set, or a name in a list, is not known that the client waits for
	// errorBytes is how many bytes of errors the response has.
	errorBytes int
}

// outcomes are what becomes of the names of a part. differs: a state has something else, so what is
// kept was looked at, too.
type outcomes struct {
	all     []outcome
	differs bool
	waits   bool // for names
	goes    bool // all that it has to be told is that something is gone, and that waits
}

// outcome is what becomes of one name.
type outcome struct {
	name     string
	was, is  *xds.Variant
	told     *xds.NameError // the error that the client was told last of it
	sent     bool           // the body is in the response
	renewed  bool           // a heartbeat of it is
	removed  bool           // it is said not to exist
	claimed  bool           // what the client says of it is not compared yet
	proven   bool           // what the client says of it is true
	answered why            // what is not due any more
	kept     bool           // it is to be looked at again when a state differs
	again    bool           // in the next step, whatever differs
}

// something is what a client holds that says so, and of which nothing is known but the version.
var something = xds.NewVariant(&xds.Provenance{}, &xds.Resource{Name: "?"}, "")

// Take brings the client to what a step of the plan says. It returns what is to be written now, and
// notes it as written; nil: there is nothing to write.
func (c *Cursor) Take(now time.Time, s plan.Step) *Answer {
	if a, done := c.takeShared(s); done {
		return a
	}
	k := &take{Cursor: c, Step: s, now: now, a: &Answer{delta: c.Delta, ttl: c.TTL}, outs: make([]outcomes, len(c.parts))}
	if k.recognize(); s.Push {
		c.dueNow()
	}
	k.patience()
	for _, i := range c.inOrder() {
		p, x := &c.parts[i], &k.outs[i]
		x.differs = k.differs(p, &s.Parts[p.Group])
		k.later, k.last = nil, false
		look := func(name string) {
			o, is := k.settle(p, name)
			if is {
				x.all = append(x.all, o)
			}
			if star := c.starFor(p, name); is && star != nil && (o.is == nil) != (o.was == nil) { // it has it in its place, or not any more
				star.look.add(name)
			}
		}
		for _, name := range k.names(p, x.differs) {
			look(name)
		}
		if k.last = true; len(k.later) > 0 {
			k.left = p.stillOwed(x.all)
		}
		for _, name := range k.later {
			look(name)
		}
		k.answerSets(p)
	}
	k.wrote = k.wrote || k.again && k.Only == plan.Everything
	if k.wait(); k.Whole() && k.mustWait() {
		k.sleep()
		return nil
	}
	for i := range c.parts {
		k.commit(&c.parts[i], &k.outs[i])
	}
	return k.finish()
}

// names are those that the step may concern, each once and in order: what is due, and what a state
// has otherwise than the one that was taken last.
func (k *take) names(p *part, differs bool) []string {
	all, to := slices.AppendSeq(make([]string, 0, len(p.look)), maps.Keys(p.look)), k.Parts[p.Group].To
	if differs {
		if all = slices.AppendSeq(all, maps.Keys(p.kept)); to != nil {
			all = k.changed(p, to, all)
		}
	}
	for _, name := range all {
		for _, of := range k.resources(p, name) {
			switch w := p.owed[name]; {
			case w&left != 0 && p.held.Get(of).Known():
				p.owe(of, left)
			case w&(asked|demanded) != 0 && k.answers(p, of):
				p.owe(of, w&(asked|demanded))
			}
			all = append(all, of)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// answers reports whether a resource answers for who asks for an alias of it.
func (k *take) answers(p *part, of string) bool {
	f := k.find(p, k.Parts[p.Group].To, of, nil)
	return f.body != nil && (p.held.Get(of).Known() || !k.doubts(&f, false, len(p.claims) > 0 && k.byAlias(p)))
}

// resources are those that a name is an alias of now, and was when the part was taken last.
func (k *take) resources(p *part, name string) (all []string) {
	for _, e := range [...]state.Entry{p.asked.Get(name), k.known(p, name)} {
		if of := e.Besides().Alias; of != "" {
			all = append(all, of)
		}
	}
	return all
}

// differs reports whether a set is not answered yet, or any state of the step has something else of
// the type than that of the step before.
func (k *take) differs(p *part, s *plan.Part) bool {
	if s.All != p.all || s.Named != p.allNamed || anyOf(p.sets, func(t *taken) bool { return t.fresh }) {
		return true
	}
	for i, x := range s.States() {
		switch was := p.last[i]; {
		case x == was:
		case x == nil || was == nil || x.Lanes != was.Lanes || !slices.Equal(x.Kind(k.TypeURL), was.Kind(k.TypeURL)):
			return true
		}
	}
	return false
}

// changed adds the names of which a state has something else than what was taken last.
func (k *take) changed(p *part, to *state.State, all []string) []string {
	add := func(was, is state.Entry) {
		name := is.Name()
		if name == "" {
			name = was.Name()
		}
		all = append(all, name)
	}
	for i := range p.sets {
		for was, is := range state.Diff(p.sets[i].members, k.members(p, i, to)) {
			add(was, is)
		}
		if p.sets[i].fresh {
			for e := range p.held.All() {
				all = append(all, e.Name())
			}
		}
		if x := p.sets[i].in(to); p.sets[i].err != nil && x.Err == nil { // its members end it (ABS-7)
			p.sets[i].err = nil
			for e := range k.members(p, i, to).All() {
				p.owe(e.Name(), asked)
				all = append(all, e.Name())
			}
		}
	}
	if len(p.names) == 0 {
		return all
	}
	x := k.named(p, to)
	for was, is := range p.differences(x.Members) {
		add(was, is)
	}
	for was, is := range state.Diff(p.newer, x.Newer) {
		add(was, is)
	}
	return all
}

// Lacks reports whether a state has a change that the client has still to be sent, of what it was
// answered for once. It costs what the state differs in from the last one that was taken.
func (c *Cursor) Lacks(source int, to *state.State) bool {
	p := &c.parts[source]
	for i := range p.sets {
		if t := &p.sets[i]; !t.fresh && t.members != c.members(p, i, to) {
			return true
		}
	}
	for name := range p.kept { // what stays as something else needs it is a change that is not sent
		if had := p.held.Get(name).Body(); had != nil {
			if f := c.find(p, to, name, had); f.body == nil && f.known || f.body != nil && f.body.Digest != had.Digest {
				return true
			}
		}
	}
	if len(p.names) == 0 {
		return false
	}
	x, differs := c.named(p, to), false
	for was, is := range p.differences(x.Members) {
		if differs = true; !is.Restates(was) && !p.owed[cmp.Or(is.Name(), was.Name())].waits() {
			return true
		}
	}
	if !differs { // for this client they are the same
		p.asked = x.Members
	}
	return false
}

// differences are what is known otherwise, of what concerns the client by name, than when it was
// taken last. It costs what is known otherwise, or what the client has, if that is less.
func (p *part) differences(to state.Set) iter.Seq2[state.Entry, state.Entry] {
	return func(yield func(was, is state.Entry) bool) {
		steps := 0
		for was, is := range state.Diff(p.asked, to) {
			if steps++; steps > len(p.names)+p.held.Len() {
				p.differ(to, yield)
				return
			}
			if (p.concerns(was) || p.concerns(is)) && !yield(was, is) {
				return
			}
		}
	}
}

// differ gives the same by looking at all that the client has.
func (p *part) differ(to state.Set, yield func(was, is state.Entry) bool) {
	more := true
	look := func(name string) (was, is state.Entry) {
		was, is = p.asked.Get(name), to.Get(name)
		more = more && (was.Same(is) || yield(was, is))
		return was, is
	}
	for name := range p.names {
		if !more {
			return
		}
		was, is := look(name)
		for _, e := range [...]state.Entry{was, is} {
			if of := e.Besides().Alias; of != "" {
				look(of)
			}
		}
	}
	for e := range p.held.All() {
		if look(e.Name()); !more {
			return
		}
	}
}

// concerns reports whether the client asks for a name, or for an alias of what it stands for, or
// holds it.
func (p *part) concerns(e state.Entry) bool {
	name := e.Name()
	if p.selects(name) || p.held.Get(name).Known() {
		return true
	}
	for v := range e.Variants() {
		if p.byAliasOf(v) {
			return true
		}
	}
	return false
}

// answerSets notes which sets are answered now for the first time: that has to be said even if
// nothing is in them (SOTW-10, DELTA-13, COLL-3).
func (k *take) answerSets(p *part) {
	to := k.Parts[p.Group].To
	x := &k.outs[k.source(p)]
	x.goes = !k.wrote && k.Parts[p.Group].All && slices.ContainsFunc(x.all, func(o outcome) bool { return o.claimed })
	goes := x.goes
	for i := range p.sets {
		t := &p.sets[i]
		x, _ := state.Selected{}, false
		if to != nil {
			x = t.in(to)
		}
		if x.Err != nil && !x.Err.Same(t.err) && k.Only == plan.Everything && k.tells(&x) { // ABS-12
			k.tell(p, *x.Err)
		}
		if !k.ready(p, t, &x) {
			if k.waits = true; t.unreached {
				k.unreachable(p, t.Name.Name, t.Spelt)
			}
			continue
		}
		if t.fresh && k.Only == plan.Everything && x.Phase >= state.Settled && !goes {
			if wild := t.Name.Name == xds.Wildcard; wild && !t.listed || k.Delta && (wild || !t.listed) { // DELTA-13, SOTW-10
				k.wrote = true
			}
			if t.Name.Name != xds.Wildcard && k.members(p, i, to).Len() == 0 && k.Delta && !k.unsure(x.Age) {
				k.takeAway(p, xds.Spelling(t.Name.Name, t.Spelt), nil)
			}
		}
	}
}

// tells reports whether a client is told the error of a set now.
func (k *take) tells(x *state.Selected) bool { return x.Age != state.Stale && !(x.Err.Own && k.Delta) }

// commit notes what became of the names of a part.
func (k *take) commit(p *part, x *outcomes) {
	var edits []state.Edit
	for i := range p.sets {
		if t := &p.sets[i]; t.unreached {
			t.unreached, t.away = false, true
		}
	}
	whole := k.Only == plan.Everything && k.Parts[p.Group].To != nil
	if whole && x.differs {
		p.kept = nil
	}
	for i := range x.all {
		o := &x.all[i]
		if o.is != o.was {
			e := state.Edit{Name: o.name}
			if o.is != nil {
				e.Entry = state.Present(o.is)
			}
			edits = append(edits, e)
		}
		if !o.claimed {
			delete(p.claims, o.name)
		}
		switch {
		case o.proven && k.TTL:
			p.accepted = p.accepted.With(edits[len(edits)-1])
		case o.sent && k.TTL:
			p.accepted = p.accepted.With(state.Edit{Name: o.name})
		}
		p.note(o)
		p.clear(o.name, o.answered)
		p.look.drop(o.name)
		switch {
		case o.again, !whole: // what is taken as a whole is as it was
			p.look.add(o.name)
		case o.kept:
			p.kept.add(o.name)
		}
	}
	p.held = p.held.With(edits...)
	for i := range x.all {
		p.unspell(x.all[i].name)
	}
	if whole {
		k.arrive(p, x.goes)
	}
}

// arrive notes that a part was compared with the states of the step as a whole.
func (k *take) arrive(p *part, goes bool) {
	s := &k.Parts[p.Group]
	p.last, p.all, p.allNamed = s.States(), s.All, s.Named
	if k.wrote {
		k.from = xds.Newer(k.from, s.To.From(k.TypeURL))
	}
	names := k.named(p, s.To)
	p.asked, p.newer = names.Members, names.Newer
	for i := range p.sets {
		t := &p.sets[i]
		x := t.in(s.To)
		k.said = cmp.Or(x.Version, k.said)
		if t.members = k.members(p, i, s.To); x.Err == nil || k.tells(&x) {
			t.err = x.Err
		}
		if t.fresh && !goes && k.ready(p, t, &x) && (x.Phase >= state.Settled || t.members.Len() > 0 && (t.listed || k.wrote)) { // what states say of it counts from now on
			t.fresh, p.last = false, [4]*state.State{}
		}
	}
}

// note notes the error that the client was told last of a name.
func (p *part) note(o *outcome) {
	switch {
	case o.told == nil:
		delete(p.told, o.name)
	case p.told == nil:
		p.told = map[string]*xds.NameError{o.name: o.told}
	default:
		p.told[o.name] = o.told
	}
}
