package downstream

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// sotw applies a request of a SotW stream. The error is the status that the stream ends with.
func (s *session) sotw(now time.Time, in *content) error {
	st, first, err := s.enter(now, in)
	if err != nil {
		return err
	}
	switch {
	case st.barred:
		// An empty response would say "delete all", so nothing is sent (SOTW-9).
		st.refusedCount += uint64(in.names.n + len(in.locators))
		return nil
	case xds.DeltaOnly(st.typeURL):
		st.blank = first || st.blank // TRANS-7
		s.verdict(now, st, in.nonce, in.detail)
	default:
		s.verdict(now, st, in.nonce, in.detail)
		if err := s.list(now, st, in); err != nil {
			return err
		}
		st.requested(now)
	}
	s.mailbox.Signal()
	return nil
}

// verdict pairs an ACK or NACK with the last response (NONCE-2). Any other nonce is stale, and so
// neither (NONCE-4). Before anything was sent there is none to compare with (NONCE-3). version_info
// has no part in it.
func (s *session) verdict(now time.Time, st *streamType, nonce []byte, detail *status.Status) {
	n, ours := s.nonceOf(nonce)
	st.heard = st.heard || ours
	if st.last() == nil || !ours || n != st.last().last {
		return
	}
	last := *st.last()
	clear(st.unanswered)
	st.unanswered = st.unanswered[:0]
	if detail != nil {
		s.nack(now, st, &last, string(nonce), detail)
		s.settle(now, st, &last)
		return
	}
	s.settle(now, st, &last)
	s.ack(now, st, &last)
}

// list applies the names, which are the client's complete list whatever the nonce (SOTW-1,
// NONCE-5). If the list is the same as before, which is so for nearly every ACK, it costs a hash,
// and the table is not touched.
func (s *session) list(now time.Time, st *streamType, in *content) error {
	hash := s.hashList(in)
	anew := st.listed && len(in.nonce) == 0
	if st.listed && st.list == hash && !(anew && st.heard) {
		return nil
	}
	st.list, st.listed, st.members = hash, true, s.hashNames(in)
	if anew {
		s.forgotten(now, st)
	}
	if in.names.n+len(in.locators) > 0 {
		st.legacy = false // for good (WILD-3, WILD-6)
	}
	if err := s.checkLength(in); err != nil {
		return err
	}
	to := s.sift(st, in.names.strings(), in.locators)
	if st.legacy && !st.wildcard {
		s.judgedAll(st)
	}
	to.wildcard = to.wildcard || st.legacy
	wildcard := to.wildcard || slices.ContainsFunc(to.locatorBatches.list, func(x *locatorBatch) bool { return x.wildcard })
	st.wildcard = wildcard
	version := ""
	if st.sub == nil { // only the first request of a type says what the client holds (RELAY-43)
		version = string(in.version)
	}
	if err := s.replace(now, st, to, version); err != nil {
		return err
	}
	s.eventSubscribed(now, st, in)
	if len(st.refusals) > 0 {
		s.stillNamed(st)
	}
	return s.countNames(st)
}

// repeats reports whether a request answers a response with the names that its type already has, so
// that it subscribes to nothing new. Some clients keep the names in a map, and list them in another
// order with each ACK. It locks the session.
func (s *session) repeats(in *content) bool {
	if s.delta || len(in.nonce) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.types {
		if st.typeURL == s.only || st.typeURL == string(in.typeURL) {
			return st.listed && (st.list == s.hashList(in) || len(in.locators) == 0 && st.members == s.hashNames(in))
		}
	}
	return false
}

// forgotten is called when a client sends no nonce for a type that is in use. It has forgotten what
// it was sent, so nothing is outstanding (NONCE-12). If it has repeated a nonce of the stream
// before, it did know one: then the type begins as on a new stream, even with the same list.
// Otherwise it may have sent the list before it read the answer to its last one, and is sent only
// what is new in it.
func (s *session) forgotten(now time.Time, st *streamType) {
	clear(st.unanswered)
	st.unanswered = st.unanswered[:0]
	s.serving.plan.Ack(now, st.typeURL, s.lastNonce)
	if !st.heard {
		return
	}
	st.sub.close(now)
	st.sub = nil
	s.unnamed(st, func(uint64) bool { return true })
	st.refused, st.denied, st.allowed = nil, nil, 0
	st.heldSince = time.Time{}
	st.heard, st.ackedVersion = false, ""
	st.nacked.forget()
}

// stillNamed drops the refusals of names that are no longer in the list.
func (s *session) stillNamed(st *streamType) {
	named := make(map[uint64]bool, len(st.refused))
	for key := range st.refused {
		named[s.refusalKey(key)] = true
	}
	s.unnamed(st, func(key uint64) bool {
		_, denied := st.denied[key]
		return !denied && !named[key]
	})
}

// sift divides a list into what is asked of the table, with the place for each, and what is
// refused. A refusal is sent when its name is new in the list, and not again.
func (s *session) sift(st *streamType, names []string, locators []*discoveryv3.ResourceLocator) routed {
	before := st.refused
	st.refused = nil
	denies := false
	if s.rights != nil {
		defer s.judgedList(st, s.rights.decided.allowed)
	}
	refuse := func(key, name string, p constraints.Params, why *reason) {
		denies = denies || why.absent
		if st.refused == nil {
			st.refused = map[string]struct{}{}
		}
		if _, known := st.refused[key]; known {
			return
		}
		key = strings.Clone(key)
		st.refused[key] = struct{}{}
		if _, known := before[key]; !known {
			s.refuseAbout(st, name, s.about(p), s.refusalKey(key), why)
		}
	}
	to := s.route(st, names, func(name string, why *reason) { refuse(name, name, constraints.Params{}, why) })
	s.locators(st, &to, keptFirst(st, locators), func(name string, p constraints.Params, why *reason) {
		refuse(locatorKey(name, p), name, p, why)
	})
	to.denies = denies
	return to
}

// hashList is equal for equal lists. It hashes the names in their encoded form, of which nearly
// every client has but one. The seed is random, so that no client can construct two lists that
// collide, which would lose a change of subscription.
func (s *session) hashList(in *content) uint64 {
	if len(in.locators) == 0 {
		return maphash.Bytes(s.cfg.seed, in.names.encoded)
	}
	var h maphash.Hash
	h.SetSeed(s.cfg.seed)
	var n [4]byte
	add := func(name string) {
		binary.LittleEndian.PutUint32(n[:], uint32(len(name)))
		h.Write(n[:])
		h.WriteString(name)
	}
	for _, l := range in.locators {
		add(l.GetName())
		add(constraints.NewParams(l.GetDynamicParameters()).Key()) // in whatever order they came
	}
	h.WriteString("\xff\xff\xff\xff") // no name is that long
	h.Write(in.names.encoded)
	return h.Sum64()
}

// hashNames is equal for lists with the same names in any order.
func (s *session) hashNames(in *content) (sum uint32) {
	for name := range in.names.values() {
		sum += uint32(maphash.Bytes(s.cfg.seed, name)) //nolint:gosec // as many bits as there is room for
	}
	return sum
}
