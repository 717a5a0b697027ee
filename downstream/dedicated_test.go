package downstream

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// lanesOf are the lanes that run for groups of one client, or for shared ones.
func (r *rig) lanesOf(dedicated bool) (lanes []*relay.Lane) {
	r.up()
	for _, l := range r.lanes {
		if strings.HasPrefix(l.Group().Key(), "dedicated-") == dedicated {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// answers has one lane answer.
func (r *rig) answers(l *relay.Lane, typeURL string, words ...string) {
	r.tb.Helper()
	u := r.response(typeURL, words)
	if _, ok := l.Apply(r.now, &u); !ok {
		r.tb.Fatalf("%s was never asked for there", typeURL)
	}
}

// TestDedicatedType: a type that is dedicated is asked for each stream apart, with the client's own
// node, and all others are shared (RELAY-29, V2-6).
func TestDedicatedType(t *testing.T) {
	for _, delta := range []bool{false, true} {
		r := newRigOf(t, relay.OriginConfig{Name: "mesh", GroupBy: []string{"cluster"}, NodeID: "fixed"})
		r.configure(func(_ *Config, lc *ListenerConfig) { lc.Dedicated = []string{eds, sds} })
		var ps []*clientEnd
		for _, id := range []string{"one", "two"} {
			p := r.client(delta)
			p.node = &corev3.Node{Id: id, Cluster: "edge", ClientFeatures: []string{"own-" + id}}
			p.node.ProtoReflect().SetUnknown([]byte{5<<3 | 2, 1, 'v'})
			want := proto.Clone(p.node).(*corev3.Node)
			p.asks2(cds, "a")
			p.asks2(eds, "x")
			ps = append(ps, p)
			lanes := r.lanesOf(true)
			if len(lanes) != len(ps) {
				t.Fatalf("delta %v: %d dedicated lanes for %d clients", delta, len(lanes), len(ps))
			}
			got := proto.Clone(lanes[len(ps)-1].Node()).(*corev3.Node)
			if !slices.Contains(got.ClientFeatures, "own-"+id) {
				t.Errorf("features presented are %v", got.ClientFeatures)
			}
			got.ClientFeatures, want.ClientFeatures = nil, nil
			if !proto.Equal(got, want) {
				t.Errorf("delta %v: presented is %v, want %v", delta, got, want)
			}
		}
		shared := r.lanesOf(false)
		if len(shared) != 1 {
			t.Fatalf("delta %v: %d shared lanes, want 1", delta, len(shared))
		}
		r.answers(shared[0], cds, "a=1")
		r.answers(r.lanesOf(true)[0], eds, "x=one")
		ps[0].gets("the first has its own", "cds a=1", "eds x=one")
		ps[1].gets("the second what is shared", "cds a=1")
		r.answers(r.lanesOf(true)[1], eds, "x=two")
		ps[1].gets("and then its own", "eds x=two")
		if s := ps[0].session.status(time.Now()); !slices.Equal(s.Dedicated, []string{"mesh/dedicated-1"}) {
			t.Errorf("dedicated to the first are %v", s.Dedicated)
		}
		ps[0].session.close(r.now)
		r.wait(0)
		if r.lanesOf(true)[0].Wanted() {
			t.Error("what was one client's alone outlives it")
		}
		r.lanesOf(true)[0].Release()
		r.wait(time.Second)
		if n := len(inspect.Status(r.origin)); n != 2 {
			t.Errorf("delta %v: %d groups, want the shared one and the second client's", delta, n)
		}
		if err := r.table.Check(); err != nil {
			t.Error(err)
		}
	}
}

// asks2 asks for names in either dialect.
func (p *clientEnd) asks2(typeURL string, names ...string) {
	p.tb.Helper()
	if p.session.delta {
		p.subscribes(typeURL, names...)
	} else {
		p.asks(typeURL, names...)
	}
}

// TestDedicatedParameters: they are presented, so a node with others ends the stream (STREAM-4).
func TestDedicatedParameters(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", GroupBy: []string{"cluster"}})
	r.configure(func(_ *Config, lc *ListenerConfig) { lc.Dedicated = []string{eds} })
	p := r.client(true)
	p.subscribes(cds, "a")
	p.node = &corev3.Node{Id: "envoy-1", UserAgentName: "envoy", DynamicParameters: map[string]*xdsv3.ContextParams{cds: {Params: map[string]string{"shard": "1"}}}}
	p.subscribes(cds, "b") // nothing is dedicated yet
	p.subscribes(eds, "x")
	if n := r.lanesOf(true)[0].Node(); n.DynamicParameters[cds].GetParams()["shard"] != "1" {
		t.Errorf("presented is %v, want the newest parameters", n)
	}
	p.node = &corev3.Node{Id: "envoy-1", UserAgentName: "envoy", DynamicParameters: map[string]*xdsv3.ContextParams{cds: {Params: map[string]string{"shard": "2"}}}}
	if err := p.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds}); status.Code(err) != codes.Unavailable {
		t.Errorf("other parameters gave %v", err)
	}
}

// TestDedicatedLimit: a stream that cannot have its group ends, and says why (RELAY-67).
func TestDedicatedLimit(t *testing.T) {
	table, err := relay.New(relay.Config{MaxGroups: 2, Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{tb: t, table: table, origin: table.Origin("mesh"), now: zero, cfg: Config{Table: table, Instance: "here"}}
	r.configure(func(_ *Config, lc *ListenerConfig) { lc.Dedicated = []string{eds} })
	one, two := r.client(true), r.client(true)
	one.subscribes(eds, "x")
	two.subscribes(cds, "a")
	err = two.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResourceNamesSubscribe: []string{"x"}})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.groups") {
		t.Errorf("a group more gave %v", err)
	}
	one.subscribes(eds, "y")
}

