package downstream

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestSotWResponse: what every response carries (NONCE-1, STREAM-10, VER-4).
func TestSotWResponse(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.asks(cds)
	r.settled(cds, "a=1")
	p.gets("the first answer", "cds a=1")
	first := p.taken[0]
	if first.nonce == "" || first.version == "" || first.identifier != "origin-1;weir=here" {
		t.Errorf("the response is %+v", first)
	}
	p.asks(cds)
	r.says(cds, "a=2")
	p.gets("the change", "cds a=2")
	if second := p.taken[1]; second.nonce == first.nonce || second.version == first.version {
		t.Errorf("nonce or version are the same in %+v and %+v", first, second)
	}
}

// TestSotWList: the list of a request is the complete one (SOTW-1), and names new in it are
// answered (SOTW-5, SOTW-6).
func TestSotWList(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.asks(eds, "a", "b")
	r.says(eds, "a=1", "b=1")
	p.gets("both", "eds a=1 b=1")
	p.asks(eds, "a", "b")
	p.gets("an ACK with the same names causes nothing (SOTW-7)")
	p.asks(eds, "a", "c")
	r.says(eds, "c=1")
	p.gets("the new name", "eds c=1")
	p.asks(eds, "a", "c")
	r.says(eds, "a=2")
	p.gets("what changed", "eds a=2")
	p.asks(eds, "a", "b", "c")
	p.gets("a name that was dropped and named again (SOTW-6)", "eds b=1")
	if n := p.of(eds).Names; n != 3 {
		t.Errorf("%d names are subscribed", n)
	}
}

// TestSotWNonce: only the last nonce is a verdict; the names of a stale request count all the same.
func TestSotWNonce(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a", "b"}, ResponseNonce: "of another stream"})
	r.says(eds, "a=1")
	p.gets("a nonce before the first response is ignored (NONCE-3)", "eds a=1")

	stale := func(nonce string, names ...string) {
		p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: names, ResponseNonce: nonce})
	}
	stale("unknown", "a", "b", "c")
	r.says(eds, "c=1")
	p.gets("a stale request is no ACK (NONCE-4) and triggers nothing (NONCE-6)")
	stale("", "a", "b", "c")
	p.gets("nor is one without a nonce an ACK (NONCE-4)")
	if p.of(eds).InFlightSince.IsZero() {
		t.Error("the response counts as answered")
	}
	p.asks(eds, "a", "b", "c")
	p.gets("what the stale request named comes after the ACK (NONCE-5, NONCE-6)", "eds c=1")
	p.asks(eds, "a", "b", "c")
	stale("unknown", "a", "b", "c", "d")
	r.says(eds, "d=1")
	p.gets("with nothing outstanding a stale request is answered at once (NONCE-6)", "eds d=1")
}

// TestOneInFlight: changes merge while a response is unanswered, up to order_hold (NONCE-10).
func TestOneInFlight(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.asks(eds, "a")
	r.says(eds, "a=1")
	p.gets("the first", "eds a=1")
	r.says(eds, "a=2")
	p.gets("nothing while it is unanswered")
	r.says(eds, "a=3")
	r.wait(400 * time.Millisecond)
	p.gets("still nothing")
	if got, want := p.session.next(), r.now.Add(100*time.Millisecond); !got.Equal(want) {
		t.Errorf("the next deadline is %v, want %v", got, want)
	}
	r.wait(100 * time.Millisecond)
	p.gets("after order_hold the next goes anyway, merged", "eds a=3")
	if next := p.session.next(); !next.IsZero() {
		t.Errorf("there is nothing more to send, and a deadline: %v", next)
	}
	r.says(eds, "a=4")
	p.asks(eds, "a")
	p.gets("the ACK lets the next go", "eds a=4")
}

// TestSotWNack: nothing is sent again until it changes, and "changed" is against what was sent last
// (NONCE-2, NONCE-11).
func TestSotWNack(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.asks(cds)
	r.settled(cds, "a=1")
	p.gets("the first", "cds a=1")
	p.asks(cds)
	r.says(cds, "a=2")
	p.gets("the change", "cds a=2")
	p.refuses(cds, "do not like it")
	p.gets("the same content is not sent again")
	s := p.of(cds)
	if s.Nacks != 1 || s.LastNack.Message != "do not like it" || s.LastNack.Nonce != p.nonces[cds] || !s.LastNack.At.Equal(r.now) {
		t.Errorf("the NACK is recorded as %+v", s)
	}
	if s.AckedVersion == s.SentVersion || s.UnsyncedSince.IsZero() {
		t.Errorf("a client that refused counts as in sync: %+v", s)
	}
	if n := p.notes; len(n) != 1 || n[0].typeURL != cds {
		t.Errorf("to be logged: %+v", n)
	}
	r.says(cds, "a=1")
	p.gets("a rollback is a change", "cds a=1")
	p.asks(cds)
	if s := p.of(cds); s.AckedVersion != s.SentVersion || !s.UnsyncedSince.IsZero() {
		t.Errorf("after the ACK: %+v", s)
	}
}

