package downstream

import (
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// resolve gives the answer to a poll. Its version is empty as long as there is none: not all is
// known, and more is worth waiting for unless it is late. full: it is made though the client holds
// it.
func (s *session) resolve(now time.Time, in *content, full, late bool) (polled, error) {
	st, err := s.pollType(in)
	if err != nil {
		return polled{}, err
	}
	// Of a type that is not sent whole, what is left out means nothing, so what is known is told.
	if !st.sub.Resolved() && (!late || s.whole(st)) {
		return polled{}, nil
	}
	version := string(in.version)
	r := s.first(now)
	if r == nil && !st.sub.Standing().Waiting {
		// the version is the set's, or there were an answer
		if !full && version != "" && st.wildcard {
			return polled{version: version, unchanged: true, standIn: st.sub.Standing().StandIn}, nil
		}
		r = s.insist(now)
	}
	if r != nil {
		told := s.told(st)
		return polled{response: r, version: told, unchanged: told == version, standIn: st.sub.Standing().StandIn}, nil
	}
	return polled{}, s.refusedAll(st)
}

// pollType is the type that is polled, of which something is asked for. It locks the session.
func (s *session) pollType(in *content) (*streamType, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.types[0]
	s.acknowledge()
	_, why := s.judge(st, xds.Wildcard)
	if st.barred || in.names.n == 0 && why != nil {
		if why == nil {
			why = noSecrets
		}
		return nil, status.Error(why.code, why.text)
	}
	return st, nil
}

// acknowledge has linger what was asked for (REST-10).
func (s *session) acknowledge() {
	s.group.Acknowledge()
	for _, groups := range []map[*relay.Origin]*relay.Group{s.others, s.dedicated} {
		for _, g := range groups {
			g.Acknowledge()
		}
	}
}

// whole reports whether what a list leaves out is taken to be gone.
func (s *session) whole(st *streamType) bool { return st.wildcard || xds.SentWhole(st.typeURL) }

// first takes what there is to tell; nil: nothing.
func (s *session) first(now time.Time) *response {
	batch := s.take(now)
	if len(batch) == 0 {
		return nil
	}
	r := batch[0] // in state of the world an answer is one message
	s.skip()
	return r
}

// insist is first where nothing need be told. It locks the session.
func (s *session) insist(now time.Time) *response {
	s.mu.Lock()
	s.types[0].sub.Insist()
	s.types[0].sub.Remind()
	s.mu.Unlock()
	return s.first(now)
}

// skip counts what was told as accepted, and takes no window after it. It locks the session.
func (s *session) skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.types[0]
	clear(st.unanswered)
	st.unanswered, s.changesAt = st.unanswered[:0], time.Time{}
	st.sub.Pending()
}

// told is the version of the last answer. It locks the session.
func (s *session) told(st *streamType) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.sentVersion == "" {
		return xds.Digest{}.String() // of nothing, as the answer has it
	}
	return st.sentVersion
}

// refusedAll is the answer where all names are refused, and the type has no form to say so but an
// empty list, which would delete; nil if some are not. It locks the session.
func (s *session) refusedAll(st *streamType) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(st.refusals) == 0 || st.sub.Standing().Names > 0 {
		return nil
	}
	r := &st.refusals[0]
	return status.Errorf(codes.FailedPrecondition, "%s: %s", clip(r.name, maxNodeShown), r.why.text)
}
