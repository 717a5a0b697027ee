package downstream

import (
	"math"
	"time"

	"github.com/weir-xds/weir/relay"
)

// late are the types that wait for clusters: for a Cluster response to be acknowledged (ORD-5), and for a first set to settle
// (RELAY-84).
func late(typeURL string) bool {
	switch typeURL {
	case relay.ListenerType, relay.ScopedRouteType, relay.RouteType, relay.VirtualHostType, relay.ExtensionConfigType:
		return true
	}
	return false
}

// take gives what to write now, in order. It is in flight from now on. The list is the session's, and good until the next take.
//
// Types are taken in the reverse of the order they are written in, so that what is written first is never older than what
// is written after it. Taken the other way round, this happens: clusters are taken, the origin's next clusters and the
// routes to them arrive, routes are taken, and leave before their clusters (TestOrderUnderInterleaving).
//
// A type with a response in flight is not taken. Its oldest untaken change is read instead, at the same place in the walk, so
// that every change up to the revisions of the later types, which are taken by then, is either read there or was written. Of
// the later types, what is as new as that change is held back.
func (s *session) take(now time.Time) []*response {
	s.writerLock()
	defer s.mu.Unlock()
	s.now = now
	if s.group == nil || s.closed || s.gathersLocked(now) {
		return nil
	}
	w := walk{seen: s.cfg.table.Revision()}
	for i := len(s.types) - 1; i >= 0; i-- {
		s.takeLocked(now, s.types[i], &w)
	}
	return s.releaseLocked(now)
}

// walk is what the walk in reverse knows of later types.
type walk struct {
	seen    uint64 // revision of the table when it began
	waiting bool   // a later type has something to tell
}

// takeLocked is one step of the walk in reverse: it takes what can be taken, and otherwise reads how the type stands.
func (s *session) takeLocked(now time.Time, st *streamType, w *walk) {
	st.unsent, st.settling = 0, false
	if st.sub.None() {
		return
	}
	blocked := st.held != nil || st.inFlight(now, s.cfg.timing.OrderHold) && !st.sub.Standing().Arriving
	took, untaken, changed := false, false, st.sub.Changed()
	if !blocked && (st.sub.Pending() || st.keeps) {
		untaken = s.waitsUntakenLocked(now, st)
		took, blocked = !untaken, untaken
	}
	if took {
		if s.tellsWhole(st) {
			st.sub.Insist()
		}
		if st.held = s.takeOneLocked(now, st, w); st.held != nil {
			st.changed = changed
			st.owes(now)
		}
		if st.held == nil {
			st.heldSince = time.Time{}
		}
		if st.held == nil || st.sub.Len() > 1 { // one origin's part may be, while another's tells something
			st.lagging = st.sub.Standing().Lagging
		}
	}
	if w.waiting {
		st.look(took, blocked)
	}
	w.waiting = w.waiting || untaken || st.held != nil
}

// waitsUntakenLocked leaves what a late type has in the table while it could not be written anyway: an earlier type settles, or waits for
// an ACK and has changed since. To take it now and write it then would show routes as they were before the clusters: to clusters that came
// and went meanwhile, or went before this client's first list, so that it never had them (TestWaitingRoutesAreCurrent,
// TestRoutesWaitUntaken).
func (s *session) waitsUntakenLocked(now time.Time, st *streamType) bool {
	if !late(st.typeURL) || relay.IsVirtualHost(st.typeURL) && st.sub.Demands() {
		return false
	}
	if !s.earlierWaitsLocked(now, st) || st.sub.Standing().Unsent == 0 { // what has nothing goes on waiting for its origin (RELAY-8)
		return false
	}
	st.sub.Remind()
	if st.heldSince.IsZero() {
		st.heldSince = now
		st.heldCount++
	}
	return true
}

// earlierWaitsLocked reports whether a type that is written before this one settles, or cannot be taken and has changed. What is in flight
// for longer than order_hold can.
func (s *session) earlierWaitsLocked(now time.Time, st *streamType) bool {
	patient := st.patient(now, s.cfg.timing.ColdWait)
	for _, earlier := range s.types {
		if earlier == st {
			return false
		}
		if earlier.sub.None() {
			continue
		}
		standing := earlier.sub.Standing()
		if patient && standing.Settling && earlier.held == nil {
			return true
		}
		if standing.Unsent != 0 && (earlier.held != nil || earlier.inFlight(now, s.cfg.timing.OrderHold)) {
			return true
		}
	}
	return false
}

// look reads how a type stands that has later types waiting. took: what it had was taken just now. blocked: it could not be.
func (st *streamType) look(took, blocked bool) {
	standing := st.sub.Standing()
	st.settling = standing.Settling
	switch {
	case took && st.held != nil, standing.Unsent == 0:
	case blocked || st.peek():
		st.unsent = standing.Unsent
	default:
		// It was not in the way and gave nothing: names wait to be settled (RELAY-7), which holds back only the late types.
		st.settling = true
	}
}

