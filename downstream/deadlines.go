package downstream

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errLagging = status.Error(codes.Unavailable,
	"lagging: the client fell behind by more removals than are kept; come again, and resume by version")

// tick ends the stream if it is too old (RELAY-59), its certificate has ended, it has sent no
// request (STREAM-9), has nothing to serve (RELAY-8), or is too far behind. The writer calls it
// after take. It locks the session.
func (s *session) tick(now time.Time) error {
	s.writerLock()
	defer s.mu.Unlock()
	s.now = now
	if !s.until.IsZero() && !now.Before(s.until) {
		if s.expires {
			return errExpired
		}
		return errAged
	}
	if s.group == nil {
		if !now.Before(s.opened.Add(s.cfg.timing.FirstRequest)) {
			return status.Errorf(codes.DeadlineExceeded, "no request came within timing.first_request %v", s.cfg.timing.FirstRequest)
		}
		return nil
	}
	if !s.warm.at.IsZero() && !now.Before(s.warm.at) {
		s.pushEndpoints()
	}
	for _, w := range s.paths {
		if why := w.Refused(); why != "" {
			return status.Error(codes.FailedPrecondition, why)
		}
	}
	if err := s.lookShort(now); err != nil {
		return err
	}
	for _, st := range s.types {
		if err := cmp.Or(s.cold(st, now), s.coldByStates(st, now)); err != nil {
			return err
		}
		if st.lagging {
			return errLagging
		}
	}
	return nil
}

// cold ends the stream if nothing can be served of a type and no upstream stream carried the
// request for the whole wait (RELAY-8). A stream that was served anything goes on, since its client
// has configuration. The silence of a connected origin is left to the client's timer (ABS-5).
func (s *session) cold(st *streamType, now time.Time) error {
	for i := range st.sub.Len() {
		if err := s.coldPart(st, st.sub.Part(i), now); err != nil {
			return err
		}
	}
	return nil
}

// coldPart is cold for the names of one origin. While another origin may still serve its names, the
// stream goes on (FED-5).
func (s *session) coldPart(st *streamType, sub *relay.Sub, now time.Time) error {
	wait := s.cfg.timing.ColdWait
	if s.cfg.tiers { // the clients of the tier wait for themselves
		sub.ColdFrom = time.Time{}
	}
	if sub.ColdFrom.IsZero() || now.Before(sub.ColdFrom.Add(wait)) {
		return nil
	}
	if turn := sub.TurnCame(now); turn.After(sub.ColdFrom) { // a wait for its turn is no outage
		if sub.ColdFrom = turn; now.Before(turn.Add(wait)) {
			return nil
		}
	}
	half := sub.ColdFrom.Add(wait / 2)
	sub.ColdFrom = time.Time{}
	standing := sub.Standing()
	if !standing.Waiting {
		return nil
	}
	kept := s.served || s.left()
	// An upstream stream that was opened in the first half of the wait, and is still open, counts
	// as having carried the request. It has to stay open from then on. The origin may be a relay,
	// which waits for its own origin no longer than we do, and then ends the stream.
	sub.ColdFrom = now
	if !kept {
		sub.ColdFrom = now.Add(-wait + wait/8)
	}
	if st.held != nil || !st.heldSince.IsZero() { // there is something to send
		return nil
	}
	whole := !s.delta && (st.wildcard || xds.SentWhole(st.typeURL))
	if !unreached(sub, half) {
		if whole && !standing.Wildcard {
			s.waive(st, sub)
		}
		return nil
	}
	st.coldCount++
	if kept || st.othersMayServe(sub, half, now) {
		switch {
		case whole:
			s.waive(st, sub)
		case sub.Unreached():
			sub.ColdFrom = time.Time{} // they are sent it once in each wait
		}
		return nil
	}
	return s.outOfReach(st, sub.Group().Origin())
}

// outOfReach ends the stream, since nothing can be served (RELAY-8).
func (s *session) outOfReach(st *streamType, origin *relay.Origin) error {
	why := fmt.Sprintf("origin %q could not be reached", origin.Name())
	if origin.HandshakeFails() {
		why = fmt.Sprintf("the TLS handshake with origin %q has failed", origin.Name())
	}
	return status.Errorf(codes.Unavailable, "nothing is known of %s yet, and %s for timing.cold_wait %v: "+
		"try another replica or again", st.typeURL, why, s.cfg.timing.ColdWait)
}

// left reports whether the client is left with what it says it holds, since restored content may be
// older (RELAY-96). It has configuration, like a client that was served.
func (s *session) left() bool {
	return slices.ContainsFunc(s.types, func(st *streamType) bool { return st.sub.Standing().Held })
}