// TestSotWWildcard: when an empty list means everything and when nothing (WILD-1 to WILD-6).
func TestSotWWildcard(t *testing.T) {
	type step struct {
		names    []string
		locators int
		wildcard bool
		count    int
	}
	for _, row := range []struct {
		name    string
		typeURL string
		steps   []step
	}{
		{"legacy until something is named (WILD-2, WILD-3, WILD-4)", cds, []step{
			{wildcard: true}, {wildcard: true}, {names: []string{"a"}, count: 1}, {}, {},
		}},
		{"a name first: empty is nothing (WILD-4)", cds, []step{{names: []string{"a"}, count: 1}, {}}},
		{"`*` beside names (WILD-1)", cds, []step{
			{names: []string{"*", "a"}, wildcard: true, count: 1}, {names: []string{"a"}, count: 1}, {names: []string{"*"}, wildcard: true}, {},
		}},
		{"types that are always named (WILD-5)", eds, []step{{}, {names: []string{"a"}, count: 1}, {}}},
		{"any type has the legacy wildcard (WILD-5)", odd, []step{{wildcard: true}, {names: []string{"a"}, count: 1}}},
		{"locators count as naming (WILD-6)", cds, []step{{locators: 1, count: 1}, {}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newRig(t).client(false)
			for i, s := range row.steps {
				req := &discoveryv3.DiscoveryRequest{TypeUrl: row.typeURL, ResourceNames: s.names}
				for range s.locators {
					req.ResourceLocators = append(req.ResourceLocators, &discoveryv3.ResourceLocator{Name: "l"})
				}
				p.sends(req)
				got := p.of(row.typeURL)
				if got.Wildcard != s.wildcard || got.Names != s.count {
					t.Fatalf("after request %d: wildcard %v and %d names, want %v and %d", i+1, got.Wildcard, got.Names, s.wildcard, s.count)
				}
			}
		})
	}
}

// TestSotWResume: a wildcard client that holds the present version is sent nothing (RELAY-43),
// others are.
func TestSotWResume(t *testing.T) {
	r := newRig(t)
	old := r.client(false)
	old.asks(cds)
	r.settled(cds, "a=1")
	old.gets("the first", "cds a=1")
	version := old.taken[0].version

	same := r.client(false)
	same.sends(&discoveryv3.DiscoveryRequest{TypeUrl: cds, VersionInfo: version})
	same.gets("nothing for who has it")
	other := r.client(false)
	other.sends(&discoveryv3.DiscoveryRequest{TypeUrl: cds, VersionInfo: "something else"})
	other.gets("all for who has not", "cds a=1")
}

// TestNoSotWForm: VirtualHost and LbEndpoint are answered once, empty, and then ignored (TRANS-7).
func TestNoSotWForm(t *testing.T) {
	for _, typeURL := range []string{vhd, xds.LbEndpointType} {
		r := newRig(t)
		p := r.client(false)
		p.asks(typeURL, "a/b")
		if got := p.writes(); len(got) != 1 || got[0].typeURL != typeURL || len(got[0].words) != 0 || got[0].nonce == "" {
			t.Fatalf("want one empty response, got %+v", got)
		}
		p.asks(typeURL, "a/b", "a/c")
		p.gets("nothing more")
		if len(r.origin.TakeLanes()) != 0 {
			t.Error("the origin is asked")
		}
	}
}

// TestRequestErrors: what ends a stream, and how.
func TestRequestErrors(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, row := range []struct {
		name   string
		node   *corev3.Node
		config func(*Config, *ListenerConfig)
		first  *discoveryv3.DiscoveryRequest
		code   codes.Code
		text   string
	}{
		{"empty type (TRANS-5)", nil, nil, &discoveryv3.DiscoveryRequest{}, codes.InvalidArgument, "type_url"},
		{"empty type with locators (TRANS-5)", nil, nil, &discoveryv3.DiscoveryRequest{
			ResourceLocators: []*discoveryv3.ResourceLocator{{Name: "a"}},
		}, codes.InvalidArgument, "type_url"},
		{"endless type", nil, nil, &discoveryv3.DiscoveryRequest{TypeUrl: long}, codes.InvalidArgument, "type_url"},
		{"no node (STREAM-2)", nil, nil, &discoveryv3.DiscoveryRequest{TypeUrl: cds}, codes.OK, ""},
		{"no node id where one is required (STREAM-2)", &corev3.Node{Cluster: "c"}, func(_ *Config, lc *ListenerConfig) {
			lc.RequireNodeID = true
		}, &discoveryv3.DiscoveryRequest{TypeUrl: cds}, codes.InvalidArgument, "require_node_id"},
		{"too many names (ERR-7)", nil, func(c *Config, _ *ListenerConfig) {
			c.Limits.NamesPerStream = 2
		}, &discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a", "b", "c"}}, codes.ResourceExhausted, "limits.names_per_stream"},
		{"as many as allowed", nil, func(c *Config, _ *ListenerConfig) {
			c.Limits.NamesPerStream = 2
		}, &discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a", "b"}}, codes.OK, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			if row.config != nil {
				r.configure(row.config)
			}
			p := r.client(false)
			p.node = row.node
			err := p.sent(row.first)
			if status.Code(err) != row.code || !strings.Contains(status.Convert(err).Message(), row.text) {
				t.Errorf("got %v, want %v with %q", err, row.code, row.text)
			}
		})
	}
}

