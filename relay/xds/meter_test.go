package xds

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// bombs have messages that are small on the wire and large when they are decoded.
var bombs = []struct {
	name    string
	message proto.Message
	encoded []byte
}{
	{"locators", &discoveryv3.DeltaDiscoveryRequest{}, relaytest.Repeated(8, nil, 20_000)},
	{"names", &discoveryv3.DeltaDiscoveryRequest{}, relaytest.Repeated(3, nil, 20_000)},
	{"versions", &discoveryv3.DeltaDiscoveryRequest{}, versions(20_000)},
	{"extensions of the node", &discoveryv3.DiscoveryRequest{}, relaytest.Field(2, relaytest.Repeated(9, nil, 20_000))},
	{"features of the node", &discoveryv3.DiscoveryRequest{}, relaytest.Field(2, relaytest.Repeated(10, nil, 20_000))},
	{"metadata of the node", &discoveryv3.DiscoveryRequest{}, relaytest.Field(2, relaytest.Field(3, metadata(20_000)))},
	{"zeros in the metadata", &discoveryv3.DiscoveryRequest{}, relaytest.Field(2, relaytest.Field(3, zeros(20_000)))},
	{"details", &discoveryv3.DiscoveryRequest{}, relaytest.Field(6, relaytest.Repeated(3, nil, 20_000))},
	{"loads", &loadstatsv3.LoadStatsRequest{}, relaytest.Repeated(2, nil, 20_000)},
	{"endpoints' loads", &loadstatsv3.LoadStatsRequest{}, relaytest.Field(2, relaytest.Repeated(2, relaytest.Repeated(7, nil, 10), 2_000))},
	{"packed numbers", &corev3.HealthStatusSet{}, relaytest.Field(1, make([]byte, 20_000))},
	{"unknown fields", &discoveryv3.DiscoveryRequest{}, relaytest.Repeated(99, []byte("abc"), 20_000)},
	{"unknown groups", &discoveryv3.DiscoveryRequest{}, groups(20_000)},
	{"one long string", &discoveryv3.DiscoveryRequest{}, relaytest.Field(1, make([]byte, 1<<20))},
	{"one node many times", &discoveryv3.DiscoveryRequest{}, relaytest.Repeated(2, relaytest.Field(4, relaytest.Field(1, []byte("r"))), 20_000)},
}

func versions(n int) (b []byte) {
	for i := range n {
		b = append(b, relaytest.Field(5, append(relaytest.Field(1, fmt.Append(nil, i)), relaytest.Field(2, []byte("v"))...))...)
	}
	return b
}

func metadata(n int) (b []byte) {
	for i := range n {
		b = append(b, relaytest.Field(1, append(relaytest.Field(1, fmt.Append(nil, i)), relaytest.Field(2, nil)...))...)
	}
	return b
}

func zeros(n int) []byte {
	list := make([]any, n)
	for i := range list {
		list[i] = 0.0
	}
	s, _ := structpb.NewStruct(map[string]any{"a": list})
	b, _ := proto.Marshal(s)
	return b
}

func groups(n int) (b []byte) {
	for range n {
		b = protowire.AppendTag(b, 99, protowire.StartGroupType)
		b = protowire.AppendTag(b, 99, protowire.EndGroupType)
	}
	return b
}

// allocated is how many bytes a function allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// A list that grows is copied, and most of what is allocated for it is garbage. So the estimate may
// be less than what is allocated. It must not be far above, or honest messages would be refused.
func TestMeterEstimates(t *testing.T) {
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			m := b.message.ProtoReflect().New()
			_ = proto.Unmarshal(b.encoded, m.Interface()) // it makes what it knows of the type
			m = b.message.ProtoReflect().New()
			used := allocated(func() { _ = proto.Unmarshal(b.encoded, m.Interface()) })
			memory, err := Known.Message(m.Type(), b.encoded, Bound{})
			if err != nil {
				t.Fatal(err)
			}
			full, err := Known.Message(m.Type(), b.encoded, Bound{Memory: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes on the wire, %d allocated, estimated %d", len(b.encoded), used, full)
			if full < used/3 {
				t.Errorf("estimated %d of %d bytes", full, used)
			}
			if full > 4*used+1024 && b.name != "one node many times" {
				t.Errorf("estimated %d, and %d are allocated", full, used)
			}
			if memory > full {
				t.Errorf("%d without a bound, %d with one", memory, full)
			}
		})
	}
}

// What is too much is found before it is walked through, and costs nothing.
func TestMeterBounds(t *testing.T) {
	locators := relaytest.Repeated(8, nil, 1_000_000)
	kind := (&discoveryv3.DeltaDiscoveryRequest{}).ProtoReflect().Type()
	_, _ = Known.Message(kind, nil, Bound{})
	var err error
	used := testing.AllocsPerRun(1, func() { _, err = Known.Message(kind, locators, Bound{Memory: 1 << 20}) })
	if err == nil || err.Error() != "decoded it needs more than 1048576 bytes of memory" {
		t.Errorf("got %v", err)
	}
	if used > 5 {
		t.Errorf("%v allocations for a verdict", used)
	}
}

