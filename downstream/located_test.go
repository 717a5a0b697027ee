package downstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// locates sends a delta request: locators, and -locator to unsubscribe.
func (p *clientEnd) locates(typeURL string, words ...string) error {
	p.tb.Helper()
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}
	for _, w := range words {
		if l, gone := strings.CutPrefix(w, "-"); gone {
			req.ResourceLocatorsUnsubscribe = append(req.ResourceLocatorsUnsubscribe, locator(l))
		} else {
			req.ResourceLocatorsSubscribe = append(req.ResourceLocatorsSubscribe, locator(w))
		}
	}
	return p.sent(req)
}

// lists sends a SotW request of names and locators.
func (p *clientEnd) lists(typeURL string, words ...string) error {
	p.tb.Helper()
	req := &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResponseNonce: p.nonces[typeURL]}
	req.ResourceNames, req.ResourceLocators = divide(words)
	return p.sent(req)
}

// acksAll accepts every message that came.
func (p *clientEnd) acksAll() {
	p.tb.Helper()
	for _, m := range p.taken {
		p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.typeURL, ResponseNonce: m.nonce})
	}
}

// TestParameterSets: a client that makes up parameters is refused what is too much of them, name by
// name, and served all else; who lets go of some may have others, in either dialect (RELAY-73).
func TestParameterSets(t *testing.T) {
	for _, delta := range []bool{true, false} {
		reg := prometheus.NewRegistry()
		r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true})
		r.configure(func(c *Config, _ *ListenerConfig) {
			c.Limits.ParameterSets = 2
			c.Metrics = metrics.New(reg)
		})
		p, other := r.client(delta), r.client(delta)
		ask := func(p *clientEnd, typeURL string, words ...string) {
			t.Helper()
			var err error
			if delta {
				err = p.locates(typeURL, words...)
			} else {
				err = p.lists(typeURL, words...)
			}
			if err != nil {
				t.Fatalf("the stream ended: %v", err)
			}
		}
		ask(p, eds, "a{}", "a{n=1}", "a{n=2}", "a{n=3}", "b{n=1}")
		r.says(eds, "a{n=1}=1", "a{n=2}=2", "a{!n}=0", "b{n=1}=3")
		told := "eds a{!n}=0 a{n=1}=1 a{n=2}=2 b{n=1}=3"
		if delta {
			told = "eds a{!n}=0 a{n=1}=1 a{n=2}=2 b{n=1}=3 !a{n=3}:ResourceExhausted"
		} else {
			told += " !a{n=3}:ResourceExhausted"
		}
		p.gets("what there is, and why not the rest", told)
		if notes := p.notes; len(notes) != 1 || notes[0].limit.limit != "parameter_sets_per_stream" ||
			!strings.HasPrefix(notes[0].limit.text, "limits.parameter_sets_per_stream 2 is reached: ") {
			t.Errorf("to be logged: %+v", notes)
		}
		if n := counted(t, reg, "weir_limit_rejections_total", "parameter_sets_per_stream"); n != 1 {
			t.Errorf("counted %v", n)
		}
		ask(p, rds, "r{n=4}", "r{n=2}")
		r.says(rds, "r{n=2}=1")
		p.gets("over all types", "rds r{n=2}=1 !r{n=4}:ResourceExhausted")
		ask(other, eds, "a{n=3}")
		r.says(eds, "a{n=3}=5")
		other.gets("another client has its own", "eds a{n=3}=5")
		if delta {
			p.acksAll()
			ask(p, eds, "-a{n=1}", "-b{n=1}")
			ask(p, eds, "a{n=3}")
		} else {
			ask(p, eds, "a{n=2}", "a{n=3}")
		}
		p.gets("in place of another", "eds a{n=3}=5")
	}
}

