package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// mergeBodies merges the bodies of several Subs. Encodings that clients share stay shared.
func mergeBodies(delta, ttl bool, bodies []*Body) *Body {
	switch len(bodies) {
	case 0:
		return noBody
	case 1:
		return bodies[0]
	}
	all := newShared() // what is encoded already is not encoded again
	j := all.shared.of(delta)
	for _, b := range bodies {
		all.Variants = append(all.Variants, b.Variants...)
		all.Heartbeats = append(all.Heartbeats, b.Heartbeats...)
		all.Removed = append(all.Removed, b.Removed...)
		all.nameless = all.nameless || b.nameless
		pieces, timed := b.encoded(delta, ttl, nil)
		j.pieces, j.timed = append(j.pieces, pieces...), append(j.timed, timed...)
	}
	j.once.Do(func() {})
	return all
}

// join adds what another answer has, except its body.
func (a *Answer) join(x *Answer) {
	a.Errors = append(a.Errors, x.Errors...)
	a.Follow = append(slices.Clip(a.Follow), x.Follow...)
	a.Demanded = a.Demanded || x.Demanded
	a.Rev, a.First = max(a.Rev, x.Rev), older(a.First, x.First)
	if x.sub != nil {
		a.parts = &subExtent{x.sub, a.parts, x.Since, x.extent()}
	}
	for p := x.parts; p != nil; p = p.next {
		a.parts = &subExtent{p.sub, a.parts, p.since, p.extent}
	}
	if a.Since.IsZero() || !x.Since.IsZero() && x.Since.Before(a.Since) {
		a.Since = x.Since
	}
}

// finish adds what depends on all Subs. If one Sub has an error of a name and another has a body,
// the body is sent and the error is not (ABS-11).
func (m *multiUnion) finish(a *Answer, content string) *Answer {
	if len(a.Errors) > 0 {
		listed := xds.NamesOf(a.Variants)
		a.Errors = slices.DeleteFunc(a.Errors, func(e *NameError) bool { return !e.Located && listed[e.Name] })
	}
	for _, s := range m.subs {
		a.Waiting = a.Waiting || s.Standing().Waiting
	}
	a.Version = m.version(content)
	return a
}

// version is the version of an answer. It is content, unless clients of all the origins are sent
// the origins' own versions. Then it is that of the newest response that had a part in the answer
// (VER-5). It locks each shard in turn.
func (m *multiUnion) version(content string) string {
	var from *xds.Provenance
	for _, s := range m.subs {
		if !s.shard.group.config().OriginVersions {
			return content
		}
		s.shard.mu.Lock()
		from = xds.Newer(from, s.from())
		s.shard.mu.Unlock()
	}
	if from == nil || from.Version == "" {
		return content
	}
	return from.Version
}

// takeChanges takes an answer that has changes alone: in delta, or of a grouped type by name.
func (m *multiUnion) takeChanges(now time.Time, k Deferral) *Answer {
	all, bodies := &Answer{}, []*Body(nil)
	answers, _ := m.takeEach(now, k, func(i int) bool { return m.subs[i] != m.star })
	for i, s := range m.subs {
		a := answers[i]
		switch {
		case a == nil:
			continue
		case s.located:
			m.locate(s, a)
			all.Located = all.Located.add(a.Located)
		default:
			m.fallBack(a)
			bodies = append(bodies, a.Body)
		}
		all.join(a)
	}
	// Last, since it has members in place of names that the others lost.
	if a := m.takeStar(now, bodies); a != nil {
		all.join(a)
		bodies = append(bodies, a.Body)
	}
	if len(bodies) == 0 && all.Located == nil {
		return nil
	}
	m.tidy(all.Located)
	all.Body = mergeBodies(m.subs[0].delta, m.subs[0].ttl, bodies)
	return m.finish(all, m.namesVersion())
}

