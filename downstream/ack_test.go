package downstream

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// BenchmarkACK is an ACK of each of 1,000 clients, from the bytes on the wire to where the client
// counts as in sync. In SotW it has the whole list again.
func BenchmarkACK(b *testing.B) {
	for _, k := range ackKinds {
		b.Run(k.name, func(b *testing.B) {
			a := newAcks(b, k, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; {
				b.StopTimer()
				a.change()
				wires := a.answers()
				b.StartTimer()
				for i := range a.ends[:min(len(a.ends), b.N-done)] {
					takesIn(b, a.ends[i].session, a.ins[i], a.now, wires[i])
					done++
				}
			}
		})
	}
}

// ackKind is a way in which clients ACK.
type ackKind struct {
	name    string
	delta   bool
	typeURL string
	names   int  // 0: `*`
	node    bool // in every request
}

var ackKinds = []ackKind{
	{name: "delta", delta: true, typeURL: cds},
	{name: "delta by name", delta: true, typeURL: eds, names: 50},
	{name: "delta with node", delta: true, typeURL: cds, node: true},
	{name: "SotW", typeURL: cds},
	{name: "SotW by name", typeURL: eds, names: 50},
	{name: "SotW by name with node", typeURL: eds, names: 50, node: true},
}

// acks are clients that are told of change after change.
type acks struct {
	*rig
	tb testing.TB
	ackKind
	ends  []*clientEnd
	ins   []*request
	named []string
	node  *corev3.Node
	n     int
}

func newAcks(tb testing.TB, k ackKind, clients int) *acks {
	m := metrics.New(prometheus.NewRegistry())
	a := &acks{rig: newRigWith(tb, relay.Config{Metrics: m, Origins: []relay.OriginConfig{{Name: "mesh"}}}), tb: tb, ackKind: k}
	a.configure(func(cfg *Config, _ *ListenerConfig) { cfg.Metrics = m })
	a.node = a.client(true).node
	var all []string
	for i := range max(k.names, 1) {
		all = append(all, fmt.Sprintf("n%d=0", i))
		if k.names > 0 {
			a.named = append(a.named, fmt.Sprintf("n%d", i))
		}
	}
	for range clients {
		p := a.client(k.delta)
		a.ends, a.ins = append(a.ends, p), append(a.ins, p.session.newRequest())
		if k.delta {
			p.subscribes(k.typeURL, a.named...)
		} else {
			p.asks(k.typeURL, a.named...)
		}
	}
	a.settled(k.typeURL, all...)
	return a
}

func (a *acks) change() {
	a.n++
	a.rig.now = a.rig.now.Add(time.Second)
	a.says(a.typeURL, fmt.Sprintf("n0=%d", a.n))
}

// answers has every client told of the change, and gives what each will say to it.
func (a *acks) answers() (wires []mem.BufferSlice) {
	for _, p := range a.ends {
		batch := p.session.take(a.rig.now)
		if len(batch) != 1 {
			a.tb.Fatalf("%d responses, want one", len(batch))
		}
		d := decode(a.tb, batch[0], a.delta)
		p.session.wrote(a.rig.now, batch)
		var m proto.Message
		if req := (&discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.typeURL, ResponseNonce: d.nonce}); a.delta {
			if m = req; a.ackKind.node {
				req.Node = a.node
			}
		} else {
			req := &discoveryv3.DiscoveryRequest{TypeUrl: a.typeURL, ResponseNonce: d.nonce, VersionInfo: d.version, ResourceNames: a.named}
			if m = req; a.ackKind.node {
				req.Node = a.node
			}
		}
		wires = append(wires, arrived(a.tb, m))
	}
	return wires
}

// TestACKAllocatesNothing of ours: the usual request of all.
func TestACKAllocatesNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties pools
	for _, k := range ackKinds {
		a := newAcks(t, k, 1)
		const rounds = 100
		var total uint64
		for range rounds {
			a.change()
			wire := a.answers()[0]
			before := mallocs()
			takesIn(t, a.ends[0].session, a.ins[0], a.rig.now, wire)
			total += mallocs() - before
			if st := a.ends[0].session.types[0]; !st.unsyncedSince.IsZero() || len(st.unanswered) > 0 {
				t.Fatalf("%s: it is not taken for an ACK", k.name)
			}
		}
		most := uint64(0)
		if raced {
			most = 1
		}
		if each := total / rounds; each > most {
			t.Errorf("%s: an ACK makes %d objects", k.name, each)
		}
	}
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
