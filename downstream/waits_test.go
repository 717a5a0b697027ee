package downstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
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
		{"ack+4s", cds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "*")
			p.settled(cds, "a=1")
			p.gets("the set", "cds a=1")
			p.wait(time.Second)
			p.says(cds, "a=2")
			p.gets("nothing before the ACK")
			return p
		}},
		{"nack", cds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "*")
			p.settled(cds, "a=1")
			p.gets("the set", "cds a=1")
			p.refuses(cds, "no")
			return p
		}},
		{"clusters+5s", lds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "*")
			p.settled(cds, "a=1")
			p.gets("the clusters", "cds a=1")
			p.subscribes(lds, "*")
			p.settled(lds, "l=1")
			p.gets("not the listeners")
			return p
		}},
		{"endpoints+5s", lds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "*")
			p.subscribes(eds, "a")
			p.settled(cds, "a=eds1")
			p.gets("the clusters", "cds a=eds1")
			p.acks(cds)
			p.subscribes(lds, "*")
			p.says(lds, "l=1")
			p.wait(time.Second)
			p.gets("not the listeners")
			return p
		}},
		{"earlier_set+10s", lds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(lds, "*")
			p.settled(lds, "l=1")
			p.subscribes(cds, "*")
			p.gets("not the listeners")
			return p
		}},
		{"order+5s", lds, func(t *testing.T) *clientEnd {
			p := delta(newRig(t))
			p.subscribes(cds, "*")
			p.subscribes(lds, "*")
			p.settled(cds, "a=1")
			p.settled(lds, "l=1")
			p.gets("both", "cds a=1")
			p.acks(cds)
			p.gets("both", "lds l=1")
			p.acks(lds)
			p.says(cds, "a=2")
			p.gets("the clusters", "cds a=2")
			p.says(cds, "a=3")
			p.says(lds, "l=2")
			p.wait(time.Second)
			p.gets("the clusters first")
			return p
		}},
		{"removal+5s", cds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(false)
			p.asks(cds, "a", "b")
			p.asks(lds)
			p.settled(cds, "a=1", "b=1")
			p.settled(lds, "l=1")
			p.gets("the clusters", "cds a=1 b=1")
			p.asks(cds, "a", "b")
			p.gets("the listeners", "lds l=1")
			p.asks(lds)
			p.wait(time.Minute)
			p.says(cds, "-b")
			p.gets("not yet")
			return p
		}},
		{"endpoint_request+5s", eds, func(t *testing.T) *clientEnd {
			p := newRig(t).client(false)
			p.asks(cds)
			p.asks(eds, "a")
			p.settled(cds, "a=eds1")
			p.says(eds, "a=1")
			p.gets("both", "cds a=eds1", "eds a=1")
			p.asks(cds)
			p.asks(eds, "a")
			p.says(cds, "a=eds2")
			p.gets("another form", "cds a=eds2")
			p.asks(cds)
			return p
		}},
		{"coalesce+1s", cds, func(t *testing.T) *clientEnd {
			r := newRig(t)
			r.configure(func(c *Config, _ *ListenerConfig) { c.Timing.Coalesce = time.Second })
			p := delta(r)
			p.subscribes(cds, "*")
			p.settled(cds, "a=1")
			p.gets("the set", "cds a=1")
			p.acks(cds)
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
			p.asks(cds, "a", "b")
			p.says(cds, "a=1")
			p.gets("the list waits")
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
	_, _, _, _ = fmt.Sprint, slices.Sort[[]string], authz.Compile, corev3.Node{}
	_, _ = metrics.WaitAck, xds.Wildcard
}
