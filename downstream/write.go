package downstream

import (
	"cmp"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/xds"
)

const maxVersionShown = 256 // of an origin, which is in each response

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
		s.serving.plan.Wrote(now, r.kind.typeURL, r.nonce)
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

// tellsRefusals reports whether the client can be sent a refusal of a name. In v2 that is possible
// only for virtual hosts, by a resource (ALIAS-7), and for what is stated not to exist.
func (s *session) tellsRefusals(st *streamType, why *reason) bool {
	return !s.v2 || xds.IsVirtualHost(st.typeURL) || s.delta && why.absent
}

// write makes the messages of an answer and of the type's refusals, and records them as in flight;
// a is nil if there are refusals alone, or an empty response.
func (s *session) write(now time.Time, st *streamType, a *cursor.Answer, out []*response) []*response {
	st.blank = false
	x, parts, many := sent{at: now, real: a != nil}, []part{{}}, false
	d := draft{prefix: s.prefix, refusals: s.takeRefusals(st)}
	d.hosts = s.refusedHosts(st, d.refusals)
	if a != nil {
		x.number, s.served, x.version = a.Number, true, a.Version
		if s.dates(st, a, &x); st.unsyncedSince.IsZero() {
			st.unsyncedSince = st.firstAt(now)
		}
		if !a.Waits {
			for i := range st.sub.sources {
				st.sub.sources[i].coldFrom = time.Time{}
			}
		}
		st.sentVersion = s.versionOf(st, a)
		pieces, units := s.piecesOf(a, now), relay.UnitsOf(a, s.delta, s.ttl, now)
		if s.delta {
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
		d.version = xds.SetDigest{}.TreeVersion() // that of an empty set
	}
	var of *relay.Group
	if a != nil && a.Group >= 0 {
		of = s.serving.groups[a.Group]
	}
	for _, list := range parts[0].pieces {
		many = many || len(list) > 1
	}
	r := newResponse(st, many)
	refused, from := len(d.refusals), len(out)
	out, r = s.encode(st, &x, r, s.header(st, of), &d, parts, out)
	if r.last, r.dated = true, x.dated.from != nil; r.dated {
		r.since, st.lag = x.dated.since, x.dated.lag
	}
	st.responses++
	st.remember(x)
	if s.telling {
		s.eventSent(now, st, a, &x, refused, out[from:])
	}
	return out
}

// Clients of transport v2 are served like any other, with messages of the same bytes (V2-2). Fields
// that v2 lacks are left out (V2-3). Such a client sends no locators and understands no TTLs, so a
// resource with a TTL is removed when it expires. It is sent no errors.

// expressible reports whether anything can be sent of an answer. In v2 an answer of errors alone
// would become an empty response, which means something else (SOTW-9).
func (s *session) expressible(a *cursor.Answer) bool {
	if !s.v2 || len(a.Errors) == 0 {
		return true
	}
	a.Errors = nil
	return a.Whole || len(a.Changed)+len(a.Heartbeats)+len(a.Removed) > 0
}

// versionOf is the version of a response: that of its content, or the origin's (VER-4, VER-5).
func (s *session) versionOf(st *streamType, a *cursor.Answer) string {
	from := st.sub.From()
	switch {
	case s.delta && (from == nil || len(from.Version) > maxVersionShown):
		return ""
	case s.delta:
		return from.Version
	case st.sub.OriginVersions:
		return cmp.Or(st.sub.OriginVersion(), a.Version)
	}
	return a.Version
}

// piecesOf are the encoded resources and removals of an answer.
func (s *session) piecesOf(a *cursor.Answer, now time.Time) (p relay.Pieces) {
	if s.v2 && s.delta {
		for _, v := range a.Changed {
			if !v.Nameless {
				p[relay.Plain] = append(p[relay.Plain], v.DeltaV2())
			}
		}
	} else {
		p[relay.Plain], p[relay.Pairs] = a.Pieces(now, nil)
	}
	for _, v := range a.Heartbeats {
		if ttl, ok := v.Remaining(now); ok {
			p[relay.Plain] = append(p[relay.Plain], v.Heartbeat(s.delta, ttl))
		}
	}
	p[relay.Plain] = append(p[relay.Plain], relay.UnresolvedFields(a.Unresolved, s.nonce(s.lastNonce+1))...)
	if s.delta {
		p[relay.Removals] = relay.RemovedNames(a.Removed)
	}
	return p
}
