package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Names that a SotW origin does not have. Some answer a list as if they were not in it. Others,
// java-control-plane in ADS mode for one, answer a type only if every name asked exists: there one
// name too many makes the type silent for all clients. Others again, go-control-plane in ADS mode
// for one, answer only if every name that they have is asked. None of them says which it is, and
// silence may just mean that there is nothing new. So what stays unanswered is asked on a stream
// apart (RELAY-99):
//
//   - first everything, the names of the lane's own stream and those in question. An answer that
//     leaves names out shows that they harm nobody: all stay where they are, or come back, for as
//     long as the lane's stream lasts.
//   - if that is not answered, the names that are unanswered leave the lane's request, and are
//     asked apart one by one, with everything now and again, until they come. Then they go back
//     into the lane's request.
//
// For clients nothing is different: a name that is aside counts as asked on the lane's stream, and
// is absent after the same time (ABS-2). The endpoints of a Cluster that a SotW origin takes away
// go aside at once, also while the removal waits (gather.go), unless names that do not exist are
// known to harm nobody.
const (
	// suspectAfter is how long a name may stay unanswered on a stream that was answered before it
	// is asked apart. On one that was never answered it is longer: such an origin may be slow.
	suspectAfter, suspectUnheard = time.Second, 5 * time.Second
	// ProbeTurn is how long an answer is waited for on the stream apart, and ProbeRound how long
	// that stream lasts before everything is asked again on another, if nothing is found; each time
	// twice as long, up to LastProbeRound.
	ProbeTurn, ProbeRound, LastProbeRound = time.Second, 8 * time.Second, 2 * time.Minute
)

// Probe is what to ask of one type on a stream apart. Its methods may be called beside those of the
// Lane.
type Probe struct {
	Ask Ask
	// Whole: it asks everything. It needs a stream on which nothing was asked yet.
	Whole bool

	lane     *Lane
	store    *store
	gen      uint32
	suspects []*entry // of a Whole one: that leave the request if it is not answered
}

// Suspicion is signalled when Probe may have something.
func (l *Lane) Suspicion() <-chan struct{} { return l.suspicion }

// Probe gives what to ask apart of what the present stream leaves unanswered; nil: nothing. whole:
// on a new stream.
func (l *Lane) Probe(now time.Time, whole bool) (p *Probe) {
	gen := l.gen.Load()
	if gen == 0 || !l.group.origin.config().SotW {
		return nil
	}
	oldest := time.Time{}
	for k := range kinds(l.shards()) {
		k.mu.Lock()
		if x := k.probe(l, gen, now, whole); x != nil && (p == nil || k.probed.Before(oldest)) {
			p, oldest = x, k.probed
		}
		k.unlock()
	}
	if p != nil {
		p.store.mu.Lock()
		p.store.probed = now
		p.store.turn++
		p.store.unlock()
	}
	return p
}

func (k *store) probe(l *Lane, gen uint32, now time.Time, whole bool) *Probe {
	p := &Probe{Ask: Ask{TypeURL: k.typeURL, First: true}, Whole: whole, lane: l, store: k, gen: gen}
	var all, away []Name
	for _, s := range k.all {
		if !l.carries(k) || s.named.lane != l.index || s.named.firstGen[l.index] != gen || s.private() || s.params.Len() > 0 && !s.byLocator() {
			continue
		}
		p.suspects = append(p.suspects, s.named.suspects(gen, now)...)
		for _, e := range s.named.entries {
			if !e.asksOn(gen) || !s.lists(e) {
				continue
			}
			all = append(all, s.named.nameOf(e))
			gone, known := s.named.aside[e]
			if gone {
				away = append(away, s.named.nameOf(e))
			}
			// for longer than suspects looks back
			if !known && e.isUnanswered() && s.harmlessGen != gen {
				p.suspects = append(p.suspects, e)
			}
		}
	}
	if len(p.suspects)+len(away) == 0 || len(all) < 2 { // one alone harms nobody
		return nil
	}
	if p.Ask.Subscribe = all; !whole {
		if p.suspects = nil; len(away) == 0 {
			return nil
		}
		sortNames(away)
		p.Ask.Subscribe = []Name{away[k.turn%len(away)]}
	}
	sortNames(p.Ask.Subscribe)
	p.Ask.All = p.Ask.Subscribe
	return p
}

// suspects are the names that have been asked for a while on the stream of generation gen,
// and of which it has said nothing.
func (n *namedTable) suspects(gen uint32, now time.Time) (es []*entry) {
	if n.shard.harmlessGen == gen {
		return nil
	}
	for _, u := range n.unheard {
		if u.at.Add(suspectAfter).After(now) {
			break
		}
		e := u.entry
		if _, known := n.aside[e]; !known && u.gen == gen && e.asksOn(gen) && !e.answeredOn(gen) && n.shard.lists(e) {
			es = append(es, e)
		}
	}
	return es
}

// suspectLater sets the clock for names just asked.
func (n *namedTable) suspectLater(i laneIndex, gen uint32, now time.Time) {
	s := n.shard
	if s.group.origin.config().SotW && s.harmlessGen != gen {
		s.push(timer{at: now.Add(suspectAfter), kind: suspectNames, shard: s, lane: s.lane(i), gen: gen})
	}
}

// suspect has names asked apart that are unanswered. It locks the shard.
func (n *namedTable) suspect(l *Lane, gen uint32, now time.Time) {
	n.shard.mu.Lock()
	suspects := len(n.suspects(gen, now))
	for _, away := range n.aside {
		if away {
			suspects++
		}
	}
	n.shard.mu.Unlock()
	opened, open := l.openedAt()
	switch late := opened.Add(suspectUnheard); {
	case !open || !l.live(gen) || suspects == 0:
	case l.heard.Load() != gen && now.Before(late):
		n.shard.push(timer{at: late, kind: suspectNames, shard: n.shard, lane: l, gen: gen})
	default:
		signal(l.suspicion)
	}
}

