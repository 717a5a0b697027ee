package client

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Response is a server's response, in either dialect.
type Response struct {
	TypeURL string
	// Version is version_info or system_version_info.
	Version string
	Nonce   string
	// ControlPlane is the server's identifier; may be empty.
	ControlPlane string

	// Set are the resources that are new or changed; in SotW also those that are repeated.
	Set []Resource
	// Removed are the names that are gone: stated in delta, concluded for the full-state types in
	// SotW.
	Removed []string
	// Errors are about single names.
	Errors []ResourceError
}

// Resource is one named piece of configuration.
type Resource struct {
	Name    string
	Version string        // its own in delta, the response's in SotW
	TTL     time.Duration // zero: none
	Body    *anypb.Any    // nil: a heartbeat; the last body stays valid

	// Located: it has the form for subscriptions with parameters (DYN-16).
	Located bool
	// Constraints say for which parameters it is; nil: all.
	Constraints *discoveryv3.DynamicParameterConstraints
}

// ResourceError is a server's error about one resource.
type ResourceError struct {
	Name    string
	Code    codes.Code
	Message string
}

// NotFound reports whether the error means that the resource does not exist.
func (e ResourceError) NotFound() bool { return e.Code == codes.NotFound }

const wrapperURL = "type.googleapis.com/envoy.service.discovery.v3.Resource"

func readResource(r *discoveryv3.Resource) Resource {
	name := r.GetName()
	if name == "" {
		name = r.GetResourceName().GetName()
	}
	if name == "" {
		name = nameIn(r.GetResource())
	}
	return Resource{
		Name: name, Version: r.GetVersion(), TTL: r.GetTtl().AsDuration(), Body: r.GetResource(),
		Located: r.GetResourceName() != nil, Constraints: r.GetResourceName().GetDynamicParameterConstraints(),
	}
}

// readAny decodes an entry of a SotW response, which may be wrapped (SOTW-13).
func readAny(body *anypb.Any, version string) Resource {
	if body.GetTypeUrl() != wrapperURL {
		return Resource{Name: nameIn(body), Version: version, Body: body}
	}
	var wrapped discoveryv3.Resource
	if err := proto.Unmarshal(body.GetValue(), &wrapped); err != nil {
		return Resource{Version: version, Body: body}
	}
	r := readResource(&wrapped)
	r.Version = cmp.Or(r.Version, version)
	return r
}

func readErrors(errs []*discoveryv3.ResourceError) []ResourceError {
	var out []ResourceError
	for _, e := range errs {
		out = append(out, ResourceError{
			Name:    e.GetResourceName().GetName(),
			Code:    codes.Code(e.GetErrorDetail().GetCode()),
			Message: e.GetErrorDetail().GetMessage(),
		})
	}
	return out
}

// nameIn finds the name in a body. Every xDS type has it in field 1, so this needs no descriptor
// and works for vendor types.
func nameIn(body *anypb.Any) string {
	b, name := body.GetValue(), ""
	for len(b) > 0 {
		num, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return name
		}
		b = b[n:]
		if num == 1 && wire == protowire.BytesType {
			v, n := protowire.ConsumeBytes(b)
			if n < 0 || !utf8.Valid(v) {
				return name
			}
			name = string(v) // the last one counts, as in any parser
		}
		n = protowire.ConsumeFieldValue(num, wire, b)
		if n < 0 {
			return name
		}
		b = b[n:]
	}
	return name
}

// sotw is a state-of-the-world stream.
type sotw struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	types  map[string]*sotwType // by type URL
}

// sotwType is what must be remembered of a type: each request repeats the names, and what the last
// response had and this one lacks is removed.
type sotwType struct {
	sub  Subscription
	held map[string]bool // names, of full-state types
}

func (s *sotw) subscribe(sub Subscription, node *corev3.Node) error {
	s.types[sub.TypeURL] = &sotwType{sub: sub, held: make(map[string]bool)}
	return s.stream.Send(&discoveryv3.DiscoveryRequest{
		Node:             node,
		TypeUrl:          sub.TypeURL,
		ResourceNames:    sub.plain(),
		ResourceLocators: sub.locators(),
	})
}

