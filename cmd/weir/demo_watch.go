package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/client"
)

// watcher is one client of the demonstration.
type watcher struct {
	demo    *demo
	name    string
	dialect client.Dialect
	ask     []client.Subscription

	// Owned by watch.
	held map[[2]string][]byte // by type URL and name
}

// watch prints changes until ctx ends.
func (w *watcher) watch(ctx context.Context, address string) (err error) {
	w.held = make(map[[2]string][]byte)
	node := &corev3.Node{Id: strings.ReplaceAll(w.name, " ", "-"), Cluster: "demo", UserAgentName: "weir-demo"}
	c, err := client.Dial(client.Config{Address: address, Dialect: w.dialect, Node: node})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the only error is that it is closed
	for r, err := range c.Watch(ctx, w.ask...) {
		if err != nil {
			return err
		}
		w.demo.responses.Add(1)
		w.demo.received.Add(int64(len(r.Set)))
		w.tell(r)
	}
	return nil
}

// tell prints a line for each difference. SotW responses repeat what has not changed.
func (w *watcher) tell(r *client.Response) {
	for _, res := range r.Set {
		key := [2]string{r.TypeURL, res.Name}
		before, had := w.held[key]
		switch {
		case res.Body == nil || had && bytes.Equal(before, res.Body.GetValue()):
			continue
		case had:
			w.demo.say(w.name, "changed: %s", describe(res.Name, res.Body))
		default:
			w.demo.say(w.name, "new: %s", describe(res.Name, res.Body))
		}
		w.held[key] = res.Body.GetValue()
	}
	for _, name := range r.Removed {
		delete(w.held, [2]string{r.TypeURL, name})
		w.demo.say(w.name, "gone: %s", name)
	}
}

// describe returns the part of a resource that the demonstration changes.
func describe(name string, body *anypb.Any) string {
	m, err := body.UnmarshalNew()
	if err != nil {
		return name
	}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		return fmt.Sprintf("cluster %s, connect timeout %s", name, m.GetConnectTimeout().AsDuration())
	case *endpointv3.ClusterLoadAssignment:
		return fmt.Sprintf("endpoints of %s: %s", name, strings.Join(endpointAddresses(m), ", "))
	case *listenerv3.Listener:
		return fmt.Sprintf("listener %s on port %d", name, m.GetAddress().GetSocketAddress().GetPortValue())
	case *routev3.RouteConfiguration:
		return fmt.Sprintf("routes %s to %s", name, strings.Join(routeClusters(m), ", "))
	}
	return name
}

func endpointAddresses(a *endpointv3.ClusterLoadAssignment) (all []string) {
	for _, locality := range a.GetEndpoints() {
		for _, e := range locality.GetLbEndpoints() {
			s := e.GetEndpoint().GetAddress().GetSocketAddress()
			all = append(all, fmt.Sprintf("%s:%d", s.GetAddress(), s.GetPortValue()))
		}
	}
	return all
}

func routeClusters(c *routev3.RouteConfiguration) (all []string) {
	for _, host := range c.GetVirtualHosts() {
		for _, r := range host.GetRoutes() {
			all = append(all, fmt.Sprintf("%s (%s)", r.GetRoute().GetCluster(), r.GetMatch().GetPrefix()))
		}
	}
	return all
}
