package relay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
)

// edsResource is a Cluster whose endpoints come by a ClusterLoadAssignment of its name.
func edsResource(name string) xds.Resource {
	value := protowire.AppendVarint(protowire.AppendTag(xds.AppendString(nil, 1, name), 2, protowire.VarintType), 3)
	r := xds.Resource{Name: name, Any: xds.AppendString(nil, 1, xds.ClusterType)}
	r.Any = protowire.AppendBytes(protowire.AppendTag(r.Any, 2, protowire.BytesType), value)
	r.PayloadType, r.Payload, _ = xds.AnyParts(r.Any)
	return r
}

// strictOrigin is a lane to an origin of state of the world, on which names of endpoints are asked.
type strictOrigin struct {
	*rig
	lane *Lane
	now  time.Time
	list []string // of the last request
}

func newStrictOrigin(t *testing.T) *strictOrigin { return newGatheredOrigin(t, 0) }

func newGatheredOrigin(t *testing.T, gather time.Duration) *strictOrigin {
	config := Config{Gather: gather, Origins: []OriginConfig{{Name: "mesh", SotW: true}}}
	o := &strictOrigin{rig: newRig(t, config), now: zero}
	o.lane = o.group.lanes[mainLane]
	return o
}

func (o *strictOrigin) wants(typeURL string, names ...string) *Sub {
	s := o.group.Open(NewSubscriber(), SubOptions{TypeURL: typeURL, Delta: true})
	s.Update(o.now, names, nil)
	return s
}

func (o *strictOrigin) asks(sentence string, want ...string) {
	o.tb.Helper()
	asks, _ := o.lane.Take(o.now, true)
	for _, a := range asks {
		if a.TypeURL == xds.EndpointType {
			o.list = names(a.All)
		}
	}
	if !slices.Equal(o.list, want) {
		o.tb.Fatalf("%s: the request lists %q, want %q", sentence, o.list, want)
	}
}

func names(ns []Name) (list []string) {
	for _, n := range ns {
		list = append(list, n.Name)
	}
	return list
}

func (o *strictOrigin) says(typeURL string, names ...string) {
	u := made(typeURL, "1", nil, names...)
	u.Full = true
	o.lane.Apply(o.now, u)
}

func (o *strictOrigin) wait(d time.Duration) {
	o.now = o.now.Add(d)
	o.table.Advance(o.now)
}

// probes has the lane look for what to ask apart.
func (o *strictOrigin) probes(sentence string, whole bool, want ...string) *Probe {
	o.tb.Helper()
	p := o.lane.Probe(o.now, whole)
	var got []string
	if p != nil {
		got = names(p.Ask.All)
	}
	if !slices.Equal(got, want) {
		o.tb.Fatalf("%s: asked apart is %q, want %q", sentence, got, want)
	}
	return p
}

func (o *strictOrigin) suspicious() bool {
	select {
	case <-o.lane.Suspicion():
		return true
	default:
		return false
	}
}

// TestAside: names that a SotW origin leaves unanswered are asked apart, with everything and then
// one by one, and come back when they are found, or when the origin turns out to answer lists with
// names that it has not (RELAY-99).
func TestAside(t *testing.T) {
	o := newStrictOrigin(t)
	o.wants(xds.EndpointType, "a", "b")
	o.lane.Open(o.now, 0)
	o.asks("at first", "a", "b")
	o.says(xds.EndpointType, "a", "b")
	o.wait(2 * time.Second)
	if o.suspicious() {
		t.Error("all is answered")
	}
	o.wants(xds.EndpointType, "x", "y")
	o.asks("more names", "a", "b", "x", "y")
	o.wait(900 * time.Millisecond)
	o.probes("too early", true)
	o.wait(100 * time.Millisecond)
	if !o.suspicious() {
		t.Fatal("they are unanswered for a second")
	}
	p := o.probes("everything", true, "a", "b", "x", "y")
	if names, n := p.Unheard(1); n != 2 || len(names) != 1 || !strings.Contains("xy", names[0]) {
		t.Errorf("aside are %d, of which %q", n, names)
	}
	o.asks("without what was never answered", "a", "b")
	one := o.probes("one", false, "y")
	one.Unheard(1)
	if one = o.probes("then the other", false, "x"); !one.Heard(made(xds.EndpointType, "1", nil, "x")) {
		t.Error("it is the answer")
	}
	o.asks("what was found", "a", "b", "x")
	o.says(xds.EndpointType, "a", "b", "x")
	o.wait(20 * time.Second)
	o.probes("the other still", false, "y")
	p = o.probes("and everything", true, "a", "b", "x", "y")
	p.Heard(made(xds.EndpointType, "1", nil, "a", "b", "x"))
	o.asks("lists with names that it has not are answered", "a", "b", "x", "y")
	o.probes("nothing", true)
}