// namesVersion is the version_info for grouped types: of what was sent by name and is still
// subscribed (VER-4). Delta has none. It locks each shard in turn.
func (m *multiUnion) namesVersion() string {
	if m.subs[0].delta {
		return ""
	}
	var sets []xds.SetDigest
	for _, s := range m.subs {
		s.shard.mu.Lock()
		sets = s.heldSets(sets)
		s.shard.mu.Unlock()
	}
	return xds.JoinSets(sets).Version()
}

// takeStar takes from `*` what no other origin has by name. A body that was asked for by name wins.
// named are the bodies of the other Subs in the same answer.
func (m *multiUnion) takeStar(now time.Time, named []*Body) *Answer {
	if m.star == nil {
		return nil
	}
	fresh := m.star.fresh()
	a := m.star.Take(now)
	if a == nil {
		return nil
	}
	b := m.withoutNamed(a.Body, named)
	if b != a.Body && b.empty() && len(a.Errors) == 0 && !fresh {
		a.Receipt().judged(accepted) // it is not sent, so no client acknowledges it
		return nil
	}
	a.Body = b
	return a
}

// withoutNamed is a body from `*` without the names that another origin has a body of, or that the
// other bodies of the answer remove: a name is in a response once (DELTA-20).
func (m *multiUnion) withoutNamed(b *Body, others []*Body) *Body {
	removed := map[string]bool{}
	if slices.ContainsFunc(b.Removed, xds.IsNewStyle) {
		for _, x := range others {
			for _, name := range x.Removed {
				removed[name] = true
			}
		}
	}
	named := func(name string) bool {
		return xds.IsNewStyle(name) && (removed[name] ||
			slices.ContainsFunc(m.subs, func(s *Sub) bool { return s != m.star && !s.located && s.hasBody(name) }))
	}
	ofVariant := func(v *xds.Variant) bool { return named(v.Name) }
	if !slices.ContainsFunc(b.Variants, ofVariant) && !slices.ContainsFunc(b.Heartbeats, ofVariant) &&
		!slices.ContainsFunc(b.Removed, named) {
		return b
	}
	return &Body{
		Variants:   slices.DeleteFunc(slices.Clone(b.Variants), ofVariant),
		Heartbeats: slices.DeleteFunc(slices.Clone(b.Heartbeats), ofVariant),
		Removed:    slices.DeleteFunc(slices.Clone(b.Removed), named),
		nameless:   b.nameless,
	}
}

// fallBack leaves out the removals of names that `*` still has. Such a name is sent with the body
// from `*` instead, since it is gone only when nothing holds it.
func (m *multiUnion) fallBack(a *Answer) {
	if m.star == nil {
		return
	}
	covered := func(name string) bool { return xds.IsNewStyle(name) && m.star.hasFromStar(name) }
	if !slices.ContainsFunc(a.Removed, covered) {
		return
	}
	b := &Body{Variants: a.Variants, Heartbeats: a.Heartbeats, nameless: a.nameless, of: a.Body}
	for _, name := range a.Removed {
		if covered(name) {
			m.star.dropFromStar(name, true)
		} else {
			b.Removed = append(b.Removed, name)
		}
	}
	a.Body = b
}

