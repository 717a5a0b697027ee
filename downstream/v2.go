package downstream

import (
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

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