// TestParameterSetsOfGroup: beyond the limit of its group a locator is refused, and the stream is
// sent away in the end, as for any want of room; a client whose own parameters are too much ends at
// once.
func TestParameterSetsOfGroup(t *testing.T) {
	r := newRigWith(t, relay.Config{MaxParameterSets: 1, Origins: []relay.OriginConfig{
		{Name: "mesh", TP2: true, FromNode: map[string]string{"env": "metadata.env"}},
	}})
	p := r.client(true)
	if err := p.locates(eds, "a{env=prod}", "a{env=test}"); err != nil {
		t.Fatal(err)
	}
	r.says(eds, "a{env=prod}=1")
	p.gets("what there is room for", "eds a{env=prod}=1 !a{env=test}:ResourceExhausted")
	if p.session.lack == nil || p.session.lack.limit != "parameter_sets_per_group" {
		t.Errorf("short of %+v", p.session.lack)
	}
	if err := r.client(true).locates(eds, "*{env=test}"); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "limits.parameter_sets_per_group 1") {
		t.Errorf("`*` carries no error: %v", err)
	}
	for _, delta := range []bool{true, false} {
		mapped := r.client(delta)
		mapped.node = nodeOf("env", "test")
		var err error
		if delta {
			err = mapped.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResourceNamesSubscribe: []string{"a"}})
		} else {
			err = mapped.sent(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a"}})
		}
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.parameter_sets_per_group") {
			t.Errorf("a map of the node's, delta %v: %v", delta, err)
		}
	}
}

func nodeOf(key, value string) *corev3.Node {
	return &corev3.Node{
		Id: "envoy-1", Cluster: "edge", UserAgentName: "envoy",
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(value)}},
	}
}

// TestDefaultParameters: plain names have the parameters that are mapped from the node, and over
// them those that the node states of the type, in plain form (RELAY-64, DYN-16). If the latter
// change, and change what is served, the stream ends (STREAM-4).
func TestDefaultParameters(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true, FromNode: map[string]string{"env": "metadata.env"}})
	p := r.client(true)
	p.node = nodeOf("env", "prod")
	states := func(of string, m map[string]string) map[string]*xdscorev3.ContextParams {
		return map[string]*xdscorev3.ContextParams{of: {Params: m}}
	}
	p.node.DynamicParameters = states(rds, map[string]string{"v": "1"})
	p.subscribes(eds, "a")
	p.subscribes(rds, "r")
	if err := p.locates(eds, "a{env=test}"); err != nil {
		t.Fatal(err)
	}
	r.says(eds, "a{env=prod}=1", "a{env=test}=2")
	r.says(rds, "r{env=prod;v=1}=3", "r{env=prod;!v}=4")
	p.gets("each its variant, in the form it was asked for", "eds a=1", "eds a{env=test}=2", "rds r=3")
	p.acksAll()
	r.says(eds, "-a{env=prod}")
	p.gets("it stays for order_hold (ORD-10)")
	p.wait(500 * time.Millisecond)
	p.gets("a removal has no constraints either (DYN-14)", "eds -a")
	p.acks(eds)
	again := func(params map[string]*xdscorev3.ContextParams, env string) error {
		n := nodeOf("env", env)
		n.DynamicParameters = params
		_, err := takeIn(t, p.session, r.now, encoded(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, Node: n}))
		return err
	}
	for name, row := range map[string]struct {
		params map[string]*xdscorev3.ContextParams
		env    string
	}{
		"the same":                        {states(rds, map[string]string{"v": "1"}), "prod"},
		"other metadata: the first wins":  {states(rds, map[string]string{"v": "1"}), "test"},
		"of a type that is not asked for": {map[string]*xdscorev3.ContextParams{rds: {Params: map[string]string{"v": "1"}}, lds: {Params: map[string]string{"v": "2"}}}, "prod"},
		"what is the same by the mapping": {map[string]*xdscorev3.ContextParams{rds: {Params: map[string]string{"v": "1"}}, eds: {Params: map[string]string{"env": "prod"}}}, "prod"},
	} {
		if err := again(row.params, row.env); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := again(states(rds, map[string]string{"v": "2"}), "prod"); status.Code(err) != codes.Unavailable {
		t.Errorf("other parameters: %v", err)
	}
}

