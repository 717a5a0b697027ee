package page

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// client is one simulated client: a stream, on which it asks for everything of two types and for
// some endpoints, and answers all that comes.
type client struct {
	node      *core.Node
	sotw      bool
	endpoints []string
	// refuses is a resource that the client rejects, for the reason; empty: none.
	refuses, reason string
}

// answer is the error detail with which a client answers a response with the resources; nil: it
// accepts them.
func (c *client) answer(names []string) *status.Status {
	for _, name := range names {
		if name == c.refuses {
			return &status.Status{Code: int32(codes.InvalidArgument), Message: c.reason}
		}
	}
	return nil
}

// wants are the subscriptions by type, in the order in which they are made.
func (c *client) wants() []subscription {
	return []subscription{
		{relaytest.ClusterType, []string{"*"}}, {relaytest.ListenerType, []string{"*"}},
		{relaytest.EndpointType, c.endpoints},
	}
}

type subscription struct {
	typeURL string
	names   []string
}

// run keeps a stream open until ctx ends.
func (c *client) run(ctx context.Context, conn *grpc.ClientConn) {
	for ctx.Err() == nil {
		ads := discovery.NewAggregatedDiscoveryServiceClient(conn)
		if c.sotw {
			_ = c.runSotW(ctx, ads)
		} else {
			_ = c.runDelta(ctx, ads)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (c *client) runDelta(ctx context.Context, ads discovery.AggregatedDiscoveryServiceClient) error {
	stream, err := ads.DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	node := c.node
	for _, want := range c.wants() {
		r := &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: want.typeURL, ResourceNamesSubscribe: want.names}
		if err := stream.Send(r); err != nil {
			return err
		}
		node = nil
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		var names []string
		for _, r := range response.Resources {
			names = append(names, r.Name)
		}
		if err := stream.Send(&discovery.DeltaDiscoveryRequest{
			TypeUrl: response.TypeUrl, ResponseNonce: response.Nonce, ErrorDetail: c.answer(names),
		}); err != nil {
			return err
		}
	}
}

func (c *client) runSotW(ctx context.Context, ads discovery.AggregatedDiscoveryServiceClient) error {
	stream, err := ads.StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	node, asked := c.node, map[string][]string{}
	for _, want := range c.wants() {
		asked[want.typeURL] = want.names
		if err := stream.Send(&discovery.DiscoveryRequest{Node: node, TypeUrl: want.typeURL, ResourceNames: want.names}); err != nil {
			return err
		}
		node = nil
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := stream.Send(&discovery.DiscoveryRequest{
			TypeUrl: response.TypeUrl, ResourceNames: asked[response.TypeUrl],
			VersionInfo: response.VersionInfo, ResponseNonce: response.Nonce,
		}); err != nil {
			return err
		}
	}
}

// group is all clients of one node.cluster at one origin.
type group struct {
	origin  int
	cluster string
	clients []*client
}

// start opens a connection for each group, and a stream for each client. tb ends them.
func start(tb testing.TB, addrs []string, groups []group) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	tb.Cleanup(func() { cancel(); running.Wait() })
	for _, g := range groups {
		conn := weirtest.Connect(tb, addrs[g.origin])
		for _, c := range g.clients {
			running.Go(func() { c.run(ctx, conn) })
		}
	}
}

// fleet makes 2,000 clients in 20 groups of the origins, half of each dialect. Some refuse a
// listener, and those of the last group have hostile names.
func fleet() []group {
	var groups []group
	for n := range totalGroups {
		origin := n % len(originNames)
		g := group{origin: origin, cluster: fmt.Sprintf("%s-%s", originNames[origin], services[n])}
		if n == totalGroups-1 {
			g.cluster = hostileCluster
		}
		for i := range totalClients / totalGroups {
			id := fmt.Sprintf("%s-%03d", services[n], i)
			if n == totalGroups-1 && i < len(hostileIDs) {
				id = hostileIDs[i]
			}
			c := &client{
				node: &core.Node{Id: id, Cluster: g.cluster, UserAgentName: "envoy"}, sotw: i%2 == 1,
				endpoints: []string{clusterName(i), clusterName(i + 1)},
			}
			g.clients = append(g.clients, c)
		}
		groups = append(groups, g)
	}
	for i := range refusing {
		c := groups[refusingGroup].clients[2*i]
		c.refuses, c.reason = refusedListener, fmt.Sprintf(refusal, c.node.Id, 0x7f00+i)
	}
	last := groups[totalGroups-1]
	for i := 0; i < len(hostileIDs); i += 2 { // those that speak delta
		last.clients[i].refuses, last.clients[i].reason = hostileNames[0], hostileReason
	}
	return groups
}
