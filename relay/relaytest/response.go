package relaytest

import (
	"fmt"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Response is one response a Client received. Exactly one of SotW and Delta is set, or neither if
// the bytes were no message. It is shared: do not modify.
type Response struct {
	N     int // the client's count of responses, from 1, over all streams
	At    time.Time
	Raw   []byte // as received
	SotW  *discovery.DiscoveryResponse
	Delta *discovery.DeltaDiscoveryResponse
	Items []Item

	rejected string // by ClientConfig.Reject
	seen     bool   // guarded by Client.mu: an expectation has taken it
	before   map[string]Entry
}

// Item is one resource of a response, unwrapped.
type Item struct {
	Name string
	// the name, followed by the constraints in braces if it came by resource_name
	Key         string
	Version     string // of the resource; in SotW, if it has none of its own, the version_info
	Body        *anypb.Any
	Aliases     []string
	TTL         *time.Duration // nil: none
	Wrapped     bool           // came in a SotW wrapper
	HasLocator  bool           // named by resource_name instead of name
	Constraints *discovery.DynamicParameterConstraints
	broken      string // why it could not be read
}

// Heartbeat reports whether the item has no payload (TTL-2).
func (i *Item) Heartbeat() bool { return i.Body == nil }

func (r *Response) decode(d Dialect) {
	if d == SotW {
		m := new(discovery.DiscoveryResponse)
		if proto.Unmarshal(r.Raw, m) != nil {
			return
		}
		r.SotW = m
		for _, a := range m.Resources {
			r.Items = append(r.Items, sotwItem(a, m.VersionInfo))
		}
		return
	}
	m := new(discovery.DeltaDiscoveryResponse)
	if proto.Unmarshal(r.Raw, m) != nil {
		return
	}
	r.Delta = m
	for _, d := range m.Resources {
		r.Items = append(r.Items, itemOf(d))
	}
}

// sotwItem reads a bare or wrapped SotW resource.
func sotwItem(a *anypb.Any, version string) Item {
	if a.TypeUrl != wrapperType {
		name := bodyName(a.Value)
		return Item{Name: name, Key: name, Version: version, Body: a}
	}
	w := new(discovery.Resource)
	if err := proto.Unmarshal(a.Value, w); err != nil {
		return Item{Wrapped: true, broken: "unreadable wrapper: " + err.Error()}
	}
	i := itemOf(w)
	i.Wrapped = true
	if i.Version == "" {
		i.Version = version
	}
	if i.Name == "" && i.Body != nil {
		i.Name = bodyName(i.Body.Value)
		i.Key = i.Name
	}
	return i
}

func itemOf(d *discovery.Resource) Item {
	i := Item{Name: d.Name, Version: d.Version, Body: d.Resource, Aliases: d.Aliases}
	if d.ResourceName != nil {
		i.HasLocator = true
		i.Name, i.Constraints = d.ResourceName.Name, d.ResourceName.DynamicParameterConstraints
		if d.Name != "" {
			i.broken = "both name and resource_name are set (DYN-16)"
		}
	}
	if i.Key = i.Name; i.HasLocator {
		i.Key = locatedKey(i.Name, i.Constraints)
	}
	if d.Ttl != nil {
		ttl := d.Ttl.AsDuration()
		i.TTL = &ttl
	}
	return i
}

// identity is the name and the constraints, in whatever form (DELTA-20).
func identity(key string) string { return strings.TrimSuffix(key, "{}") }

// Removed are the keys a delta response removes, by either field.
func (r *Response) Removed() []string {
	var keys []string
	keys = append(keys, r.Delta.GetRemovedResources()...)
	for _, n := range r.Delta.GetRemovedResourceNames() {
		keys = append(keys, locatedKey(n.Name, n.DynamicParameterConstraints))
	}
	return keys
}

// Names are the names of the items, in the order received.
func (r *Response) Names() []string {
	names := make([]string, len(r.Items))
	for i := range r.Items {
		names[i] = r.Items[i].Name
	}
	return names
}

// TypeURL is the type the response says it is of.
func (r *Response) TypeURL() string {
	if r.SotW != nil {
		return r.SotW.TypeUrl
	}
	return r.Delta.GetTypeUrl()
}

// Nonce is the response's nonce.
func (r *Response) Nonce() string {
	if r.SotW != nil {
		return r.SotW.Nonce
	}
	return r.Delta.GetNonce()
}

// Version is the version_info (SotW) or system_version_info (delta).
func (r *Response) Version() string {
	if r.SotW != nil {
		return r.SotW.VersionInfo
	}
	return r.Delta.GetSystemVersionInfo()
}

// Identifier is the control plane's.
func (r *Response) Identifier() string { return r.controlPlane().GetIdentifier() }

func (r *Response) controlPlane() *core.ControlPlane {
	if r.SotW != nil {
		return r.SotW.ControlPlane
	}
	return r.Delta.GetControlPlane()
}

// Errors are the resource_errors.
func (r *Response) Errors() []*discovery.ResourceError {
	if r.SotW != nil {
		return r.SotW.ResourceErrors
	}
	return r.Delta.GetResourceErrors()
}

// String is one line for failure messages.
func (r *Response) String() string {
	if r.SotW == nil && r.Delta == nil {
		return fmt.Sprintf("response %d: %d bytes that are no response", r.N, len(r.Raw))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "response %d: %s nonce=%q version=%q resources=%s", r.N, shortType(r.TypeURL()), r.Nonce(), r.Version(),
		brief(r.Names()))
	if removed := r.Removed(); len(removed) > 0 {
		fmt.Fprintf(&b, " removed=%s", brief(removed))
	}
	if n := len(r.Errors()); n > 0 {
		fmt.Fprintf(&b, " errors=%d", n)
	}
	return b.String()
}