// unreached reports whether no upstream stream has carried what a Sub waits for since a time.
func unreached(sub *relay.Sub, since time.Time) bool {
	at, open := sub.Upstream()
	return !open || at.After(since)
}

// mayAnswer reports whether the upstream stream that a Sub waits for has been open since a time, or
// had its turn to be opened only after it.
func mayAnswer(sub *relay.Sub, since, now time.Time) bool {
	return !unreached(sub, since) || sub.TurnCame(now).After(since)
}

// othersMayServe reports whether another origin has something to serve, or an upstream stream that
// may bring it.
func (st *streamType) othersMayServe(sub *relay.Sub, since, now time.Time) bool {
	for i := range st.sub.Len() {
		other := st.sub.Part(i)
		standing := other.Standing()
		if other != sub && (standing.Wildcard || standing.Names > 0) && (other.Known() || mayAnswer(other, since, now)) {
			return true
		}
	}
	return false
}

// waive sends a client that holds nothing yet the list without the part of an origin (FED-5).
// Otherwise the names that wait for an unreachable origin are sent an error each. A whole SotW list
// cannot have these errors without stating that everything else is gone.
func (s *session) waive(st *streamType, sub *relay.Sub) {
	if st.sub.Waive(sub) {
		s.mailbox.Signal()
	}
}

// next is the next deadline; the zero time if there is none. It locks the session.
func (s *session) next() time.Time {
	s.writerLock()
	defer s.mu.Unlock()
	var next time.Time
	s.deadlines(func(_ metrics.WaitReason, t time.Time) {
		if t.After(s.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	})
	return next
}

// deadlines calls at with all times at which the stream may have to be looked at, and what waits
// for them. Some are over, or zero.
func (s *session) deadlines(at func(metrics.WaitReason, time.Time)) {
	at(metrics.NoWait, s.until)
	if s.group == nil {
		at(metrics.WaitFirstRequest, s.opened.Add(s.cfg.timing.FirstRequest))
		return
	}
	if s.by != nil {
		s.deadlinesByStates(at)
	}
	at(metrics.WaitEndpointRequest, s.warm.at)
	if s.lack != nil {
		at(metrics.WaitLimit, s.lack.next)
	}
	at(metrics.WaitCoalesce, s.gathered())
	anyHeld, anyKept := false, false
	for _, st := range s.types {
		anyKept = anyKept || st.keeps
		if st.held != nil || !st.heldSince.IsZero() {
			anyHeld = true
			if !st.heldFrom.IsZero() {
				at(metrics.WaitOrder, st.heldFrom.Add(s.cfg.timing.OrderHold))
				at(metrics.WaitEndpoints, st.heldFrom.Add(2*s.cfg.timing.OrderHold))
			}
		}
	}
	if anyHeld {
		for i := range s.warm.missing {
			at(metrics.WaitEndpoints, s.warm.missing[i].until)
		}
	}
	for _, st := range s.types {
		if anyHeld {
			at(metrics.WaitEarlierSet, st.settles)
		}
		if anyKept {
			at(metrics.WaitNames, st.stuckSince.Add(s.cfg.timing.ColdWait))
		}
		if st.rest != nil {
			at(metrics.WaitRemoval, st.removals)
			s.went(st.rest.oldest(), at)
		}
		if st.keeps {
			s.went(st.keepsFrom, at)
		}
		for i := range st.sub.Len() {
			if from := st.sub.Part(i).ColdFrom; !from.IsZero() {
				at(metrics.WaitColdWait, from.Add(s.cfg.timing.ColdWait))
			}
		}
		last := st.last()
		if last == nil {
			continue
		}
		if anyHeld || st.held != nil || st.rest != nil || st.keeps || len(st.refusals) > 0 || st.peek() {
			at(metrics.WaitAck, last.at.Add(s.cfg.timing.OrderHold))
		}
	}
}

var errStalled = status.Error(codes.Unavailable,
	"the client has not read for timing.send_stall: come again, and resume by version")

// watch is the watchdog of all streams. It ends streams whose current write has been blocked for
// send_stall (ERR-9).
func (s *Server) watch() {
	defer s.watching.Done()
	stall := s.sendStall()
	ticker := time.NewTicker(lookEvery(stall))
	defer ticker.Stop()
	for {
		select {
		case <-s.quit:
			return
		case now := <-ticker.C:
			for _, st := range s.list() {
				if since, writing := st.writingSince(); writing && now.Sub(since) > stall {
					st.end(errStalled)
				}
			}
			if next := s.sendStall(); next != stall {
				stall = next
				ticker.Reset(lookEvery(stall))
			}
		}
	}
}

// sendStall returns the current timing.send_stall. It locks the server.
func (s *Server) sendStall() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Timing.SendStall
}

func lookEvery(stall time.Duration) time.Duration { return max(stall/8, time.Millisecond) }
