package downstream

import (
	"cmp"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// resolve returns the answer to a poll. Its version is empty as long as there is none: not
// everything is known, and it is worth waiting for more, unless it is late. full: the answer is
// made even if the client has it.
func (s *session) resolve(now time.Time, in *content, full, late bool) (polled, error) {
	st, err := s.pollType(in)
	if err != nil {
		return polled{}, err
	}
	// For a type that is not sent whole, leaving something out states nothing, so what is known is
	// sent.
	if !s.resolved(st) && (!late || s.whole(st)) {
		return polled{}, nil
	}
	version := string(in.version)
	r := s.first(now)
	waits, standIn := s.standing(st)
	if r == nil && !waits {
		// The version is that of the set, or there would be an answer.
		if !full && version != "" && st.wildcard {
			return polled{version: version, unchanged: true, standIn: standIn}, nil
		}
		r = s.insist(now)
		_, standIn = s.standing(st)
	}
	if r != nil {
		told := s.told(st)
		return polled{response: r, version: told, unchanged: told == version, standIn: standIn}, nil
	}
	return polled{}, s.refusedAll(st)
}

// pollType is the type that is polled, if the poll asks for anything. It locks the session.
func (s *session) pollType(in *content) (*streamType, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.types[0]
	s.acknowledge()
	_, why := s.judge(st, xds.Wildcard)
	if st.barred || in.names.n == 0 && why != nil {
		why = cmp.Or(why, noSecrets)
		return nil, status.Error(why.code, why.text)
	}
	return st, nil
}

// acknowledge makes what was asked for linger (REST-10), so a poller that makes up nodes is bounded
// by groups_per_peer alone (TestPollLingers).
func (s *session) acknowledge() {
	s.group.Acknowledge()
	for _, groups := range []map[*relay.Origin]*relay.Group{s.others, s.dedicated} {
		for _, g := range groups {
			g.Acknowledge()
		}
	}
}

// resolved reports whether all that is asked for is known. It locks the session.
func (s *session) resolved(st *streamType) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.sub.Resolved(st.sub.newest)
}

// standing reports whether the client waits for a first answer to anything, and whether it was sent
// fallback content. It locks the session.
func (s *session) standing(st *streamType) (waits, standIn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.sub.Waiting(), st.sub.StandsIn(st.sub.newest)
}

// whole reports whether the client takes what a list leaves out for gone.
func (s *session) whole(st *streamType) bool { return st.wildcard || xds.SentWhole(st.typeURL) }

// first takes what there is to send; nil: nothing.
func (s *session) first(now time.Time) *response {
	batch := s.take(now)
	if len(batch) == 0 {
		return nil
	}
	r := batch[0] // in SotW an answer is one message
	s.skip()
	return r
}

// insist is first even if nothing need be sent. It locks the session.
func (s *session) insist(now time.Time) *response {
	s.mu.Lock()
	s.types[0].sub.Again()
	s.mu.Unlock()
	return s.first(now)
}

// skip counts what was sent as accepted, and opens no window after it. It locks the session.
func (s *session) skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.types[0]
	clear(st.unanswered)
	st.unanswered, s.changesAt = st.unanswered[:0], time.Time{}
}

// told is the version of the last answer. It locks the session.
func (s *session) told(st *streamType) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(st.sentVersion, xds.SetDigest{}.TreeVersion()) // that of an empty set, as in the answer
}

// refusedAll is the answer if all names are refused and the type can only state that by an empty
// list, which would delete everything; nil: some names are not refused. It locks the session.
func (s *session) refusedAll(st *streamType) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(st.refusals) == 0 || st.sub.names() > 0 {
		return nil
	}
	r := &st.refusals[0]
	code := codes.FailedPrecondition
	if r.why.absent {
		code = r.why.code
	}
	return status.Errorf(code, "%s: %s", clip(r.name, maxNodeShown), r.why.text)
}