// TestListHash: the same list again costs no look at the table, and any other is another, by a
// parameter alone.
func TestListHash(t *testing.T) {
	s := newSession(newRig(t).set, false, zero, relay.NewSubscriber())
	hashOf := func(req *discoveryv3.DiscoveryRequest) uint64 {
		in := s.newRequest()
		defer in.done()
		in.read(mem.BufferSlice{mem.SliceBuffer(encoded(t, req))})
		return s.hashList(in.content)
	}
	hashes := map[uint64]string{}
	for _, list := range []string{"", "a", "a{}", "b{}", "a,b", "b,a", "a,b{}", "a{},b", "a{k=v}", "a{k=w}", "a{l=v}", "a{k=v;l=w}", "a{k=v},a{l=w}", "a,a"} {
		req := &discoveryv3.DiscoveryRequest{}
		if list != "" {
			req.ResourceNames, req.ResourceLocators = divide(strings.Split(list, ","))
		}
		hash := hashOf(req)
		if other, twice := hashes[hash]; twice {
			t.Errorf("%q is taken for %q", list, other)
		}
		hashes[hash] = list
	}
	many, again := &discoveryv3.ResourceLocator{DynamicParameters: map[string]string{}}, &discoveryv3.ResourceLocator{DynamicParameters: map[string]string{}}
	for i := range 100 {
		many.DynamicParameters[fmt.Sprint(i)], again.DynamicParameters[fmt.Sprint(99-i)] = "x", "x"
	}
	a := hashOf(&discoveryv3.DiscoveryRequest{ResourceLocators: []*discoveryv3.ResourceLocator{many}})
	if hashOf(&discoveryv3.DiscoveryRequest{ResourceLocators: []*discoveryv3.ResourceLocator{again}}) != a {
		t.Error("the order of a map counts")
	}
}

// TestCutUnits: what is said of one located name stays in one message (DYN-11), and beside nothing
// that is told in plain form (DYN-16).
func TestCutUnits(t *testing.T) {
	unit := func(size, pieces, gone int) relay.Unit {
		return relay.Unit{Pieces: make([][]byte, pieces), Removed: make([]relay.Gone, gone), Size: size}
	}
	shared := [][]byte{{1}, {2}, {3}}
	count := func(parts []part) (n []int) {
		for _, p := range parts {
			n = append(n, (len(p.pieces[relay.Plain])+len(p.pieces[relay.Pairs]))*10+len(p.gone))
		}
		return n
	}
	units := []relay.Unit{unit(60, 4, 1), unit(60, 2, 0), unit(30, 0, 3), unit(500, 6, 2), unit(5, 2, 0)}
	got := fmt.Sprint(count(cutUnits(cut(nil, relay.Pieces{shared[:1]}, 100), units, 100)))
	if want := "[10 41 23 62 20]"; got != want {
		t.Errorf("behind plain ones: %s, want %s", got, want)
	}
	got = fmt.Sprint(count(cutUnits(cut(nil, relay.Pieces{shared[:0]}, 100), units, 100)))
	if want := "[41 23 62 20]"; got != want || shared[0][0] != 1 {
		t.Errorf("alone: %s, want %s; and %v of what others share", got, want, shared)
	}
	if got := count(cutUnits(cut(nil, relay.Pieces{}, 100), nil, 100)); len(got) != 1 {
		t.Errorf("an empty answer is %d messages, want 1 (DELTA-13)", len(got))
	}
}

