package conformance

import (
	"net"
	"slices"
	"sync/atomic"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// fedCases are about several origins behind one listener, and behind several.
var fedCases = slices.Concat(fedRouteCases, fedUnionCases)

// federation is three origins by authority, of which the world's own is the default, and what
// stands before them.
type federation struct {
	*world
	east, west *relaytest.Origin
}

// federate starts all of it. The default origin has the authority plane, east its name, west its
// name and the empty one; it speaks state of the world. before is what happens before weir starts.
func federate(t *testing.T, s setup, before ...func(*federation)) *federation {
	t.Helper()
	f := &federation{east: servingOrigin(t), west: servingOrigin(t)}
	for _, do := range before {
		do(f)
	}
	configure, first := s.config, true
	s.config = func(c weirtest.Config) {
		if first {
			c.Origin()["authorities"] = []any{"plane"}
			c["origins"] = append(c["origins"].([]any),
				originOf("east", f.east, relaytest.Delta, "east"), originOf("west", f.west, relaytest.SotW, "west", ""))
		} else {
			c.Origin()["authorities"] = []any{"plane", "east", "west", ""}
		}
		first = false
		if configure != nil {
			configure(c)
		}
	}
	f.world = start(t, s)
	return f
}

func servingOrigin(t *testing.T) *relaytest.Origin {
	t.Helper()
	return relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: weirtest.Patience})
}

// originOf is an entry of the configuration.
func originOf(name string, o *relaytest.Origin, d relaytest.Dialect, authorities ...any) map[string]any {
	return map[string]any{
		"name": name, "group_by": []any{}, "authorities": authorities,
		"grpc": map[string]any{"addresses": []any{o.Net().Addr()}, "dialect": string(d)},
	}
}

// urn is an xdstp name.
func urn(authority, typeURL, id string) string {
	return "xdstp://" + authority + "/" + typeURL[len("type.googleapis.com/"):] + "/" + id
}