// Heard takes up an answer. It reports whether it is one to what was asked.
func (p *Probe) Heard(u *xds.Update) bool {
	k := p.store
	if u.TypeURL != p.Ask.TypeURL {
		return false
	}
	has := map[string]bool{}
	for i := range u.Resources {
		has[u.Resources[i].Name] = true
	}
	missing, found := 0, false
	for _, n := range p.Ask.Subscribe {
		found = found || has[xds.NameKey(n.Name)]
		if !has[xds.NameKey(n.Name)] {
			missing++
		}
	}
	k.mu.Lock()
	defer k.unlock()
	if !p.lane.live(p.gen) {
		return true
	}
	harmless := p.Whole && (missing > 0 || u.Bad)
	if harmless {
		k.harmlessGen = p.gen
	}
	for _, s := range k.all {
		for e, away := range s.named.aside {
			if away && (harmless || has[e.name]) {
				s.named.setAside(e, false)
			}
		}
	}
	for _, e := range p.suspects { // it exists: it is no name too many
		if s := k.of(e); s != nil && has[e.name] {
			s.named.setAside(e, false)
		}
	}
	return found || p.Whole
}

// Unheard notes that there was no answer. It returns names that have left the lane's request for
// it, at most so many, and how many there are.
func (p *Probe) Unheard(most int) (names []string, n int) {
	k := p.store
	k.mu.Lock()
	defer k.unlock()
	if !p.lane.live(p.gen) {
		return nil, 0
	}
	for _, e := range p.suspects {
		s := k.of(e)
		if s == nil || !e.asksOn(p.gen) || e.answeredOn(p.gen) && !e.isUnanswered() || !k.lists(e) {
			continue
		}
		s.named.setAside(e, true)
		if n++; len(names) < most {
			names = append(names, e.name)
		}
	}
	return names, n
}

// of is the shard that an entry is in; nil: none any more.
func (k *store) of(e *entry) *shard {
	i := slices.IndexFunc(k.all, func(s *shard) bool { return s.named.entries[e.name] == e })
	if i < 0 {
		return nil
	}
	return k.all[i]
}

// setAside takes a name out of the lane's request, or back into it.
func (n *namedTable) setAside(e *entry, away bool) {
	if n.aside == nil {
		n.aside = map[*entry]bool{}
	}
	if was := n.aside[e]; was != away {
		n.relist = true
		n.shard.poke(n.lane)
	}
	n.aside[e] = away
}

// listAsked forgets that a name was aside: it is asked no more, or on another stream, or has come.
func (n *namedTable) listAsked(e *entry) {
	if away, known := n.aside[e]; known {
		delete(n.aside, e)
		if n.relist = n.relist || away; away {
			n.shard.poke(n.lane)
		}
	}
}

// asideOnly reports whether a list has nothing but names that are aside: it is not sent for
// their sake.
func (k *store) asideOnly(list []Name) bool {
	for _, n := range list {
		if !slices.ContainsFunc(k.all, func(s *shard) bool { return s.named.aside[s.named.entries[xds.NameKey(n.Name)]] }) {
			return false
		}
	}
	return true
}

// relist reports whether the lane's request is to be sent again although the same names are
// wanted, and forgets it.
func (k *store) relist() (again bool) {
	for _, s := range k.all {
		again = again || s.named.relist
		s.named.relist = false
	}
	return again
}

// settled forgets of a stream before what has turned out to exist.
func (n *namedTable) settled() {
	for e, away := range n.aside {
		if !away {
			delete(n.aside, e)
		}
	}
}

// harmless looks at what a list leaves out of the names asked a while before, or with the
// first request: the origin answers lists with names that it has not.
func (n *namedTable) harmless(u *update, gen uint32, now time.Time) {
	if n.shard.harmlessGen == gen {
		return
	}
	for _, x := range n.unheard {
		first := x.at.Equal(n.firstAt[n.lane])
		if !first && x.at.Add(suspectAfter).After(now) {
			return
		}
		if e := x.entry; x.gen == gen && e.asksOn(gen) && !e.answeredOn(gen) && n.shard.lists(e) && !n.aside[e] && !u.later[e.name] {
			n.shard.harmlessGen = gen
			for e, away := range n.aside {
				if away {
					n.setAside(e, false)
				}
			}
			return
		}
	}
}

// noteLeftOut notes the endpoints of a Cluster that an origin's list leaves out.
func (k *store) noteLeftOut(vs []*xds.Variant) {
	if !k.group.origin.config().SotW || k.typeURL != xds.ClusterType {
		return
	}
	for _, v := range vs {
		if name := v.Endpoints(); name != "" {
			k.left = append(k.left, name)
		}
	}
}

// putAside takes names of endpoints out of the lane's request, of which the Clusters are gone: they
// will not exist for long. Should one still exist, it comes back when it is found. It locks the
// store of endpoints.
func (g *Group) putAside(names []string, now time.Time) {
	k := g.store(xds.EndpointType)
	if k == nil || len(names) == 0 {
		return
	}
	k.mu.Lock()
	defer k.unlock()
	for _, s := range k.all {
		l := s.lane(s.named.lane)
		for _, name := range names {
			if e := s.named.entries[xds.NameKey(name)]; e != nil && s.lists(e) && s.named.isAsked(e) && s.harmlessGen != l.gen.Load() {
				s.named.setAside(e, true)
				s.push(timer{at: now.Add(suspectAfter), kind: suspectNames, shard: s, lane: l, gen: e.asked()})
			}
		}
	}
}
