package client

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

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
