package downstream

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// waits are what a type waits for: reason+until, and the time counted from now; a reason alone has
// no end.
func (p *clientEnd) waits(typeURL string) (all []string) {
	p.tb.Helper()
	for _, w := range p.of(typeURL).Waits {
		text := w.Reason.String()
		if !w.Until.IsZero() {
			text += "+" + w.Until.Sub(p.now).String()
		}
		all = append(all, text)
	}
	return all
}

// applies has the lane that asked apply a response.
func (r *rig) applies(u *xds.Update) {
	r.tb.Helper()
	for _, l := range r.lanes {
		if _, ok := l.Apply(r.now, u); ok {
			return
		}
	}
	r.tb.Fatalf("%s was never asked for", u.TypeURL)
}

// restored is a rig after a restart, with what a client had been sent before.
func restored(t *testing.T) *rig {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds, "*")
	r.settled(cds, "a=1")
	p.gets("the set", "cds a=1")
	p.acks(cds)
	d := snapshot(r.table, r.now)
	again := newRig(t)
	again.now = r.now
	d.restore(t, again.table, again.now)
	return again
}

// hasClusters has a client of clusters and listeners accept what there is of both.
func hasClusters(p *clientEnd) *clientEnd {
	p.tb.Helper()
	p.subscribes(cds, "*")
	p.subscribes(lds, "*")
	p.says(cds, "a=1")
	p.settled(lds, "l=1")
	p.gets("the clusters", "cds a=1")
	p.acks(cds)
	p.gets("the listeners", "lds l=1")
	p.acks(lds)
	p.wait(time.Minute)
	return p
}

