package client

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

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