// TestAssumedFeatures: features that a listener assumes are the client's as if it had said them: in
// its group, if they change what the origin generates (FEAT-5, FEAT-2).
func TestAssumedFeatures(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", GroupBy: []string{"client_features"}})
	says := r.client(true)
	says.node = &corev3.Node{ClientFeatures: []string{"b", "a"}}
	says.subscribes(cds, "a")
	r.configure(func(_ *Config, lc *ListenerConfig) {
		lc.AssumeFeatures = []string{"a", "xds.config.supports-resource-ttl"}
	})
	for _, n := range []*corev3.Node{nil, {ClientFeatures: []string{"b"}}, {ClientFeatures: []string{"b", "a"}}} {
		p := r.client(true)
		p.node = n
		p.subscribes(cds, "a")
		if same := p.session.group == says.session.group; same != (n != nil) {
			t.Errorf("%v is in the group of who has both: %v", n, same)
		}
	}
}

// TestSecrets: where they are enabled each stream has its own, and SotW is sent whole (RELAY-74,
// SOTW-4); nothing tells more than the name (RELAY-76).
func TestSecrets(t *testing.T) {
	for _, delta := range []bool{false, true} {
		r := newRigOf(t, relay.OriginConfig{Name: "mesh", Secrets: true})
		p, other := r.client(delta), r.client(delta)
		p.session.from, other.session.from = caller{local: true}, caller{tls: true, verified: true}
		p.asks2(sds, "s", "t")
		other.asks2(sds, "s")
		lanes := r.lanesOf(true)
		if len(lanes) != 2 || len(r.lanesOf(false)) != 0 {
			t.Fatalf("delta %v: %d dedicated lanes and %d shared, want 2 and none", delta, len(lanes), len(r.lanesOf(false)))
		}
		r.answers(lanes[0], sds, "s=key1", "t=key2")
		p.gets("both arrive", "sds s=key1 t=key2")
		if id := p.taken[0].identifier; id != "origin-1;weir=here" {
			t.Errorf("delta %v: the way is %q, want that of the stream's own group", delta, id)
		}
		other.gets("the other client's are its own")
		p.refuses(sds, "bad key key1", "s", "t")
		if s := p.of(sds); s.SentVersion != "" || s.AckedVersion != "" || s.Nacks != 1 || strings.Contains(s.LastNack.Message, "key1") {
			t.Errorf("shown is %+v", s)
		}
		for _, n := range p.notes {
			if strings.Contains(n.nack.Message, "key1") {
				t.Errorf("logged is %q", n.nack.Message)
			}
		}
		r.answers(lanes[0], sds, "s=key3")
		if delta {
			p.gets("what changed", "sds s=key3")
		} else {
			p.gets("all of it", "sds s=key3 t=key2")
		}
		r.down()
		r.wait(cacheLinger * 10)
		p.asks2(sds, "s", "t")
		if p.of(sds).Names != 2 {
			t.Error("the names are gone with the origin")
		}
		kept := 0
		inspect.Query(r.origin, inspect.ResourceQuery{TypeURL: sds}, func(s inspect.ResourceInfo) bool { kept++; return true })
		if kept != 2+1 { // the third is the other client's, unanswered
			t.Errorf("%d are held while the origin is down, want those that a client has (RELAY-75)", kept)
		}
	}
}

// cacheLinger is the table's default.
const cacheLinger = 60e9