// TestWaits brings a client into each wait that a session or the table knows, in virtual time, and
// sees its reason and until when it lasts. What /explain tells of one name is the same.
func TestWaits(t *testing.T) {
	delta := func(r *rig) *clientEnd { return r.client(true) }
	for _, row := range []struct {
		want    string // what the type waits for, in order
		typeURL string
		play    func(t *testing.T) *clientEnd
	}{
		{"ack", cds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "*")
			p.settled(cds, "a=1")
			p.gets("the set", "cds a=1")
			return p
		}},
		{"ack+400ms", cds, func(t *testing.T) *clientEnd {
			p := hasClusters(newRig(t).client(true))
			p.says(cds, "a=2")
			p.gets("the next", "cds a=2")
			p.wait(100 * time.Millisecond)
			p.says(cds, "a=3")
			p.gets("nothing before the ACK")
			return p
		}},
		{"nack", cds, func(t *testing.T) *clientEnd {
			p := hasClusters(newRig(t).client(true))
			p.says(cds, "a=2")
			p.gets("the next", "cds a=2")
			p.refuses(cds, "no")
			return p
		}},
		{"clusters+400ms", lds, func(t *testing.T) *clientEnd {
			p := hasClusters(newRig(t).client(true))
			p.says(cds, "a=2")
			p.gets("the clusters", "cds a=2")
			p.says(lds, "l=2")
			p.gets("not the listeners")
			p.wait(100 * time.Millisecond)
			return p
		}},
		{"endpoints+500ms", lds, func(t *testing.T) *clientEnd {
			p := hasClusters(newRig(t).client(true))
			p.subscribes(eds, "a")
			p.says(eds, "a=1")
			p.gets("the endpoints", "eds a=1")
			p.acks(eds)
			p.subscribes(eds, "b")
			p.says(cds, "b=eds1")
			p.gets("the clusters", "cds b=eds1")
			p.acks(cds)
			p.says(lds, "l=2")
			p.gets("not the listeners")
			return p
		}},
		{"earlier_set+10s", lds, func(t *testing.T) *clientEnd {
			r := newRig(t)
			other := r.client(true)
			other.subscribes(lds, "*")
			r.settled(lds, "l=1")
			p := r.client(true)
			p.subscribes(cds, "*")
			p.subscribes(lds, "*")
			p.gets("not the listeners")
			return p
		}},
		{"order+500ms", lds, func(t *testing.T) *clientEnd {
			p := hasClusters(newRig(t).client(true))
			p.says(cds, "a=2")
			p.gets("the clusters", "cds a=2")
			p.says(cds, "a=3")
			p.says(lds, "l=2")
			p.gets("the clusters first")
			return p
		}},
		{"removal+500ms", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(false)
			p.asks(cds, "a", "b")
			p.asks(lds)
			p.says(cds, "a=1", "b=1")
			p.gets("the clusters", "cds a=1 b=1")
			p.asks(cds, "a", "b")
			p.settled(lds, "l=1")
			p.gets("the listeners", "lds l=1")
			p.asks(lds)
			p.says(cds, "-b")
			p.gets("not yet")
			return p
		}},
		{"endpoint_request+500ms", eds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(false)
			p.asks(cds, "a")
			p.asks(eds, "a")
			p.says(cds, "a=eds1")
			p.says(eds, "a=1")
			p.gets("both", "cds a=eds1", "eds a=1")
			p.asks(cds, "a")
			p.asks(eds, "a")
			p.says(cds, "a=eds2")
			p.gets("another form", "cds a=eds2")
			p.asks(cds, "a")
			p.gets("a request for its endpoints may come")
			return p
		}},
		{"coalesce+1s", cds, func(t *testing.T) *clientEnd {
			r := newRig(t)
			r.configure(func(c *Config, _ *ListenerConfig) { c.Timing.Coalesce = time.Second })
			p := hasClusters(r.client(true))
			p.says(cds, "a=2")
			p.gets("the first at once", "cds a=2")
			p.acks(cds)
			p.says(cds, "a=3")
			p.gets("the next is collected")
			return p
		}},
		{"permission", sds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(sds, "a")
			p.gets("the refusal", "sds !a:PermissionDenied")
			p.acks(sds)
			return p
		}},
		{"limit+5m0s", cds, func(t *testing.T) *clientEnd {
			r := newRigWith(t, relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", Authorities: []string{"served"}}}, MaxViews: 1})
			other := delta(r)
			other.subscribes(eds, "*")
			p := delta(r)
			p.subscribes(cds, "xdstp://served/envoy.config.cluster.v3.Cluster/a/*")
			p.gets("the refusal", "cds !xdstp://served/envoy.config.cluster.v3.Cluster/a/*:ResourceExhausted")
			p.acks(cds)
			return p
		}},
		{"names,origin+15s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(false)
			p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceNames: []string{"a", "b"}, VersionInfo: "held"})
			p.says(cds, "a=1")
			p.gets("the list waits")
			return p
		}},
		{"error+15s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(false)
			p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceNames: []string{"*"}, VersionInfo: "held"})
			p.says(cds, "a=1", "!b:INTERNAL")
			p.wait(5 * time.Second)
			p.gets("the list waits")
			p.now = p.now.Add(-5 * time.Second)
			return p
		}},
		{"bad_part+1m0s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(true)
			p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: map[string]string{"b": "x"}})
			u := p.response(cds, []string{"a=1"})
			u.Bad, u.Refused = true, []string{"b"}
			p.applies(&u)
			return p
		}},
		{"bad_part+10s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(false)
			p.asks(cds, "*")
			u := p.response(cds, nil)
			u.Bad, u.Refused = true, []string{"b"}
			p.applies(&u)
			return p
		}},
		{"confirm+2.5s", cds, func(t *testing.T) *clientEnd {
			p := restored(t).client(true)
			p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: map[string]string{"a": "x"}})
			return p
		}},
		{"host+1s", vhd, func(t *testing.T) *clientEnd {
			p := newRigWith(t, relay.Config{OnDemandWait: time.Second, Origins: []relay.OriginConfig{{Name: "mesh"}}}).client(true)
			p.subscribes(vhd, "r/h")
			return p
		}},
		{"lane_queue,cold_wait+10s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(true)
			p.subscribes(cds, "*")
			p.down()
			return p
		}},
		{"lane_queue", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(true)
			p.subscribes(cds, "*")
			p.down()
			p.queued(metrics.WaitQueue)
			return p
		}},
		{"backoff+3s,cold_wait+10s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(true)
			p.subscribes(cds, "*")
			p.down()
			p.lanes[0].Waiting(p.now, metrics.WaitBackoff, p.now.Add(3*time.Second), "")
			return p
		}},
		{"poll+30s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(true)
			p.subscribes(cds, "*")
			p.lanes[0].Waiting(p.now, metrics.WaitPoll, p.now.Add(30*time.Second), "")
			return p
		}},
		{"batch", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(true)
			p.subscribes(lds, "*")
			wire := encoded(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesSubscribe: []string{"*"}})
			if _, err := takeIn(t, p.session, p.now, wire); err != nil {
				t.Fatal(err)
			}
			return p
		}},
		{"quarantine+1m0s,cold_wait+10s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(true)
			p.subscribes(cds, "*")
			p.lanes[0].Refused(p.now)
			p.up() // a lane of the type alone
			for _, l := range p.lanes {
				if l.OnlyType() == cds {
					if !l.Refused(p.now).Quarantined {
						t.Fatal("the type is not in quarantine")
					}
					l.RetryAt(p.now.Add(time.Minute), "the origin's words")
				}
			}
			return p
		}},
		{"origin", cds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "*")
			return p
		}},
		{"origin+15s", cds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "a")
			return p
		}},
		{"settle+250ms", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(false)
			p.asks(cds)
			p.says(cds, "a=1")
			p.gets("not yet")
			return p
		}},
		{"gather+1s", lds, func(t *testing.T) *clientEnd {
			p := delta(newRigWith(t, relay.Config{Gather: time.Second, Origins: []relay.OriginConfig{{Name: "mesh"}}}))
			p.subscribes(lds, "*")
			p.settled(lds, "l=1")
			p.gets("the set", "lds l=1")
			p.acks(lds)
			p.says(lds, "l=2")
			p.gets("not yet")
			return p
		}},
		{"guard+10m0s", cds, func(t *testing.T) *clientEnd {
			p := delta(newRigOf(t, relay.OriginConfig{Name: "mesh", Guard: gate.GuardConfig{Min: 1, Share: 0.5, Hold: 10 * time.Minute}}))
			p.subscribes(cds, "*")
			p.settled(cds, "a=1", "b=1")
			p.gets("the set", "cds a=1 b=1")
			p.acks(cds)
			p.down()
			p.back()
			p.says(cds, "-a", "-b")
			p.gets("nothing")
			return p
		}},
		{"freeze", cds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "*")
			p.settled(cds, "a=1")
			p.gets("the set", "cds a=1")
			p.acks(cds)
			p.origin.Freeze(p.now)
			p.says(cds, "a=2")
			p.gets("nothing")
			return p
		}},
	} {
		t.Run(strings.ReplaceAll(row.want, "+", " "), func(t *testing.T) {
			p := row.play(t)
			if got := strings.Join(p.waits(row.typeURL), ","); got != row.want {
				t.Errorf("it waits for %s, want %s", got, row.want)
			}
		})
	}
}
