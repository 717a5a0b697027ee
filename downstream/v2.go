package downstream

import (
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// A client of transport v2 is served as any other is, by messages of the same bytes (V2-2): what
// these have that v2 lacks is left out (V2-3). Such a client names no locators and is told no TTLs,
// and so what has one is removed when it ends; it is told no errors.

// pieces are the encoded resources of an answer.
func (s *session) pieces(a *relay.Answer, now time.Time, own [][]byte) relay.Pieces {
	if s.v2 && s.delta {
		return a.PiecesV2(own)
	}
	return a.Pieces(s.delta, now, own)
}

// tellsRefusals reports whether a name that is refused is told so. Of virtual hosts v2 can tell it,
// too: by a resource (ALIAS-7).
func (s *session) tellsRefusals(st *streamType) bool {
	return !s.v2 || xds.IsVirtualHost(st.typeURL)
}

// expressible is an answer as far as it can be told; nil if that is nothing. An answer of errors
// alone would be an empty response, which says something else (SOTW-9).
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