// TestWhoGetsSecrets: who is on this host, or has a verified certificate (RELAY-74, RELAY-77). In
// delta each name is refused; in SotW a response could only say that all are gone, so none is sent
// (SOTW-9).
func TestWhoGetsSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		from    caller
		refused *reason
	}{
		"plain text":  {caller{}, plainSecrets},
		"loopback":    {caller{local: true}, nil},
		"tls":         {caller{tls: true}, strangerSecrets},
		"tls on host": {caller{local: true, tls: true}, nil},
		"certificate": {caller{tls: true, verified: true, identity: "subject:"}, nil},
	} {
		for _, typeURL := range []string{sds, "type.googleapis.com/envoy.api.v2.auth.Secret"} {
			r := newRigOf(t, relay.OriginConfig{Name: "mesh", Secrets: true})
			r.configure(func(_ *Config, lc *ListenerConfig) { lc.NoLegacyWildcard = []string{} })
			d, s, all := r.client(true), r.client(false), r.client(false)
			d.session.from, s.session.from, all.session.from = c.from, c.from, c.from
			d.subscribes(typeURL, "a", "b")
			s.asks(typeURL, "a")
			all.asks(typeURL)
			lanes := len(r.lanesOf(true))
			if c.refused == nil {
				if lanes != 3 {
					t.Errorf("%s: %d upstream streams for three clients", name, lanes)
				}
				continue
			}
			d.gets(name, "sds !a:PermissionDenied !b:PermissionDenied")
			s.gets(name)
			all.gets(name)
			if lanes != 0 {
				t.Errorf("%s: a secret is asked of the origin for who may not have it", name)
			}
			if _, why := d.session.judge(d.session.types[0], "a"); why != c.refused {
				t.Errorf("%s: refused for %v", name, why)
			}
		}
	}
}

// TestSecretsOfOtherOrigins: each origin is enabled by itself.
func TestSecretsOfOtherOrigins(t *testing.T) {
	for _, enabled := range []string{"mesh", "other", ""} {
		table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{
			{Name: "mesh", Secrets: enabled == "mesh"}, {Name: "other", Secrets: enabled == "other", Authorities: []string{"o"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{tb: t, table: table, origin: table.Origin("mesh"), now: zero, cfg: Config{Table: table, Instance: "here"}}
		r.configure(func(_ *Config, lc *ListenerConfig) { lc.NoLegacyWildcard = []string{} })
		p, all := r.client(true), r.client(false)
		p.session.from, all.session.from = caller{local: true}, caller{local: true}
		all.asks(sds)
		if lanes := r.lanesOf(true); len(lanes) > 0 && enabled != "mesh" {
			t.Errorf("%q: everything is asked of an origin that has none enabled", enabled)
		}
		if got := p.session.barred(sds); got != (enabled == "") {
			t.Errorf("%q: barred is %v", enabled, got)
		}
		st := &streamType{typeURL: sds}
		if _, got := p.session.judge(st, "old"); (got == noSecrets) != (enabled != "mesh") {
			t.Errorf("%q: a name of the listener's own origin: %v", enabled, got)
		}
		urn := "xdstp://o/envoy.extensions.transport_sockets.tls.v3.Secret/s"
		if _, got := p.session.judge(st, urn); (got == noSecrets) != (enabled != "other") {
			t.Errorf("%q: a name of the other: %v", enabled, got)
		}
	}
}

func TestCaller(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	info := func(chains ...[]*x509.Certificate) credentials.AuthInfo {
		return credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: chains}}
	}
	for name, c := range map[string]struct {
		peer peer.Peer
		want caller
	}{
		"loopback":      {peer.Peer{Addr: tcp("127.0.0.1"), LocalAddr: tcp("127.0.0.9")}, caller{local: true}},
		"loopback 6":    {peer.Peer{Addr: tcp("::1"), LocalAddr: tcp("::1")}, caller{local: true}},
		"mapped":        {peer.Peer{Addr: tcp("::ffff:127.0.0.1"), LocalAddr: tcp("::ffff:127.0.0.1")}, caller{local: true}},
		"socket":        {peer.Peer{Addr: &net.UnixAddr{Name: "@"}, LocalAddr: &net.UnixAddr{Name: "/s"}}, caller{local: true}},
		"another host":  {peer.Peer{Addr: tcp("10.0.0.1"), LocalAddr: tcp("10.0.0.2")}, caller{}},
		"forged source": {peer.Peer{Addr: tcp("127.0.0.1"), LocalAddr: tcp("10.0.0.2")}, caller{}},
		"nothing known": {peer.Peer{}, caller{}},
		"tls":           {peer.Peer{Addr: tcp("10.0.0.1"), LocalAddr: tcp("10.0.0.2"), AuthInfo: info()}, caller{tls: true}},
		"mutual": {
			peer.Peer{Addr: tcp("10.0.0.1"), LocalAddr: tcp("10.0.0.2"), AuthInfo: info([]*x509.Certificate{{}})}, caller{tls: true, verified: true, identity: "subject:"},
		},
	} {
		got := callerOf(&c.peer)
		if got.peer = nil; got != c.want { // whom it counts for: TestOpeners
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