// releaseLocked is the walk forward: it writes what is not held back by an earlier type.
func (s *session) releaseLocked(now time.Time) []*response {
	out := s.batch[:0]
	oldest := uint64(math.MaxUint64) // change of an earlier type that is not written now
	settling, unconfirmed := false, false
	var routes, hosts *relay.Answer // that are written now
	s.splitLocked(now)
	for _, st := range s.types {
		if a := st.held; a != nil {
			hold := !s.urgentLocked(st) && (a.Rev >= oldest ||
				late(st.typeURL) && (unconfirmed || s.coldEndpointsLocked(now) || settling && st.patient(now, s.cfg.timing.ColdWait)))
			if !hold {
				out = s.writeLocked(now, st, out)
				switch st.typeURL {
				case relay.EndpointType:
					s.followLocked(a)
				case relay.RouteType:
					routes = a
				case relay.VirtualHostType:
					hosts = a
				}
			} else if st.heldSince.IsZero() {
				st.heldSince = now
				st.heldCount++
			}
		} else if s.tellable(st) && !st.inFlight(now, s.cfg.timing.OrderHold) {
			out = s.writeLocked(now, st, out)
		}
		if st.held != nil {
			oldest = min(oldest, st.held.First, st.held.Rev)
		}
		if st.unsent != 0 {
			oldest = min(oldest, st.unsent)
		}
		settling = settling || st.settling
		if st.typeURL == relay.ClusterType {
			unconfirmed = st.inFlight(now, s.cfg.timing.OrderHold)
		}
	}
	s.oweEndpointsLocked(now)
	s.oweVirtualHostsLocked(routes, hosts)
	s.batch = s.releaseRestLocked(now, out)
	return s.batch
}

// urgentLocked reports whether a request may wait for a type's held answer, or for what can only be taken after it: then nothing holds it
// (ALIAS-8). Virtual hosts that nobody asked for are in order like any other type: with a changed route they are pushed.
func (s *session) urgentLocked(st *streamType) bool {
	return relay.IsVirtualHost(st.typeURL) && (st.held.Demanded || st.sub.Demands())
}

// patient reports whether an answer has been held for less than d: an origin may answer listeners and leave clusters
// unanswered for ever (RELAY-95).
func (st *streamType) patient(now time.Time, d time.Duration) bool {
	return st.heldSince.IsZero() || now.Before(st.heldSince.Add(d))
}

// tellable reports whether there is something to say without an answer. Of a type that is sent whole in SotW that would delete
// everything (SOTW-9), so it waits for the next answer.
func (s *session) tellable(st *streamType) bool {
	switch {
	case st.blank:
		return true
	case len(st.refusals) == 0:
		return false
	}
	return s.delta || !st.wildcard && !relay.SentWhole(st.typeURL)
}

// writeLocked makes the messages of a type's held answer and refusals, and notes them as in flight.
func (s *session) writeLocked(now time.Time, st *streamType, out []*response) []*response {
	a := st.held
	st.held, st.heldSince, st.blank = nil, time.Time{}, false
	if st.changed {
		st.changed, s.changesAt = false, now
	}
	x, r, parts := sent{at: now, real: a != nil}, newResponse(st, !s.delta && st.wildcard), []part{{}}
	d := draft{prefix: s.prefix, refusals: s.takeRefusalsLocked(st)}
	d.hosts = s.refusedHosts(st, d.refusals)
	if a != nil {
		if late(st.typeURL) {
			s.routedAt = now
		}
		x.told = a.Told()
		s.warm.noteClusters(a.Follow)
		st.sentVersion, s.served = a.Version, true
		if !a.Waiting {
			st.answered()
		}
		st.answers++
		pieces, one := a.Pieces(s.delta, now, r.one[:0]), [1]relay.Unit{}
		if units := a.Units(s.delta, now, one[:0]); s.delta {
			parts = cutUnits(cut(parts[:0], pieces, messageBytes), units, messageBytes)
			parts = cutErrors(parts, a.Errors, messageBytes)
		} else {
			parts[0].pieces, parts[0].errors = pieces, a.Errors
			for _, u := range units {
				parts[0].pieces[relay.Pairs] = append(parts[0].pieces[relay.Pairs], u.Pieces...)
			}
		}
	}
	if d.version = st.sentVersion; d.version == "" && !s.delta {
		d.version = relay.Digest{}.String() // of nothing
	}
	f := s.fixedLocked(st, a)
	for i := range parts {
		if i > 0 {
			r = newResponse(st, true)
			d.refusals, d.hosts = nil, nil
			x.several = append(x.several, s.lastNonce)
		}
		s.lastNonce++ // unique in the stream (NONCE-1)
		r.nonce, d.gone, d.errors = s.lastNonce, parts[i].gone, parts[i].errors
		r.encode(f, &d, &parts[i])
		out = append(out, r)
	}
	if x.last = s.lastNonce; len(parts) > 1 {
		x.several = append(x.several, x.last)
	}
	r.last, r.dated, r.since = true, !x.told.Since.IsZero(), x.told.Since.Sub(s.opened)
	st.responses++
	st.remember(x)
	return out
}

// wrote notes that responses have been written: the wait for their answers begins only now. They are let go of.
func (s *session) wrote(now time.Time, batch []*response) {
	s.writerLock()
	defer s.mu.Unlock()
	for i, r := range batch {
		batch[i] = nil
		r.kind.counts.Response(r.size)
		if !r.last {
			continue
		}
		if x := r.kind.find(r.nonce); x != nil { // or else it is answered already
			x.at = now
		}
		if r.dated {
			s.cfg.metrics.PropagationSent(now.Sub(s.opened) - r.since)
		}
	}
}