// asks are the names an origin was ever asked for, sorted.
func asks(o *relaytest.Origin, typeURL string) (names []string) {
	for name := range o.Asked(typeURL).Subscribed {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// refusedWith waits until a name is in error, and wants that code.
func refusedWith(t *testing.T, c *relaytest.Client, typeURL, name string, code codes.Code) {
	t.Helper()
	var got codes.Code
	c.Await(0, func(s *relaytest.State) bool {
		got = codes.Code(s.Error(typeURL, name).GetCode())
		return got != codes.OK
	}, name+" is in error")
	if got != code {
		t.Errorf("%s is refused with %v, want %v", name, got, code)
	}
}

var fedRouteCases = []testCase{
	{"FED-1", "names go to the origin that has their authority, old-style ones and the wildcard to the default", perDialect(
		func(t *testing.T, d relaytest.Dialect) {
			f := federate(t, setup{})
			for authority, o := range map[string]*relaytest.Origin{"plane": f.origin, "east": f.east, "west": f.west, "": f.west} {
				setOpaque(o, "1", urn(authority, opaque, "x"))
			}
			setOpaque(f.origin, "1", "old", "xdstp-like")
			names := []string{
				"old", "xdstp-like", urn("", opaque, "x"), urn("east", opaque, "x"), urn("plane", opaque, "x"), urn("west", opaque, "x"),
			}
			c := f.client(d)
			c.Subscribe(opaque, names...)
			c.AwaitNames(opaque, "each name is answered by its origin", names...)
			for who, want := range map[*relaytest.Origin][]string{
				f.origin: {"old", "xdstp-like", urn("plane", opaque, "x")}, f.east: {urn("east", opaque, "x")},
				f.west: {urn("", opaque, "x"), urn("west", opaque, "x")},
			} {
				if got := asks(who, opaque); !slices.Equal(got, want) {
					t.Errorf("an origin was asked for %q, want %q", got, want)
				}
			}
			all := f.client(d)
			all.Subscribe(opaque)
			all.AwaitNames(opaque, "the wildcard is the default's", "old", urn("plane", opaque, "x"), "xdstp-like")
			if slices.Contains(asks(f.east, opaque), "*") || slices.Contains(asks(f.west, opaque), "*") {
				t.Error("another origin than the default was asked for the wildcard")
			}
			c.CheckClean()
			all.CheckClean()
		})},
	{"FED-2", "a name of an authority that no origin has is refused, asked of nobody, and not removed", perDialect(
		func(t *testing.T, d relaytest.Dialect) {
			f := federate(t, setup{})
			setOpaque(f.origin, "1", "old")
			lost := urn("north", opaque, "x")
			c := f.client(d)
			if d == relaytest.Delta {
				c.SubscribeWith(opaque, map[string]string{lost: "1"}, "*", lost)
			} else {
				c.Request(opaque, "old", lost)
			}
			refusedWith(t, c, opaque, lost, codes.FailedPrecondition)
			c.AwaitNames(opaque, "the rest is served", "old")
			c.Look(func(s *relaytest.State) {
				if s.Absent(opaque, lost) {
					t.Error("the name is said to be absent")
				}
			})
			for _, o := range []*relaytest.Origin{f.origin, f.east, f.west} {
				if slices.Contains(asks(o, opaque), lost) {
					t.Error("an origin was asked for it")
				}
			}
			c.CheckClean()
		})},
	{"FED-3", "addresses in what is relayed are never dialled", perDialect(func(t *testing.T, d relaytest.Dialect) {
		address, dialled := trap(t)
		f := federate(t, setup{})
		f.origin.Set(opaque, "bait", "1", relaytest.Opaque("bait", "xdstp://trap/example.test.v1.Opaque/x "+address))
		f.origin.Set(cds, "bait", "1", bait(address))
		c := f.client(d)
		c.Subscribe(cds)
		c.AwaitNames(cds, "a cluster that points to another control plane arrives", "bait")
		c.Subscribe(opaque, "bait", urn("trap", opaque, "x"))
		c.AwaitNames(opaque, "and text that could be one", "bait")
		refusedWith(t, c, opaque, urn("trap", opaque, "x"), codes.FailedPrecondition)
		c.WantIdle(quiet)
		if n := dialled.Load(); n > 0 {
			t.Errorf("the address was dialled %d times", n)
		}
		c.CheckClean()
	})},
	{"FED-4", "one name on two listeners with different origins stays apart", perDialect(func(t *testing.T, d relaytest.Dialect) {
		one, other := servingOrigin(t), servingOrigin(t)
		setOpaque(one, "1", "x", "same")
		setOpaque(other, "2", "x")
		setOpaque(other, "1", "same")
		addrs := []string{one.Net().Addr(), other.Net().Addr()}
		for range hops(t) {
			c := weirtest.NewConfig(addrs[0], relaytest.Delta)
			second := weirtest.NewConfig(addrs[1], relaytest.Delta).Origin()
			second["name"] = "other"
			c["origins"] = append(c["origins"].([]any), map[string]any(second))
			c["listeners"] = []any{map[string]any{}, map[string]any{"origin": "other"}}
			addrs = weirtest.Start(t, c).Addrs
		}
		for _, names := range [][]string{{"x", "same"}, {"*"}} {
			a := newClient(t, weirtest.Connect(t, addrs[0]), relaytest.ClientConfig{Dialect: d})
			a.Open(relaytest.Node("client-1", "edge"))
			b := newClient(t, weirtest.Connect(t, addrs[1]), relaytest.ClientConfig{Dialect: d})
			b.Open(relaytest.Node("client-1", "edge"))
			a.Subscribe(opaque, names...)
			b.Subscribe(opaque, names...)
			a.AwaitNames(opaque, "both arrive", "same", "x")
			b.AwaitNames(opaque, "and at the other listener", "same", "x")
			if a.Body(opaque, "x") == b.Body(opaque, "x") {
				t.Error("both have the body of one origin")
			}
			if d == relaytest.Delta && (a.Held(opaque)["x"] == b.Held(opaque)["x"] || a.Held(opaque)["same"] != b.Held(opaque)["same"]) {
				t.Error("versions are not those of the content")
			}
			setOpaque(one, "3"+names[0], "x")
			a.Await(0, func(s *relaytest.State) bool {
				return s.Body(opaque, "x") == string(relaytest.Opaque("x", "3"+names[0]).Value)
			}, "a change arrives")
			b.Skip()
			b.WantIdle(quiet)
			other.Remove(opaque, "same")
			if d == relaytest.Delta {
				b.AwaitNames(opaque, "a removal arrives", "x")
			}
			a.Skip()
			a.WantIdle(quiet)
			a.AwaitNames(opaque, "and takes nothing from the other", "same", "x")
			setOpaque(one, "1", "x")
			setOpaque(other, "1", "same")
			a.CheckClean()
			b.CheckClean()
		}
	})},
}

// trap listens, and counts who comes.
func trap(t *testing.T) (address string, dialled *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialled = &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String(), dialled
}

// bait is a cluster whose endpoints are to be had from a control plane at the address.
func bait(address string) proto.Message {
	service := &core.GrpcService{TargetSpecifier: &core.GrpcService_GoogleGrpc_{
		GoogleGrpc: &core.GrpcService_GoogleGrpc{TargetUri: address, StatPrefix: "trap"},
	}}
	source := &core.ApiConfigSource{ApiType: core.ApiConfigSource_AGGREGATED_GRPC, GrpcServices: []*core.GrpcService{service}}
	return relaytest.Body(&cluster.Cluster{
		Name: "bait", ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig: &cluster.Cluster_EdsClusterConfig{
			ServiceName: urn("trap", eds, "x"),
			EdsConfig:   &core.ConfigSource{ConfigSourceSpecifier: &core.ConfigSource_ApiConfigSource{ApiConfigSource: source}},
		},
	})
}

// returning is the first request of a client that holds what another stream was sent.
func returning(c, held *relaytest.Client, d relaytest.Dialect, typeURL string, names ...string) {
	if d == relaytest.Delta {
		c.SubscribeWith(typeURL, held.Held(typeURL), names...)
		return
	}
	version := ""
	held.Look(func(s *relaytest.State) { version = s.Version(typeURL) })
	c.Send(&discovery.DiscoveryRequest{TypeUrl: typeURL, VersionInfo: version, ResourceNames: names})
}
