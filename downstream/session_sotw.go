package downstream

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
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
		if st.requestedByStates(now); st.typeURL == xds.EndpointType && s.by == nil {
			s.pushEndpoints() // WARM-2
		}
	}
	s.wake(now)
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
	if st.typeURL == xds.ClusterType {
		s.clustersJudged(now)
	}
	if detail != nil {
		s.nack(now, st, &last, string(nonce), detail)
		s.judgedByStates(now, st, &last)
		return
	}
	s.judgedByStates(now, st, &last)
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
		left := s.forgotten(now, st)
		defer func() {
			if !left.None() {
				left.Close(now)
			}
		}()
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
	if wildcard && !st.wildcard && !xds.SentWhole(st.typeURL) {
		// From now on every response has the whole view (SOTW-4). A response that is held back has
		// only what changed. The whole view follows it, in the list, or by name if the client
		// leaves `*` before that.
		if st.held != nil {
			st.sub.Unsend()
		}
		st.held = nil
		st.unhold()
	}
	if st.wildcard && !wildcard && !xds.SentWhole(st.typeURL) {
		st.discardEmptyList()
	}
	st.wildcard = wildcard
	version := ""
	if st.sub.None() && st.by == nil { // only the first request of a type says what the client holds (RELAY-43)
		version = string(in.version)
	}
	if err := s.replace(now, st, to, version); err != nil {
		return err
	}
	s.eventSubscribed(now, st, in)
	if len(st.refusals) > 0 {
		s.stillNamed(st)
	}
	if s.tellsWhole(st) {
		st.sub.Remind()
	}
	return s.countNames(st)
}

// discardEmptyList is called when the client leaves `*`. An empty list that is held back answers
// `*` alone. To a client of names it says nothing, so it is not sent (SOTW-9).
func (st *streamType) discardEmptyList() {
	a := st.held
	if a == nil || len(a.Variants)+len(a.Heartbeats)+len(a.Errors) > 0 || !a.Located.None() {
		return
	}
	st.sub.Ack(a.Receipt()) // no client acknowledges it
	st.held, st.changed = nil, false
	st.unhold()
	st.synced()
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
// what is new in it. The caller closes left, if there is any, after it has subscribed again to what
// is still named.
func (s *session) forgotten(now time.Time, st *streamType) (left relay.Union) {
	clear(st.unanswered)
	st.unanswered = st.unanswered[:0]
	if s.by != nil {
		s.by.plan.Ack(now, st.typeURL, s.lastNonce)
	}
	if st.typeURL == xds.ClusterType {
		s.clustersJudged(now)
	}
	if !st.heard {
		return left
	}
	left, st.sub = st.sub, relay.Union{}
	st.by.close(now)
	st.by = nil
	s.unnamed(st, func(uint64) bool { return true })
	st.refused, st.denied, st.allowed = nil, nil, 0
	st.held, st.changed, st.keeps = nil, false, false
	st.unhold()
	st.heard, st.lagging, st.ackedVersion = false, false, ""
	st.nacked.forget()
	return left
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

// replace passes a list to the table, to each group its part.
func (s *session) replace(now time.Time, st *streamType, to routed, version string) error {
	if s.by != nil {
		return s.replaceByStates(now, st, to, version)
	}
	own, err := s.groupOf(st, s.cfg.origin)
	if err != nil {
		return s.noGroup(err)
	}
	first := st.sub.None()
	var denied []relay.Denied
	replace := func(g *relay.Group, names []string, wildcard bool) {
		sub := st.sub.In(g)
		if sub == nil {
			p := s.params(g.Origin(), st.typeURL)
			sub = st.sub.Open(g, s.mailbox, relay.SubOptions{
				TypeURL: st.typeURL, Version: version, StandIn: s.ofStandIn(version),
				Params: p, TTL: s.ttl, Polls: s.poll, Permit: s.permit(g.Origin(), st.typeURL, p),
			})
		}
		if sub == nil {
			err = relay.ErrParameterSets
			return
		}
		denied = append(denied, st.sub.Replace(now, sub, names, wildcard)...)
		st.expect(now, sub)
	}
	if len(to.own) > 0 || to.wildcard || first && len(to.others)+len(to.locatorBatches.list) == 0 || st.sub.In(own) != nil {
		replace(own, to.own, to.wildcard)
	}
	for i := range to.others {
		replace(to.others[i].group, to.others[i].names, false)
	}
	if err != nil {
		return s.noGroup(err)
	}
	before := st.denied
	st.denied = nil
	if err := s.denied(now, st, denied, nil, before); err != nil {
		return err
	}
	if err := s.replaceLocated(now, st, &to.locatorBatches, version, before); err != nil {
		return err
	}
	if s.rights != nil && !st.sub.None() {
		st.sub.Part(0).Denies(to.denies)
	}
	for i := range st.sub.Len() { // what is named no longer
		sub := st.sub.Part(i)
		if g := sub.Group(); sub.Located() && to.locatorBatches.at[batchKey{g, sub.Params().Key()}] == nil || !sub.Located() && g != own && to.at(g) == nil {
			st.sub.Replace(now, sub, nil, false)
		}
	}
	st.sub.Leave(now)
	return nil
}

// replaceLocated is replace for locators.
func (s *session) replaceLocated(
	now time.Time, st *streamType, to *locatorBatches, version string, before map[uint64]struct{},
) error {
	for _, x := range to.list {
		var denied []relay.Denied
		if sub := s.open(st, x, version); sub != nil {
			denied = st.sub.Replace(now, sub, x.names, x.wildcard)
			st.expect(now, sub)
		} else {
			denied = s.wholeList(x)
		}
		if err := s.denied(now, st, denied, x, before); err != nil {
			return err
		}
	}
	return nil
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
