package relaytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// Dialect is one of the two variants of the protocol.
type Dialect string

// The two dialects, named as everywhere in weir.
const (
	Delta Dialect = "delta"
	SotW  Dialect = "sotw"
)

// Request is one request an Origin received. Exactly one of SotW and Delta is set, or neither if
// the bytes were no message. It is shared: do not modify.
type Request struct {
	Stream *Stream
	N      int // the origin's count of requests, from 1, over all streams and restarts
	At     time.Time
	Raw    []byte // as received
	SotW   *discovery.DiscoveryRequest
	Delta  *discovery.DeltaDiscoveryRequest

	seen bool // guarded by Origin.mu: an expectation has taken it
}

// decode fills SotW or Delta from Raw.
func (r *Request) decode(d Dialect) {
	if d == SotW {
		if m := new(discovery.DiscoveryRequest); proto.Unmarshal(r.Raw, m) == nil {
			r.SotW = m
		}
		return
	}
	if m := new(discovery.DeltaDiscoveryRequest); proto.Unmarshal(r.Raw, m) == nil {
		r.Delta = m
	}
}

// TypeURL is the type asked for.
func (r *Request) TypeURL() string {
	if r.SotW != nil {
		return r.SotW.TypeUrl
	}
	return r.Delta.GetTypeUrl()
}

// Node is the node sent along, nil if none.
func (r *Request) Node() *core.Node {
	if r.SotW != nil {
		return r.SotW.Node
	}
	return r.Delta.GetNode()
}

// Nonce is the response nonce; empty on a request that answers nothing.
func (r *Request) Nonce() string {
	if r.SotW != nil {
		return r.SotW.ResponseNonce
	}
	return r.Delta.GetResponseNonce()
}

// Detail is the error of a NACK, nil otherwise.
func (r *Request) Detail() *spb.Status {
	if r.SotW != nil {
		return r.SotW.ErrorDetail
	}
	return r.Delta.GetErrorDetail()
}

// IsACK reports whether the request carries a nonce and no error. In SotW that is also true of a
// change of names after the response was acknowledged.
func (r *Request) IsACK() bool { return r.Nonce() != "" && r.Detail() == nil }

// IsNACK reports whether the request carries a nonce and an error.
func (r *Request) IsNACK() bool { return r.Nonce() != "" && r.Detail() != nil }

// Names are the names asked for: in SotW the whole list, in delta those newly subscribed.
func (r *Request) Names() []string {
	if r.SotW != nil {
		return r.SotW.ResourceNames
	}
	return r.Delta.GetResourceNamesSubscribe()
}

// Locators are the locators asked for: in SotW the whole list, in delta those newly subscribed.
func (r *Request) Locators() []*discovery.ResourceLocator {
	if r.SotW != nil {
		return r.SotW.ResourceLocators
	}
	return r.Delta.GetResourceLocatorsSubscribe()
}

// namesNothing tells a request that, coming first, is a legacy wildcard (WILD-2, WILD-6) to whom
// understands locators.
func namesNothing(r *discovery.DeltaDiscoveryRequest) bool {
	return namesNothingPlain(r) && len(r.ResourceLocatorsSubscribe)+len(r.ResourceLocatorsUnsubscribe) == 0
}

// namesNothingPlain is namesNothing for those who do not know locators (DYN-17).
func namesNothingPlain(r *discovery.DeltaDiscoveryRequest) bool {
	return len(r.ResourceNamesSubscribe)+len(r.ResourceNamesUnsubscribe) == 0
}

// String is one line for failure messages.
func (r *Request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "request %d on stream %d (%s): ", r.N, r.Stream.N, r.Stream.Dialect)
	switch {
	case r.SotW != nil:
		fmt.Fprintf(&b, "%s names=%s version=%q", shortType(r.TypeURL()), brief(r.Names()), r.SotW.VersionInfo)
	case r.Delta != nil:
		fmt.Fprintf(&b, "%s subscribe=%s unsubscribe=%s initial=%d", shortType(r.TypeURL()), brief(r.Names()),
			brief(r.Delta.ResourceNamesUnsubscribe), len(r.Delta.InitialResourceVersions))
	default:
		fmt.Fprintf(&b, "%d bytes that are no request", len(r.Raw))
	}
	if ls := r.Locators(); len(ls) > 0 {
		fmt.Fprintf(&b, " locators=%s", brief(locatorKeys(ls)))
	}
	if ls := r.Delta.GetResourceLocatorsUnsubscribe(); len(ls) > 0 {
		fmt.Fprintf(&b, " unsubscribed locators=%s", brief(locatorKeys(ls)))
	}
	if r.Nonce() != "" {
		fmt.Fprintf(&b, " nonce=%q", r.Nonce())
	}
	if d := r.Detail(); d != nil {
		fmt.Fprintf(&b, " error=%q", d.Message)
	}
	if r.Node() != nil {
		fmt.Fprintf(&b, " node=%q", r.Node().Id)
	}
	return b.String()
}

// shortType is the last word of a type URL.
func shortType(typeURL string) string { return typeURL[strings.LastIndexAny(typeURL, "./")+1:] }

// brief prints up to eight names, sorted.
func brief(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) > 8 {
		return fmt.Sprintf("%q and %d more", names[:8], len(names)-8)
	}
	return fmt.Sprintf("%q", names)
}
