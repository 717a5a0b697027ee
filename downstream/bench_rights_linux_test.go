package downstream

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sys/unix"
)

// What rules cost is a difference of what is done with and without them. Both are done in turn in
// one run, and measured in CPU time of the process, which other work on the machine disturbs least.

// cpu is the CPU time of the process.
func cpu(tb testing.TB) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkRulesAdmission is a delta client's first request, `*` of a type, and its request for a
// name of another type after that, from the bytes to the session being subscribed. Each client has
// an identity of its own, but for "shared". A client of each role is there before.
func BenchmarkRulesAdmission(b *testing.B) {
	const batch = 500
	for _, kind := range []string{"roles", "shared", "wide", "patterns", "all"} {
		b.Run(kind, func(b *testing.B) {
			plain, ruled := newRig(b), newRig(b)
			ruled.configure(func(c *Config, _ *ListenerConfig) { c.Rules = benchRules(b, kind) })
			next := 0
			var first, second [2]time.Duration
			enter := func(r *rig, at, n int) (sessions []*session) {
				type wires struct{ first, second []byte }
				all := make([]wires, n)
				for i := range all {
					id := next + i
					all[i] = wires{
						encoded(b, &discoveryv3.DeltaDiscoveryRequest{
							TypeUrl: cds, ResourceNamesSubscribe: []string{"*"},
							Node: &corev3.Node{Id: fmt.Sprint("envoy-", id), Cluster: fmt.Sprintf("team-%d", id%roles%10), UserAgentName: "envoy"},
						}),
						encoded(b, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResourceNamesSubscribe: []string{"shared-1/x"}}),
					}
					s := newSession(r.set, true, r.now, relay.NewSubscriber())
					s.from.identity = roleIdentity(kind, id)
					sessions = append(sessions, s)
				}
				take := func(wire func(*wires) []byte) time.Duration {
					begin := cpu(b)
					for i, s := range sessions {
						if _, err := takeIn(b, s, r.now, wire(&all[i])); err != nil {
							b.Fatal(err)
						}
					}
					return cpu(b) - begin
				}
				first[at] += take(func(w *wires) []byte { return w.first })
				second[at] += take(func(w *wires) []byte { return w.second })
				return sessions
			}
			enter(plain, 0, roles)
			stay := enter(ruled, 1, roles)
			first, second = [2]time.Duration{}, [2]time.Duration{}
			n := 0
			for b.Loop() {
				// what comes second may find more in the CPU's caches
				for _, at := range [][2]int{{0, 1}, {1, 0}}[n/batch%2] {
					r := []*rig{plain, ruled}[at]
					for _, s := range enter(r, at, batch) {
						s.close(r.now)
					}
				}
				n, next = n+batch, next+batch
			}
			for _, s := range stay {
				if p := s.permit(ruled.origin, cds, s.params(ruled.origin, cds)); (p == nil) != (kind == "all") || !p.Allows("shared-1/x") && kind != "wide" {
					b.Fatal("other rules are measured")
				}
			}
			each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(n) }
			b.ReportMetric(each(first[0]), "plain-first-ns")
			b.ReportMetric(each(first[1]), "rules-first-ns")
			b.ReportMetric(each(first[1]-first[0]), "added-first-ns")
			b.ReportMetric(each(second[0]), "plain-second-ns")
			b.ReportMetric(each(second[1]), "rules-second-ns")
			b.ReportMetric(each(second[1]-second[0]), "added-second-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkRulesDelivery is one change of one of 1,000 clusters that 10,000 delta clients of `*` are
// sent, from the origin's response to the buffers that grpc is handed, without the wire and the
// ACKs. roles: each of 50 roles has half of the clusters and ten of its own. all: rules allow each
// everything. globs: they do so by a pattern.
func BenchmarkRulesDelivery(b *testing.B) {
	for _, kind := range []string{"roles", "globs", "all"} {
		b.Run(kind, func(b *testing.B) {
			fleets := [2]*fleet{newRoleFleet(b, nil), newRoleFleet(b, benchRules(b, kind))}
			var took [2]time.Duration
			n := 0
			for b.Loop() {
				for _, at := range [][2]int{{0, 1}, {1, 0}}[n%2] {
					f := fleets[at]
					batches := make([][]*response, len(f.ends))
					begin := cpu(b)
					f.changeShared(n + 3)
					for i, p := range f.ends {
						batches[i] = p.session.take(f.now)
						for _, x := range batches[i] {
							if _, err := (codec{}).Marshal(x); err != nil {
								b.Fatal(err)
							}
						}
					}
					took[at] += cpu(b) - begin
					for i, p := range f.ends {
						if len(batches[i]) != 1 || batches[i][0].size < len(fleetBody(0)) {
							b.Fatalf("delivery %d is %d responses", i, len(batches[i]))
						}
						f.acknowledge(p, batches[i])
					}
				}
				n++
			}
			each := func(d time.Duration) float64 {
				return float64(d.Nanoseconds()) / float64(n) / float64(len(fleets[0].ends))
			}
			b.ReportMetric(each(took[0]), "plain-ns")
			b.ReportMetric(each(took[1]), "rules-ns")
			b.ReportMetric(each(took[1]-took[0]), "added-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// newRoleFleet is 10,000 clients of 50 roles, with rules or without, that all have what they may.
func newRoleFleet(b *testing.B, rules *authz.Rules) *fleet {
	f := &fleet{kind: "delta", typeURL: cds, delta: true}
	f.rig = newRig(b)
	f.configure(func(c *Config, _ *ListenerConfig) { c.Rules = rules })
	f.ends = make([]*clientEnd, 10_000)
	for i := range f.ends {
		p := f.client(true)
		p.session.from.identity, p.node.Cluster = roleIdentity("roles", i), fmt.Sprintf("team-%d", i%roles%10)
		f.ask(p, cds)
		f.ends[i] = p
	}
	// Clients of a view are woken one after the other. Without rules they are, too, so that both find
	// the same in the CPU's caches.
	ends, each := make([]*clientEnd, len(f.ends)), len(f.ends)/roles
	for i := range ends {
		ends[i] = f.ends[i%each*roles+i/each]
	}
	f.ends = ends
	all := make([]string, 1000)
	for i := range all {
		all[i] = fmt.Sprintf("shared-%d/n%d=%s", i%2, i, fleetBody(0))
		if i%2 == 1 {
			all[i] = fmt.Sprintf("role-%d/n%d=%s", i%roles, i, fleetBody(0))
		}
	}
	f.settled(cds, all...)
	f.deliver()
	for i := range 2 {
		f.changeShared(i + 1)
		f.deliver()
	}
	return f
}

func (f *fleet) changeShared(version int) {
	f.now = f.now.Add(time.Second)
	f.says(cds, "shared-0/n0="+fleetBody(version))
}