// TestAsideStays: a name stays aside over reconnects, and leaves with its last client; alone it is
// in the lane's request, since an empty list is a wildcard.
func TestAsideStays(t *testing.T) {
	o := newStrictOrigin(t)
	x := o.wants(xds.EndpointType, "x")
	o.lane.Open(o.now, 0)
	o.asks("at first", "x")
	o.wait(20 * time.Second)
	o.probes("alone it harms nobody", true)
	o.asks("and is asked", "x")
	a := o.wants(xds.EndpointType, "a")
	o.asks("somebody else comes", "a", "x")
	o.wait(time.Second)
	o.probes("together they may be too many", true, "a", "x").Unheard(1)
	o.asks("nothing else is left to be asked", "a", "x")
	o.probes("one", false, "x").Unheard(1)
	o.probes("then the other", false, "a").Heard(made(xds.EndpointType, "1", nil, "a"))
	o.asks("it does not wait for what there is not", "a")
	o.says(xds.EndpointType, "a")
	o.lane.Close()
	o.lane.Open(o.now, 0)
	o.asks("nor on another stream", "a")
	o.says(xds.EndpointType, "a")
	a.Close(o.now)
	o.asks("alone again", "x")
	x.Close(o.now)
	o.wants(xds.EndpointType, "c")
	o.asks("nobody wants it", "c")
	o.wants(xds.EndpointType, "x")
	o.asks("anew", "c", "x")
}

// TestEndpointsOfRemovedClusterGoAside: a SotW origin that takes a Cluster away may be silent for
// its endpoints from then on, also while the removal waits for routes (ORD-9): with it those of the
// cluster that is in its place would wait.
func TestEndpointsOfRemovedClusterGoAside(t *testing.T) {
	t.Run("at once", func(t *testing.T) { endpointsGoAside(t, newStrictOrigin(t)) })
	t.Run("gathered", func(t *testing.T) { endpointsGoAside(t, newGatheredOrigin(t, 20*time.Millisecond)) })
}

func endpointsGoAside(t *testing.T, o *strictOrigin) {
	t.Helper()
	o.wants(xds.ClusterType, xds.Wildcard)
	o.wants(xds.EndpointType, "a", "b")
	o.lane.Open(o.now, 0)
	o.asks("at first", "a", "b")
	o.says(xds.EndpointType, "a", "b")
	clusters := &xds.Update{TypeURL: xds.ClusterType, Full: true}
	for _, name := range []string{"a", "b"} {
		clusters.Resources = append(clusters.Resources, edsResource(name))
	}
	o.lane.Apply(o.now, clusters)
	clusters = &xds.Update{TypeURL: xds.ClusterType, Full: true, Resources: []xds.Resource{edsResource("a")}}
	o.lane.Apply(o.now, clusters)
	o.asks("without those of the cluster that is gone", "a")
	o.wait(time.Second)
	if !o.suspicious() {
		t.Error("they are asked apart")
	}
	o.probes("with everything", true, "a", "b").Unheard(1)
	p := o.probes("and alone", false, "b")
	p.Heard(made(xds.EndpointType, "1", nil, "b"))
	o.asks("they exist all the same", "a", "b")
}
