package relay

import (
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Names that a SotW origin does not have. Some origins answer a list as if these names were not in
// it. Others, java-control-plane in ADS mode for one, answer a type only if every name asked
// exists: one name too many makes the type silent for all clients. Others again, go-control-plane
// in ADS mode for one, answer only if every name that they have is asked. An origin does not state
// which kind it is, and its silence may just mean that there is nothing new. So names that stay
// unanswered are asked on a stream apart, the probe (RELAY-99):
//
//   - First the probe asks everything: the names of the lane's own stream and the suspects. An
//     answer that leaves names out shows that such names are harmless. Then all stay in the lane's
//     request, or come back into it, for as long as the lane's stream lasts.
//   - If that is not answered, the suspects leave the lane's request. The probe asks them one by
//     one, and everything now and again, until they come. Then they return to the lane's request.
//
// Clients see no difference: a name that is aside counts as asked on the lane's stream, and is
// absent after the same time (ABS-2). When a SotW origin removes a Cluster, its endpoints go aside
// at once, also while the removal waits (gather.go), unless names that do not exist are known to be
// harmless.
const (
	// suspectAfter is how long a name may stay unanswered before it is suspect. On a stream on
	// which nothing was answered it is suspectUnheard, since the origin may be slow.
	suspectAfter, suspectUnheard = time.Second, 5 * time.Second
	// ProbeTurn is how long the probe waits for an answer. ProbeRound is how long its stream lasts
	// before everything is asked again on another one, if nothing was found. It doubles each time,
	// up to LastProbeRound.
	ProbeTurn, ProbeRound, LastProbeRound = time.Second, 8 * time.Second, 2 * time.Minute
)

// Probe is what to ask of one type on a stream apart. Its methods may be called concurrently with
// those of the Lane.
type Probe struct {
	Ask Ask
	// Whole: the probe asks everything. It needs a stream on which nothing was asked yet.
	Whole bool

	lane     *Lane
	store    *store
	gen      uint32
	suspects []*entry // of a Whole probe: they leave the request if it is not answered
}

// Suspicion is signalled when Probe may have something.
func (l *Lane) Suspicion() <-chan struct{} { return l.suspicion }

// Probe returns what to ask apart because the present stream leaves it unanswered; nil: nothing.
// whole: the probe is on a new stream.
func (l *Lane) Probe(now time.Time, whole bool) (p *Probe) {
	gen := l.gen.Load()
	if gen == 0 || !l.group.config().SotW {
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

// suspects are the names that the stream of generation gen has left unanswered for suspectAfter.
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

// suspectLater sets the timer for names that were just asked.
func (n *namedTable) suspectLater(i laneIndex, gen uint32, now time.Time) {
	s := n.shard
	if s.group.config().SotW && s.harmlessGen != gen {
		s.push(timer{at: now.Add(suspectAfter), kind: suspectNames, shard: s, lane: s.lane(i), gen: gen})
	}
}

// suspect signals that unanswered names have to be asked apart. It locks the shard.
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

// Heard applies an answer. It reports whether it answers what the probe asked.
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
	for _, e := range p.suspects { // a name that exists is not suspect
		if s := k.of(e); s != nil && has[e.name] {
			s.named.setAside(e, false)
		}
	}
	return found || p.Whole
}

// Unheard notes that there was no answer. It returns the names that left the lane's request for
// that, up to a number, and how many there are.
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

// of is the shard that has the entry; nil: it is gone.
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

// listAsked forgets whether a name is aside: it was unsubscribed, is asked on another stream, or
// has come.
func (n *namedTable) listAsked(e *entry) {
	if away, known := n.aside[e]; known {
		delete(n.aside, e)
		if n.relist = n.relist || away; away {
			n.shard.poke(n.lane)
		}
	}
}

// asideOnly reports whether a list has only names that are aside. Such a list is not sent again.
func (k *store) asideOnly(list []Name) bool {
	for _, n := range list {
		if !slices.ContainsFunc(k.all, func(s *shard) bool { return s.named.aside[s.named.entries[xds.NameKey(n.Name)]] }) {
			return false
		}
	}
	return true
}

// relist reports whether the lane's request has to be sent again although the wanted names are the
// same, and resets that.
func (k *store) relist() (again bool) {
	for _, s := range k.all {
		again = again || s.named.relist
		s.named.relist = false
	}
	return again
}

// settled forgets, for a new stream, which suspects turned out to exist.
func (n *namedTable) settled() {
	maps.DeleteFunc(n.aside, func(_ *entry, away bool) bool { return !away })
}

// harmless is called for a list. If the list leaves out a name that was asked a while before, or
// with the first request, the origin answers lists in spite of names that it does not have: such
// names are harmless.
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
	if !k.group.config().SotW || k.typeURL != xds.ClusterType {
		return
	}
	for _, v := range vs {
		if name := v.Endpoints(); name != "" {
			k.left = append(k.left, name)
		}
	}
}

// putAside takes the endpoints of removed Clusters out of the lane's request, since they will soon
// not exist. If one exists all the same, it comes back when the probe finds it. It locks the store
// of endpoints.
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
