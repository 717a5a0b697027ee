package downstream

import (
	"cmp"
	"math"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// release is the forward walk. It writes what no earlier type holds back.
func (s *session) release(now time.Time) []*response {
	out := s.batch[:0]
	oldest := uint64(math.MaxUint64) // of the earlier types' changes that are not written now
	settles := time.Time{}           // the time until which an earlier type may settle
	var clusters *streamType         // nil: the client does not ask for them
	var routes, hosts *relay.Answer  // written now
	s.split(now)
	for _, st := range s.types {
		if a := st.held; a != nil {
			switch {
			case s.urgent(st):
				out = s.write(now, st, out)
			case a.Rev >= oldest:
				s.holdBack(now, st, metrics.WaitOrder)
			case late(st.typeURL) && now.Before(settles):
				s.holdBack(now, st, metrics.WaitEarlierSet)
			case late(st.typeURL) && !s.overdue(now, st) && s.awaitsClusters(now, st, clusters) != metrics.NoWait:
				s.holdBack(now, st, s.awaitsClusters(now, st, clusters))
				st.after = s.waitsFor(st)
			case late(st.typeURL) && s.awaitsNamed(now, st, clusters):
				s.holdBack(now, st, metrics.WaitEndpoints)
			default:
				out = s.write(now, st, out)
			}
			if st.held == nil {
				switch st.typeURL {
				case xds.EndpointType:
					s.follow(a)
				case xds.RouteType:
					routes = a
				case xds.VirtualHostType:
					hosts = a
				}
			}
		} else if s.tellable(st) && !st.inFlight(now, s.cfg.timing.OrderHold) {
			out = s.write(now, st, out)
		}
		if st.held != nil {
			oldest = min(oldest, st.held.First, st.held.Rev)
		} else if st.hurries {
			// What came after it is written now, too, since a later type has waited for order_hold
			// (ORD-5).
			s.mailbox.Signal()
		}
		if st.unsent != 0 {
			oldest = min(oldest, st.unsent)
		}
		if st.settles.After(settles) {
			settles = st.settles
		}
		if st.typeURL == xds.ClusterType {
			clusters = st
		}
	}
	s.oweEndpoints(now, clusters)
	s.oweVirtualHosts(routes, hosts)
	s.batch = s.releaseRest(now, out)
	return s.batch
}

// awaitsClusters is whether a late type's answer waits for the ACK or NACK of clusters, or for
// endpoints of theirs; NoWait: for neither. That concerns the responses that were written when it
// began to wait, and none that were written since (ORD-5).
func (s *session) awaitsClusters(now time.Time, st, clusters *streamType) metrics.WaitReason {
	after := s.waitsFor(st)
	if clusters != nil {
		for i := range clusters.unanswered {
			if x := &clusters.unanswered[i]; x.last <= after && now.Before(x.at.Add(s.cfg.timing.OrderHold)) {
				return metrics.WaitClusters
			}
		}
	}
	if s.coldEndpoints(now, after) {
		return metrics.WaitEndpoints
	}
	return metrics.NoWait
}

// awaitsNamed reports whether a late type's answer waits even after order_hold: for endpoints that
// the client asks for by name, of Clusters that could be written only meanwhile. Envoy withholds
// the ACK of the Clusters before them while the endpoints of any of these never come. Without this
// wait the route might be written just after its cluster, before Envoy has asked for the cluster's
// endpoints (testdata/ads_clusters_unanswered.txt; .ci/real: hollow). The whole wait is at most
// twice order_hold.
func (s *session) awaitsNamed(now time.Time, st, clusters *streamType) bool {
	if !now.Before(st.from(now).Add(2 * s.cfg.timing.OrderHold)) {
		return false
	}
	endpoints := s.endpoints()
	// What `*` has not brought, the origin does not have.
	if endpoints == nil || endpoints.sub.Standing().Wildcard {
		return false
	}
	if len(s.warm.news) > 0 && clusters.hurried() && clusters.last().last <= s.waitsFor(st) {
		return true // they are in this batch, since the writer comes late
	}
	return s.warm.waited(now, s.waitsFor(st))
}

// waitsFor is the nonce of the last response that a late type waits for.
func (s *session) waitsFor(st *streamType) uint64 { return cmp.Or(st.after, s.lastNonce) }

// urgent reports whether an HTTP request may wait for a type's held answer, or for what can only be
// taken after it. Then nothing holds it back (ALIAS-8). Virtual hosts that no client asked for are
// pushed with a changed route, and are in order like any other type.
func (s *session) urgent(st *streamType) bool {
	return xds.IsVirtualHost(st.typeURL) && (st.held.Demanded || st.sub.Demands())
}

// tellable reports whether there are refusals, or an empty response, to send without an answer. For
// a type that is sent whole in SotW that would delete everything (SOTW-9), so refusals wait for the
// next list.
func (s *session) tellable(st *streamType) bool {
	switch {
	case st.blank:
		return true
	case len(st.refusals) == 0:
		return false
	}
	return s.delta || !st.wildcard && !xds.SentWhole(st.typeURL)
}

// write makes the messages of a type's held answer and refusals, and records them as in flight.
func (s *session) write(now time.Time, st *streamType, out []*response) []*response {
	a, heldSince, from := st.held, st.heldSince, len(out)
	st.held, st.blank, st.stuckSince = nil, false, time.Time{}
	st.unhold()
	if st.changed {
		st.changed, s.changesAt = false, now
	}
	x, r, parts := sent{at: now, real: a != nil}, newResponse(st, !s.delta && st.wildcard), []part{{}}
	refusals := s.takeRefusals(st)
	d := draft{prefix: s.prefix, refusals: refusals}
	d.hosts = s.refusedHosts(st, d.refusals)
	if a != nil {
		if late(st.typeURL) {
			s.routedAt = now
		}
		x.told = a.Receipt()
		s.warm.noteClusters(a.Follow)
		st.sentVersion, s.served = a.Version, true
		if !a.Waiting {
			st.answered()
		}
		st.answers++
		pieces, one := s.pieces(a, now, r.one[:0]), [1]relay.Unit{}
		if units := a.Units(s.delta, now, one[:0]); s.delta {
			parts = cutUnits(cut(parts[:0], pieces, messageBytes), units, messageBytes)
			parts = cutErrors(parts, a.Errors, messageBytes)
			parts = s.cutRest(now, st, parts)
		} else {
			parts[0].pieces, parts[0].errors = pieces, a.Errors
			for _, u := range units {
				parts[0].pieces[relay.Pairs] = append(parts[0].pieces[relay.Pairs], u.Pieces...)
			}
		}
	}
	if d.version = st.sentVersion; d.version == "" && !s.delta {
		d.version = xds.SetDigest{}.Version() // that of an empty set
	}
	out, r = s.encode(st, &x, r, s.header(st, a.Group()), &d, parts, out)
	r.last, r.dated, r.since = true, !x.told.Since.IsZero(), x.told.Since.Sub(s.opened)
	if r.dated {
		st.lag = x.told.Oldest().Lag()
	}
	st.responses++
	st.remember(x)
	if s.telling {
		e := s.eventSent(now, st, a, len(refusals), out[from:])
		if !heldSince.IsZero() {
			e.Held, e.Why = now.Sub(heldSince), st.heldFor.String()
		}
	}
	return out
}

// wrote records that responses have been written. Only now the wait for their ACKs begins. The
// responses are released. It locks the session.
func (s *session) wrote(now time.Time, batch []*response) {
	s.writerLock()
	defer s.mu.Unlock()
	defer letGo(batch)
	for _, r := range batch {
		r.kind.counts.Response(r.size)
		if !r.last {
			continue
		}
		r.kind.sentAt = now.Sub(s.opened)
		if s.by != nil {
			s.by.plan.Wrote(now, r.kind.typeURL, r.nonce)
		}
		if x := r.kind.find(r.nonce); x != nil { // nil: it is acknowledged already
			x.at = now
		}
		if r.dated {
			took, lag := now.Sub(s.opened)-r.since, r.kind.lag
			lag.Sent(took, s.exemplar(lag, r.kind, now.Add(-took)))
		}
	}
}

// letGo unlinks responses from their stream, since grpc keeps their bytes for as long as a client
// does not read, even if the stream has ended.
func letGo(batch []*response) {
	for i, r := range batch {
		r.kind, batch[i] = nil, nil
	}
}

// encode makes the messages of a response, of which r is the first, and appends them to out. It
// returns the last one, and notes the nonces.
func (s *session) encode(st *streamType, x *sent, r *response, f *responseHeader, d *draft, parts []part, out []*response) ([]*response, *response) {
	var several []uint64
	for i := range parts {
		if i > 0 {
			r = newResponse(st, true)
			d.refusals, d.hosts = nil, nil
			several = append(several, s.lastNonce)
		}
		s.lastNonce++ // unique in the stream (NONCE-1)
		r.nonce, d.gone, d.errors = s.lastNonce, parts[i].gone, parts[i].errors
		r.encode(f, d, &parts[i])
		out = append(out, r)
	}
	if x.last = s.lastNonce; len(parts) > 1 {
		all := append(several, x.last)
		x.several = &all
	}
	return out, r
}

// Clients of transport v2 are served like any other, with messages of the same bytes (V2-2). Fields
// that v2 lacks are left out (V2-3). Such a client sends no locators and understands no TTLs, so a
// resource with a TTL is removed when it expires. It is sent no errors.

// pieces returns the encoded resources of an answer.
func (s *session) pieces(a *relay.Answer, now time.Time, own [][]byte) relay.Pieces {
	if s.v2 && s.delta {
		return a.PiecesV2(own)
	}
	return a.Pieces(s.delta, now, own)
}

// tellsRefusals reports whether the client can be sent a refusal of a name. In v2 that is possible
// only for virtual hosts, by a resource (ALIAS-7), and for what is stated not to exist.
func (s *session) tellsRefusals(st *streamType, why *reason) bool {
	return !s.v2 || xds.IsVirtualHost(st.typeURL) || s.delta && why.absent
}

// expressible returns what can be sent of an answer; nil if nothing can. In v2 an answer of errors
// alone would become an empty response, which means something else (SOTW-9).
func (s *session) expressible(st *streamType, a *relay.Answer) *relay.Answer {
	if !s.v2 || a == nil || len(a.Errors) == 0 {
		return a
	}
	a.Errors = nil
	whole := st.wildcard || !s.delta && xds.SentWhole(st.typeURL)
	if !whole && len(a.Variants)+len(a.Heartbeats)+len(a.Removed) == 0 {
		return nil
	}
	return a
}
