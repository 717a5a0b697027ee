package downstream

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cold ends the stream if nothing can be served of a type and no upstream stream carried the
// request for the whole wait (RELAY-8). A stream that was served anything goes on, since its client
// has configuration. The silence of a connected origin is left to the client's timer (ABS-5).
func (s *session) cold(st *streamType, now time.Time) error {
	if st.sub == nil {
		return nil
	}
	for i := range st.sub.sources {
		if err := s.coldSource(st, i, now); err != nil {
			return err
		}
	}
	return nil
}

// coldSource is cold for one source. While another origin may still serve its names, the stream
// goes on (FED-5).
func (s *session) coldSource(st *streamType, i int, now time.Time) error {
	wait, x := s.cfg.timing.ColdWait, &st.sub.sources[i]
	if s.cfg.tiers { // the clients of the tier wait for themselves
		x.coldFrom = time.Time{}
	}
	if x.coldFrom.IsZero() || now.Before(x.coldFrom.Add(wait)) {
		return nil
	}
	set, waits, _ := st.sub.Awaits(i)
	if turn := x.wants.TurnCame(set, now); turn.After(x.coldFrom) { // a wait for its turn is no outage
		if x.coldFrom = turn; now.Before(turn.Add(wait)) {
			return nil
		}
	}
	half := x.coldFrom.Add(wait / 2)
	if x.coldFrom = (time.Time{}); !waits {
		return nil
	}
	kept := s.served || s.keeps() || slices.ContainsFunc(s.types, (*streamType).holdsFirst) // which is about to be written
	if x.coldFrom = now; !kept {
		x.coldFrom = now.Add(-wait + wait/8)
	}
	if at, open := x.wants.Upstream(set); open && !at.After(half) {
		return nil // its silence is left to the client (ABS-5)
	}
	if st.coldCount++; kept || st.sub.othersMayServe(i, half, now) {
		keeps := st.sub.Keeps(x.number, x.group.States().Newest())
		if !keeps && !st.sub.Whole() && st.sub.Unreached(i) { // a list cannot say so without taking away the rest
			x.coldFrom = time.Time{} // they are sent it once in each wait
			s.mailbox.Signal()
		}
		return nil
	}
	return s.outOfReach(st, x.group.Origin())
}

// othersMayServe reports whether another source has something to serve, or an upstream stream that
// may bring it.
func (t *subscription) othersMayServe(than int, since, now time.Time) bool {
	for i := range t.sources {
		x := &t.sources[i]
		set, _, knows := t.Awaits(i)
		if i == than || x.wants.Len() == 0 {
			continue
		}
		at, open := x.wants.Upstream(set)
		if knows || open && !at.After(since) || x.wants.TurnCame(set, now).After(since) {
			return true
		}
	}
	return false
}

// keeps reports whether the client is left with what it says it holds: it has configuration, like
// one that was served.
func (s *session) keeps() bool {
	return slices.ContainsFunc(s.types, func(st *streamType) bool {
		return st.sub != nil && slices.ContainsFunc(st.sub.sources, func(x source) bool {
			return st.sub.Keeps(x.number, x.group.States().Newest())
		})
	})
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