func TestMeterDepth(t *testing.T) {
	permission := (&rbacv3.Permission{}).ProtoReflect()
	_, err := Known.Message(permission.Type(), relaytest.Nested(8, 5_000_000), Bound{Follow: true})
	if err == nil || err.Error() != "messages are nested more than 100 deep" {
		t.Errorf("5 million levels: %v", err)
	}
	for _, c := range []struct {
		levels int
		ok     bool
	}{{MaxDepth - 1, true}, {MaxDepth, false}} {
		if _, err := Known.Message(permission.Type(), relaytest.Nested(8, c.levels), Bound{}); (err == nil) != c.ok {
			t.Errorf("%d levels below the first: %v", c.levels, err)
		}
	}
	for _, c := range []struct {
		levels int
		ok     bool
	}{{MaxAnys, true}, {MaxAnys + 1, false}, {10_000, false}} {
		a := relaytest.AnyInAny(c.levels)
		_, err := Known.Any([]byte(a.TypeUrl), a.Value, Bound{Follow: true})
		if (err == nil) != c.ok {
			t.Errorf("%d: %v", c.levels, err)
		}
		if _, err := Known.Any([]byte(a.TypeUrl), a.Value, Bound{}); err != nil {
			t.Errorf("%d, not followed: %v", c.levels, err)
		}
	}
}

// FuzzMeter: what the Meter accepts decodes within the library's own limit of depth, and within
// the memory estimated; and bounds change no verdict but the bound's own.
func FuzzMeter(f *testing.F) {
	for _, b := range bombs {
		if len(b.encoded) < 1<<12 {
			f.Add(b.encoded)
		}
	}
	f.Add(relaytest.Field(2, relaytest.Field(3, zeros(3))))
	f.Add(relaytest.Field(6, relaytest.Field(3, append(relaytest.Field(1, []byte("x/google.protobuf.Any")), relaytest.Field(2, relaytest.Nested(2, 40))...))))
	f.Add(relaytest.Field(2, relaytest.Field(3, relaytest.Field(1, relaytest.Field(2, relaytest.Nested(6, 60))))))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &discoveryv3.DiscoveryRequest{}
		kind := m.ProtoReflect().Type()
		memory, err := Known.Message(kind, b, Bound{Memory: 1 << 30})
		bad := proto.UnmarshalOptions{RecursionLimit: MaxDepth + 1}.Unmarshal(b, m)
		if err == nil && bad != nil && strings.Contains(bad.Error(), "recursion") {
			t.Errorf("accepted, and %v", bad)
		}
		if err != nil {
			return
		}
		if _, err := Known.Message(kind, b, Bound{}); err != nil {
			t.Errorf("without a bound of memory: %v", err)
		}
		if memory > 0 {
			if _, err := Known.Message(kind, b, Bound{Memory: memory}); err != nil {
				t.Errorf("estimated %d: %v", memory, err)
			}
		}
		if followed, err := Known.Message(kind, b, Bound{Follow: true, Memory: 1 << 30}); err == nil && followed < memory {
			t.Errorf("%d with what is in Anys, %d without", followed, memory)
		}
	})
}

// exampleCluster is a cluster as control planes make them.
func exampleCluster() []byte {
	timeout := durationpb.New(time.Second)
	socket, _ := anypb.New(&corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/socket"}}})
	where := &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"istio": {Fields: map[string]*structpb.Value{"config": structpb.NewStringValue("/apis/networking/v1/rule/a")}},
	}}
	b, _ := proto.Marshal(&clusterv3.Cluster{
		Name: "outbound|80||a.example.svc.cluster.local", ConnectTimeout: timeout, Metadata: where,
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "outbound|80||a.example.svc.cluster.local"},
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
			{MaxConnections: wrapperspb.UInt32(1000), MaxRequests: wrapperspb.UInt32(1000)},
		}},
		HealthChecks: []*corev3.HealthCheck{{Timeout: timeout, Interval: timeout, HealthChecker: &corev3.HealthCheck_HttpHealthCheck_{
			HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{Path: "/healthz"},
		}}},
		TransportSocket: &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: socket}},
		LoadAssignment:  &endpointv3.ClusterLoadAssignment{ClusterName: "a"},
	})
	return b
}

func BenchmarkMeter(b *testing.B) {
	c := &clusterv3.Cluster{}
	body := exampleCluster()
	b.Run("depth", func(b *testing.B) {
		for b.Loop() {
			if _, err := Known.Message(c.ProtoReflect().Type(), body, Bound{Follow: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			if _, err := Known.Message(c.ProtoReflect().Type(), body, Bound{Memory: 1 << 30}); err != nil {
				b.Fatal(err)
			}
		}
	})
	locators := relaytest.Repeated(8, nil, 100_000)
	b.Run("locators", func(b *testing.B) {
		b.SetBytes(int64(len(locators)))
		for b.Loop() {
			_, _ = Known.Message((&discoveryv3.DeltaDiscoveryRequest{}).ProtoReflect().Type(), locators, Bound{Memory: 1 << 30})
		}
	})
}
