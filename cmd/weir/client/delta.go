package client

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// delta is a stream of differences.
type delta struct {
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func (d *delta) subscribe(s Subscription, node *corev3.Node) error {
	return d.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node:                   node,
		TypeUrl:                s.TypeURL,
		ResourceNamesSubscribe: s.Names,
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
	for _, res := range m.GetResources() {
		r.Set = append(r.Set, readResource(res))
	}
	for _, name := range m.GetRemovedResourceNames() {
		r.Removed = append(r.Removed, name.GetName())
	}
	// A stream that ended meanwhile refuses the ACK; the next Recv says why.
	_ = d.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeURL, ResponseNonce: r.Nonce})
	return r, nil
}