// TestRemovalsOfVariantsWait: what is removed of located clusters waits for the routes, unless
// something is in its place; and if something is by the time, it goes with that (ORD-2, DYN-11).
func TestRemovalsOfVariantsWait(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true})
	p := r.client(true)
	for _, ask := range []struct{ typeURL, l string }{{cds, "c{v=1}"}, {cds, "d{v=1}"}, {rds, "r{v=1}"}} {
		if err := p.locates(ask.typeURL, ask.l); err != nil {
			t.Fatal(err)
		}
	}
	r.says(cds, "c{v=1}=1", "d{v=1}=1")
	r.says(rds, "r{v=1}=1")
	p.gets("all", "cds c{v=1}=1 d{v=1}=1")
	p.acks(cds)
	p.gets("all", "rds r{v=1}=1")
	r.says(cds, "-c{v=1}", "-d{v=1}")
	r.says(rds, "r{v=1}=2")
	p.gets("the route is not acknowledged, and its next version waits: so do removals")
	r.says(cds, "c{v}=2")
	p.gets("in place of the one that waits", "cds c{v}=2 -c{v=1}")
	p.acks(cds, rds)
	p.gets("the route", "rds r{v=1}=2")
	p.acks(cds, rds)
	p.wait(500 * time.Millisecond) // ORD-10
	p.gets("then the rest", "cds -d{v=1}")
	p.acks(cds)
	r.says(cds, "-c{v}", "c{!w}=3")
	r.says(rds, "r{v=1}=3")
	p.gets("what is replaced waits for nobody", "cds c{!w}=3 -c{v}")
	p.acks(cds)
	p.gets("the route follows", "rds r{v=1}=3")
}

// TestLocatedErrors: an error of one map of a name is told of that map alone, beside the body of
// another (ABS-9, ABS-11, DYN-5).
func TestLocatedErrors(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true})
		p := r.client(delta)
		var err error
		if delta {
			err = p.locates(eds, "a{env=prod}", "a{env=test;v=1}")
		} else {
			err = p.lists(eds, "a{env=prod}", "a{env=test;v=1}")
		}
		if err != nil {
			t.Fatal(err)
		}
		r.says(eds, "a{env=prod}=1")
		p.gets("one of two", "eds a{env=prod}=1")
		r.says(eds, "-a")
		if delta {
			p.acks(eds)
			p.gets("a plain removal states absence where nothing matches (DYN-13)", "eds -a{env=test;v=1}")
			p.acks(eds)
		} else {
			_ = p.lists(eds, "a{env=prod}", "a{env=test;v=1}")
			p.gets("with words (ABS-10)", "eds !a{env=test;v=1}:NotFound")
		}
		r.now = r.now.Add(time.Second)
	}
}

// TestTooManyParameters: beyond what constraints may be told of it a locator is refused by itself.
func TestTooManyParameters(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true})
	p := r.client(true)
	many, long := locator("a{}"), locator("b{k="+strings.Repeat("x", 64<<10)+"}")
	many.DynamicParameters = map[string]string{}
	for i := range xds.MostParams + 1 {
		many.DynamicParameters[fmt.Sprint(i)] = "x"
	}
	p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{many, long, locator("c{}")}})
	r.says(eds, "c=1")
	p.gets("the one that is served, and the others", "eds c{}=1 !a:InvalidArgument !b:ResourceExhausted")
}

// TestOverlapWithoutOrigin: a client that comes while the origin is down is sent all variants that
// it asks for, also those that overlap: nobody can say which of them was replaced (RELAY-2, DYN-9).
func TestOverlapWithoutOrigin(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true})
	p := r.client(true)
	for _, l := range []string{"a{env=qa}", "a{env=test}"} {
		if err := p.locates(eds, l); err != nil {
			t.Fatal(err)
		}
	}
	r.says(eds, "a{env}=1")
	r.says(eds, "a{env=test}=2")
	p.writes()
	r.down()
	q := r.client(true)
	for _, l := range []string{"a{env=qa}", "a{env=test}"} {
		if err := q.locates(eds, l); err != nil {
			t.Fatal(err)
		}
	}
	q.gets("both", "eds a{env=test}=2 a{env}=1")
}