func (s *sotw) receive() (*Response, error) {
	m, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	r := &Response{
		TypeURL:      m.GetTypeUrl(),
		Version:      m.GetVersionInfo(),
		Nonce:        m.GetNonce(),
		ControlPlane: m.GetControlPlane().GetIdentifier(),
		Errors:       readErrors(m.GetResourceErrors()),
	}
	for _, body := range m.GetResources() {
		r.Set = append(r.Set, readAny(body, r.Version))
	}
	ack := &discoveryv3.DiscoveryRequest{TypeUrl: r.TypeURL, VersionInfo: r.Version, ResponseNonce: r.Nonce}
	if t := s.types[r.TypeURL]; t != nil {
		ack.ResourceNames, ack.ResourceLocators = t.sub.plain(), t.sub.locators()
		if fullState(r.TypeURL) {
			r.Removed = t.replace(r)
		}
	}
	// Send fails if the stream has ended; the next Recv returns why.
	_ = s.stream.Send(ack)
	return r, nil
}

// replace replaces the state by a response, and returns the names that are gone. A name with an
// error is not: its last body stays valid (ABS-8).
func (t *sotwType) replace(r *Response) []string {
	now := make(map[string]bool, len(r.Set))
	for _, res := range r.Set {
		now[res.Name] = true
	}
	for _, e := range r.Errors {
		now[e.Name] = now[e.Name] || t.held[e.Name] && !e.NotFound()
	}
	var gone []string
	for name := range t.held {
		if !now[name] {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	t.held = now
	return gone
}

// fullState reports whether absence from a response means removal (DEL-2).
func fullState(typeURL string) bool {
	switch typeURL {
	case "type.googleapis.com/envoy.config.listener.v3.Listener",
		"type.googleapis.com/envoy.config.cluster.v3.Cluster":
		return true
	}
	return false
}

// delta is a delta stream.
type delta struct {
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	held   map[heldKey]*discoveryv3.Resource // resources with constraints
}

// heldKey is a type URL and a name, both as the server writes them.
type heldKey struct{ typeURL, name string }

func (d *delta) subscribe(s Subscription, node *corev3.Node) error {
	return d.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node:                      node,
		TypeUrl:                   s.TypeURL,
		ResourceNamesSubscribe:    s.plain(),
		ResourceLocatorsSubscribe: s.locators(),
	})
}

func (d *delta) receive() (*Response, error) {
	m, err := d.stream.Recv()
	if err != nil {
		return nil, err
	}
	r := &Response{
		TypeURL:      m.GetTypeUrl(),
		Version:      m.GetSystemVersionInfo(),
		Nonce:        m.GetNonce(),
		ControlPlane: m.GetControlPlane().GetIdentifier(),
		Removed:      m.GetRemovedResources(),
		Errors:       readErrors(m.GetResourceErrors()),
	}
	for _, name := range m.GetRemovedResourceNames() {
		if d.goes(m, name) {
			r.Removed = append(r.Removed, name.GetName())
		}
	}
	for _, res := range m.GetResources() {
		read := readResource(res)
		r.Set = append(r.Set, read)
		if read.Located {
			d.held[heldKey{r.TypeURL, read.Name}] = res
		}
	}
	// Send fails if the stream has ended; the next Recv returns why.
	_ = d.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeURL, ResponseNonce: r.Nonce})
	return r, nil
}

// goes reports whether the removal of a variant removes the name: not if we hold another variant,
// or the same response has one (DYN-10).
func (d *delta) goes(m *discoveryv3.DeltaDiscoveryResponse, removed *discoveryv3.ResourceName) bool {
	for _, res := range m.GetResources() {
		if res.GetResourceName().GetName() == removed.GetName() {
			return false
		}
	}
	key := heldKey{m.GetTypeUrl(), removed.GetName()}
	held := d.held[key]
	if held == nil {
		return true
	}
	if !proto.Equal(held.GetResourceName().GetDynamicParameterConstraints(), removed.GetDynamicParameterConstraints()) {
		return removed.GetDynamicParameterConstraints() == nil
	}
	delete(d.held, key)
	return true
}