// TestManyTypes: at most 256 types on a stream.
func TestManyTypes(t *testing.T) {
	p := newRig(t).client(false)
	for i := range maxTypes {
		p.asks(odd+strings.Repeat("x", i), "a")
	}
	if err := p.sent(&discoveryv3.DiscoveryRequest{TypeUrl: odd + "more"}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more type: %v", err)
	}
}

// TestNode: the first node is the stream's (STREAM-1, STREAM-3, RELAY-94).
func TestNode(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.asks(cds)
	for _, n := range []*corev3.Node{{Id: "envoy-1"}, {Id: "envoy-1", Cluster: "edge"}, {Id: "other"}, {Id: "envoy-1", Cluster: "x"}} {
		p.node = n
		p.asks(cds)
	}
	s := p.session.status(time.Now())
	if s.NodeID != "envoy-1" || s.NodeCluster != "edge" || s.NodeChanges != 2 {
		t.Errorf("the stream's node is %+v", s)
	}
	if n := p.notes; len(n) != 1 {
		t.Errorf("a change of node is logged %d times, want once", len(n))
	}
}

// TestDynamicParameters: where group_by has them a change ends the stream, with a reason that says
// so; anything else does not, nor does a thinner node, or any change where group_by has them not
// (STREAM-3, STREAM-4, RELAY-94).
func TestDynamicParameters(t *testing.T) {
	with := func(value string) *corev3.Node {
		return &corev3.Node{
			Id: "envoy-1", Cluster: "edge", UserAgentName: "envoy",
			DynamicParameters: map[string]*xdsv3.ContextParams{cds: {Params: map[string]string{"shard": value}}},
		}
	}
	none := &corev3.Node{Id: "envoy-1", Cluster: "edge", UserAgentName: "envoy"}
	for _, delta := range []bool{false, true} {
		for _, groupBy := range [][]string{{"cluster"}, {"cluster", "dynamic_parameters"}} {
			r := newRigOf(t, relay.OriginConfig{Name: "mesh", GroupBy: groupBy})
			var p *clientEnd
			says := func(n *corev3.Node) error {
				p.node = n
				if delta {
					return p.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds})
				}
				return p.sent(&discoveryv3.DiscoveryRequest{TypeUrl: cds})
			}
			for _, changed := range []*corev3.Node{with("2"), none} {
				p = r.client(delta)
				for _, n := range []*corev3.Node{with("1"), {Id: "envoy-1"}, {Id: "envoy-1", Cluster: "edge"}, with("1"), nil} {
					if err := says(n); err != nil {
						t.Fatalf("delta %v, group_by %v: %v ended the stream: %v", delta, groupBy, n, err)
					}
				}
				err := says(changed)
				if len(groupBy) == 1 && err != nil {
					t.Errorf("delta %v: parameters outside the key ended the stream: %v", delta, err)
				}
				if len(groupBy) == 2 && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "dynamic_parameters")) {
					t.Errorf("delta %v: %v in place of shard 1 gave %v", delta, changed.DynamicParameters, err)
				}
				if n := p.session.status(time.Now()).NodeChanges; n != 0 {
					t.Errorf("delta %v, group_by %v: %d changes of node are counted", delta, groupBy, n)
				}
			}
		}
	}
}

// TestTypesAreIndependent: a NACK, a stale nonce and a missing answer of one type are nothing to
// another (STREAM-7, ORD-7).
func TestTypesAreIndependent(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.asks(cds)
	p.asks(eds, "a")
	r.says(cds, "a=1")
	r.says(eds, "a=1")
	r.wait(5 * time.Second)
	p.gets("both", "cds a=1", "eds a=1")
	p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a"}, ResponseNonce: p.nonces[cds]})
	if p.of(eds).InFlightSince.IsZero() {
		t.Error("the nonce of one type acknowledges another")
	}
	p.refuses(cds, "no")
	r.says(cds, "a=2")
	p.gets("the other type is still unanswered", "cds a=2")
}