// takeWhole makes a SotW answer with the lists of all Subs (SOTW-2, SOTW-4). It waits for each Sub
// whose own list would wait, unless that Sub is waived.
func (m *multiUnion) takeWhole(now time.Time, k Deferral) *Answer {
	holds := m.sentVersion != ""
	ready := make([]bool, len(m.subs))
	for i, s := range m.subs {
		x := s.listing()
		ready[i], holds = x.ready, holds || x.holds
		if m.mustWait(s, x) {
			return nil
		}
		if x.ready && m.sentVersion != "" {
			delete(m.waived, s)
		}
	}
	must := m.star == nil || m.star.mustAnswer() || m.due != nil
	lists, insisted := m.takeEach(now, k, func(i int) bool { return ready[i] })
	changed := m.due != nil
	for i, s := range m.subs {
		changed = changed || lists[i] != nil
		must = must || lists[i] != nil && !insisted[i] && (s != m.star || len(lists[i].Errors) > 0 || lists[i].renewed)
	}
	if !changed {
		return nil
	}
	all, gone, complete := m.gather(now, k, lists, ready)
	version := ""
	if complete {
		all.Body = m.list(lists)
		m.tidy(all.Located)
		version = listVersion(all)
	}
	switch {
	case !complete, all.lists() == 0 && (!gone || m.stars == 0 && !holds && len(all.Errors) == 0 && m.due == nil):
		all.Body, all.Located, m.due = nil, nil, nil
		// It is sent with the next list (SOTW-9). So is the first answer to `*` (SOTW-10).
		if !complete || holds || m.stars > 0 || len(all.Errors) > 0 {
			m.due = all
		}
		return nil
	case !must && version == m.sentVersion:
		// `*` changed only what the client has by name. Nothing is sent, so no client acknowledges
		// it.
		all.Receipt().judged(accepted)
		return nil
	}
	m.due, m.sentVersion = nil, version
	return m.finish(all, version)
}

// gather joins the answers of the Subs, except their bodies. A Sub that had no change is asked for
// its list. gone: what is in no list is known not to exist. A Sub that is subscribed to nothing has
// no influence on gone, unless no Sub is subscribed to anything. complete: all lists are there that
// the answer needs.
func (m *multiUnion) gather(now time.Time, k Deferral, lists []*Answer, ready []bool) (all *Answer, gone, complete bool) {
	all, gone, complete = &Answer{}, true, true
	asks := slices.ContainsFunc(m.subs, func(s *Sub) bool { return !s.listing().none })
	if m.due != nil {
		all.join(m.due)
	}
	for i, s := range m.subs {
		if !ready[i] {
			gone = false
			continue
		}
		if lists[i] == nil {
			lists[i] = s.insist(now, k)
		}
		if lists[i] == nil { // it has to wait again, since its stream has just ended
			complete = false
			continue
		}
		if s.located {
			m.locate(s, lists[i])
			all.Located = all.Located.add(lists[i].Located)
		}
		all.join(lists[i])
		gone = gone && (lists[i].gone || asks && s.listing().none)
	}
	return all, gone, complete
}

// list merges the lists of all Subs. Each name is in it once. A body that was asked for by name
// wins over that from `*` of another origin.
func (m *multiUnion) list(lists []*Answer) *Body {
	var bodies []*Body
	named := map[string]bool{} // names that `*` may have, too
	for i, a := range lists {
		if a == nil || m.subs[i] == m.star || m.subs[i].located {
			continue
		}
		bodies = append(bodies, a.Body)
		for _, v := range a.Variants {
			if m.star != nil && xds.IsNewStyle(v.Name) {
				named[v.Name] = true
			}
		}
	}
	if i := slices.Index(m.subs, m.star); i >= 0 && lists[i] != nil {
		b, twice := lists[i].Body, func(v *xds.Variant) bool { return named[v.Name] }
		if slices.ContainsFunc(b.Variants, twice) {
			b = &Body{Variants: slices.DeleteFunc(slices.Clone(b.Variants), twice)}
		}
		bodies = append(bodies, b)
	}
	return mergeBodies(false, m.subs[0].ttl, bodies)
}

// listVersion is the version_info of a whole list: that of all bodies in it (VER-4).
func listVersion(a *Answer) string {
	all := appendDigests(nil, a.Variants)
	if a.Located != nil {
		all = appendDigests(all, a.Located.Variants)
	}
	return xds.SetOf(all).Version()
}

// lists is the number of bodies in the answer.
func (a *Answer) lists() (n int) {
	if a.Body != nil {
		n = len(a.Variants)
	}
	if a.Located != nil {
		n += len(a.Located.Variants)
	}
	return n
}
