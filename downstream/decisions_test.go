package downstream

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ruled is a client of a rig with rules.
func ruled(t *testing.T, delta bool, rules ...authz.Rule) *clientEnd {
	t.Helper()
	r := newRig(t)
	r.configure(func(c *Config, _ *ListenerConfig) { c.Rules = compiled(t, rules...) })
	p := r.client(delta)
	p.session.from.identity = "uri:a"
	return p
}

// decides compares what was decided on the requests since the last time, as in
// "allowed 2, denied 3 because: a b c".
func (p *clientEnd) decides(sentence, want string) {
	p.tb.Helper()
	allowed, parts := 0, []string(nil)
	for _, n := range p.notes {
		if n.decided == nil {
			continue
		}
		allowed += n.decided.allowed
		for _, d := range n.decided.denials {
			parts = append(parts, fmt.Sprintf("%d of %s because %s: %s", d.count, d.origin, d.why.text, strings.Join(d.names, " ")))
		}
	}
	p.notes = nil
	if got := strings.Join(append([]string{fmt.Sprint("allowed ", allowed)}, parts...), "; "); got != want {
		p.tb.Errorf("%s: %s, want %s", sentence, got, want)
	}
}

// TestDecisionsOnRequests: each admission of a stream and each new subscription is one decision, in both
// dialects.
func TestDecisionsOnRequests(t *testing.T) {
	rule := authz.Rule{Who: []string{"uri:{x}"}, Types: []string{cds, eds}, Names: []string{"{x}/*", "xdstp://served/*/a/*"}}
	const name, part = " of mesh because no rule allows the name: ", " of mesh because no rule allows any of the names that it stands for: "

	p := ruled(t, true, rule)
	p.subscribes(cds, "a/1", "b/1", "a/2", "b/2")
	p.decides("a stream and four names", "allowed 3; 2"+name+"b/1 b/2")
	p.subscribes(cds, "b/1", "-a/1")
	p.decides("one again", "allowed 0; 1"+name+"b/1")
	p.subscribes(cds, "*", long(cds, "//served/a/*"), long(cds, "//served/b/*"))
	p.decides("what stands for others", "allowed 2; 1"+part+long(cds, "//served/b/*"))
	p.subscribes(eds, "b/1", long(eds, "//served/a/1"))
	p.decides("another type", "allowed 1; 1"+name+"b/1")
	p.subscribes(vhd, "a", "b", "b/1")
	p.decides("namespaces, of a type that no rule is for", "allowed 0; 2"+part+"a b; 1"+name+"b/1")
	p.subscribes(lds)
	p.decides("everything is meant, of a type that no rule is for", "allowed 0; 1"+part+"*")
	p.settled(cds, "a/1=1")
	p.writes()
	p.acks(cds)
	p.decides("an ACK", "allowed 0")

	p = ruled(t, false, rule)
	p.asks(cds, "a/1", "b/1")
	p.decides("a stream and two names", "allowed 2; 1"+name+"b/1")
	p.asks(cds, "a/1", "b/1", "a/2", "b/2")
	p.decides("two more in the list", "allowed 1; 1"+name+"b/2")
	p.asks(cds, "b/1", "a/2")
	p.decides("fewer in the list", "allowed 0")
	p.asks(cds, "b/1", "a/2", "*")
	p.decides("and everything", "allowed 1")
	p.asks(lds)
	p.decides("everything is meant, of a type that no rule is for", "allowed 0; 1"+part+"*")
	p.asks(lds, "*", "x")
	p.decides("and a name", "allowed 0; 1"+name+"x")
	p.asks(rds, "x", "*")
	p.decides("a name and everything", "allowed 0; 1"+name+"x; 1"+part+"*")
}

// TestDeniedSecrets: a secret that a rule allows to anybody, and none to the identity in particular.
func TestDeniedSecrets(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", Secrets: true, SecretsByIdentity: true, GroupBy: []string{"cluster"}})
	r.configure(func(c *Config, _ *ListenerConfig) {
		c.Rules = compiled(t, authz.Rule{Who: []string{"uri:{x}"}, Names: []string{"{x}/*", "all"}})
	})
	p := r.client(true)
	p.session.from = caller{identity: "uri:a", local: true}
	p.subscribes(sds, "a/key", "all", "b/key")
	p.decides("a stream and three secrets", "allowed 2; 2 of mesh because no rule that names the client's identity allows the secret: all b/key")
}

// TestDecisionsThatEnd: a client that no rule fits, by its identity or by its claims.
func TestDecisionsThatEnd(t *testing.T) {
	for who, want := range map[string]string{
		"uri:b": "allowed 0; 1 of  because no rule is for the identity at this listener: ",
		"uri:a": "allowed 0; 1 of  because the node meets the claims of no rule: ",
	} {
		p := ruled(t, true, authz.Rule{Who: []string{"uri:a"}, Claims: map[string][]string{"node.cluster": {"core"}}})
		p.session.from.identity = who
		if err := p.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds}); err == nil {
			t.Fatal("the stream goes on")
		}
		p.decides(who, want)
		if got := p.session.client(); got != "envoy-1" {
			t.Errorf("the node is %q", got)
		}
	}
}

// TestLongDenial: of a request with a hundred thousand denied names a few are told, cut, and all
// are counted.
func TestLongDenial(t *testing.T) {
	for _, delta := range []bool{true, false} {
		p := ruled(t, delta, authz.Rule{Who: []string{"uri:a"}, Names: []string{"a"}})
		names := []string{"a"}
		for i := range 100_000 {
			names = append(names, fmt.Sprint(i, strings.Repeat("-", 1000*(i%100/99))))
		}
		slices.Reverse(names)
		if delta {
			p.subscribes(cds, names...)
		} else {
			p.asks(cds, names...)
		}
		if len(p.notes) != 1 || p.notes[0].decided == nil || len(p.notes[0].decided.denials) != 1 {
			t.Fatalf("%d notes", len(p.notes))
		}
		d := p.notes[0].decided.denials[0]
		if len(d.names) != maxDeniedNames || d.count != 100_000 || len(d.names[0]) > maxBookedName+3 {
			t.Errorf("%d names of %d, the first with %d bytes", len(d.names), d.count, len(d.names[0]))
		}
	}
}

// TestDenialsOfARequestAreFew: there is one for each reason and origin, in whatever order they come.
func TestDenialsOfARequestAreFew(t *testing.T) {
	var d decisions
	o := newRig(t).origin
	for range 1000 {
		d.deny(o, cds, "*", deniedPart)
		d.deny(o, cds, "a", deniedName)
	}
	if len(d.denials) != 2 || d.denials[1].count != 1000 {
		t.Errorf("%+v", d.denials)
	}
}

// audited is a server with rules, in virtual time, and what it counts and logs.
type audited struct {
	*live
	reg  *prometheus.Registry
	logs *observer.ObservedLogs
}

func newAudited(t *testing.T, rules ...authz.Rule) *audited {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	a := &audited{reg: prometheus.NewRegistry(), logs: logs}
	a.live = newLive(t, relaytest.Memory(), func(c *Config, lc *ListenerConfig) {
		c.Rules, lc.Address = compiled(t, rules...), "here:1"
		c.Metrics, c.Log = metrics.New(a.reg), zap.New(core)
		c.LoadReports = func(ctx context.Context, _ *relay.Origin, _ []string, _ string, _ []byte) (LoadStream, error) {
			return &originLoads{ctx, make(chan error, 1)}, nil
		}
	})
	return a
}

// decided waits for so many decisions, on the server and in the metric.
func (a *audited) decided(t *testing.T, allowed, denied, ended uint64) Decisions {
	t.Helper()
	synctest.Wait()
	d := a.server.Decisions()
	if d.Allowed != allowed || d.Denied != denied || d.Ended != ended {
		t.Errorf("allowed %d, denied %d, ended %d; want %d, %d, %d", d.Allowed, d.Denied, d.Ended, allowed, denied, ended)
	}
	for result, want := range map[string]uint64{"allowed": allowed, "denied": denied, "ended": ended} {
		if n := counted(t, a.reg, "weir_authz_decisions_total", result); n != float64(want) {
			t.Errorf("%v are counted as %s, want %d", n, result, want)
		}
	}
	return d
}

// TestAudit: what is denied is counted, kept and logged with who it was, in each dialect and by
// poll, and equal denials are one.
func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		a := newAudited(t, authz.Rule{Who: []string{"anonymous"}, Names: []string{"open/*"}, Claims: map[string][]string{"node.cluster": {"edge"}}})
		for i, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := a.open(t, relaytest.ClientConfig{Dialect: dialect})
			c.Subscribe(cds, "open/1", "closed/1")
			n := uint64(i + 1)
			d := a.decided(t, 2*n, n, 0)
			if len(d.Denials) != 1 || d.Rules != 1 || !d.Since.Equal(start) {
				t.Fatalf("%+v", d)
			}
			got, want := d.Denials[0], Denial{
				Identity: "anonymous", Listener: "here:1", Origin: "mesh", TypeURL: cds, Name: "closed/1", Reason: deniedName.text,
				Count: n, First: start, Last: start.Add(time.Duration(i) * time.Minute), NodeID: "envoy-1", Peer: d.Denials[0].Peer,
			}
			if got != want || got.Peer == "" {
				t.Errorf("%+v, want %+v", got, want)
			}
			time.Sleep(time.Minute)
		}
		c := relaytest.NewClient(t, a.net.Connect(t), relaytest.ClientConfig{})
		c.Open(relaytest.Node("envoy-2", "core"))
		c.Request(cds)
		if code := c.AwaitEnd("its claims fit no rule"); code != codes.PermissionDenied {
			t.Errorf("it ends with %v", code)
		}
		d := a.decided(t, 4, 2, 1)
		if len(d.Denials) != 2 || !d.Denials[0].Ended || d.Denials[0].Reason != deniedClaims.text || d.Denials[0].NodeID != "envoy-2" {
			t.Errorf("%+v", d.Denials)
		}
		poll := func(want codes.Code, cluster string, names ...string) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			in := &discoveryv3.DiscoveryRequest{Node: relaytest.Node("envoy-3", cluster), ResourceNames: names}
			err := a.net.Connect(t).Invoke(ctx, "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters", in, &discoveryv3.DiscoveryResponse{})
			if status.Code(err) != want {
				t.Errorf("a poll for %s: %v", names, err)
			}
		}
		time.Sleep(time.Minute)
		poll(codes.OK, "edge", "closed/3")
		poll(codes.PermissionDenied, "core")
		d = a.decided(t, 5, 3, 2)
		if len(d.Denials) != 3 || d.Denials[0].Count != 2 || d.Denials[1].Name != "closed/3" || d.Denials[1].NodeID != "envoy-3" {
			t.Errorf("%+v", d.Denials)
		}
		loads := a.open(t, relaytest.ClientConfig{Method: relaytest.LoadMethod})
		loads.SendRaw(encoded(t, &loadstatsv3.LoadStatsRequest{Node: relaytest.Node("envoy-4", "core")}))
		if code := loads.AwaitEnd("no rule fits it"); code != codes.PermissionDenied {
			t.Errorf("load reports end with %v", code)
		}
		d = a.decided(t, 5, 3, 3)
		if x := d.Denials[0]; x.Count != 3 || x.NodeID != "envoy-4" || x.Peer == "" {
			t.Errorf("%+v", x)
		}
		loads = a.open(t, relaytest.ClientConfig{Method: relaytest.LoadMethod})
		loads.SendRaw(encoded(t, &loadstatsv3.LoadStatsRequest{Node: relaytest.Node("envoy-4", "edge")}))
		a.decided(t, 6, 3, 3)
		loads.Cancel()
		lines := a.logs.FilterMessageSnippet("rules of authorization").All()
		if len(lines) != 6 || a.logs.FilterField(zap.String("reason", "refused")).Len() != 0 {
			t.Fatalf("%d lines: %v", len(lines), lines)
		}
		for i, want := range []map[string]any{
			{"client": "envoy-1", "listener": "here:1", "origin": "mesh", "type_url": cds, "names": int64(1), "reason": deniedName.text, "not_logged": int64(0)},
			{"client": "envoy-1", "such_as": []any{"closed/1"}},
			{"client": "envoy-2", "reason": deniedClaims.text, "not_logged": int64(0)},
			{"client": "envoy-3", "such_as": []any{"closed/3"}},
			{"client": "envoy-3", "reason": deniedClaims.text},
			{"client": "envoy-4", "reason": deniedClaims.text, "load_reports": true},
		} {
			for key, value := range want {
				if got := lines[i].ContextMap()[key]; fmt.Sprint(got) != fmt.Sprint(value) {
					t.Errorf("line %d: %s is %v, want %v", i, key, got, value)
				}
			}
		}
		// the same rules do not come into force again
		change := func(rules ...authz.Rule) {
			a.rerule(t, compiled(t, rules...))
		}
		change(authz.Rule{Who: []string{"anonymous"}, Names: []string{"open/*"}, Claims: map[string][]string{"node.cluster": {"edge"}}})
		if d := a.server.Decisions(); !d.Since.Equal(start) {
			t.Errorf("in force since %v", d.Since)
		}
		change(authz.Rule{Who: []string{"anonymous"}}, authz.Rule{Who: []string{"uri:b"}})
		if d := a.server.Decisions(); !d.Since.Equal(time.Now()) || d.Rules != 2 {
			t.Errorf("%d in force since %v", d.Rules, d.Since)
		}
	})
}

// TestDenialsAreBounded: of ten thousand denials a thousand are kept and a few logged, each line
// says how many are not, and one client's flood takes nothing of another's away.
func TestDenialsAreBounded(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := &Server{denials: newDenialBook(), denialLog: newDenialLog(zap.New(core))}
	now := zero
	denied := func(identity, name string) {
		set, from := &settings{address: "here:1"}, &caller{identity: identity}
		d := denial{origin: "mesh", typeURL: cds, why: deniedName, names: []string{name}, count: 1}
		s.decided(now, &decisions{denials: []denial{d}}, deniedTo(set, from, "n", "p"))
	}
	denied("uri:quiet", "first")
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		denied("uri:loud", fmt.Sprint(i))
	}
	d := s.Decisions()
	if len(d.Denials) != maxDenials || d.Denied != 10_001 || d.Denials[0].Name != "9999" || d.Denials[maxDenials-2].Name != "9001" {
		t.Errorf("%d of %d are kept, the newest is %q", len(d.Denials), d.Denied, d.Denials[0].Name)
	}
	if d.Denials[maxDenials-1].Name != "first" {
		t.Errorf("the oldest is %q", d.Denials[maxDenials-1].Name)
	}
	if n := len(s.denials.own); n != 2 || s.denials.order.Len() != maxDenials || len(s.denials.entries) != maxDenials {
		t.Errorf("%d owners, %d in order, %d entries", n, s.denials.order.Len(), len(s.denials.entries))
	}
	// 5 at once, and one each two seconds of ten
	loud := logs.FilterField(zap.String("identity", "uri:loud")).Len()
	if loud < 9 || loud > 11 {
		t.Errorf("%d lines of one client in ten seconds", loud)
	}
	now = now.Add(time.Minute)
	denied("uri:loud", "last")
	told := 0
	for _, e := range logs.All() {
		told += 1 + int(e.ContextMap()["not_logged"].(int64))
	}
	if told != 10_002 {
		t.Errorf("the lines stand for %d of 10,002", told)
	}
	logs.TakeAll()
	for i := range 10_000 { // many clients, ten a second
		now = now.Add(time.Millisecond)
		denied(fmt.Sprint("uri:", i), "x")
	}
	if n := logs.Len(); n < 100 || n > 111 {
		t.Errorf("%d lines of many clients in ten seconds", n)
	}
	if n := s.denialLog.owners.Len(); n != denialOwners {
		t.Errorf("%d are remembered", n)
	}
}

// TestDenialsTakeLittle: what is kept of a denial is cut, whatever the client writes.
func TestDenialsTakeLittle(t *testing.T) {
	b, long := newDenialBook(), strings.Repeat("x", 1<<16)
	from := &caller{identity: "dns:" + long, peer: &peerKey{address: netip.MustParsePrefix("10.0.0.1/32")}}
	var tally decisions
	tally.deny(newRig(t).origin, long, long, deniedName)
	b.note(zero, deniedTo(&settings{}, from, clip(long, maxNodeShown), "p"), &tally.denials[0])
	x := b.all()[0]
	if n := len(x.Identity) + len(x.TypeURL) + len(x.Name) + len(x.NodeID) + len(x.Reason); n > 2<<10 || x.Name == "" {
		t.Errorf("it takes %d bytes: %+v", n, x)
	}
	for by := range b.own {
		if len(by.identity) > maxBookedName+3 || by.address.IsValid() {
			t.Errorf("counted for %v", by)
		}
	}
	stranger := deniedTo(&settings{}, &caller{peer: from.peer}, "", "")
	if stranger.identity != "anonymous" || stranger.by.address != from.peer.address {
		t.Errorf("a stranger is counted as %v", stranger.by)
	}
}

// TestHeldPollIsDecidedOnce: a poll that is held, and looks again when something changes, is the
// decisions of one request.
func TestHeldPollIsDecidedOnce(t *testing.T) {
	restTest(t, func(c *Config, _ *ListenerConfig) {
		c.Timing.RESTHold, c.Rules = 20*time.Second, compiled(t, authz.Rule{Who: []string{"anonymous"}, Names: []string{"a", "b", "c"}})
	}, func(p *polling) {
		same := pollOf(`"versionInfo": "` + p.filled().version() + `"`)
		before := p.server.Decisions().Allowed
		held := p.later(clustersPath, same)
		time.Sleep(5 * time.Second)
		p.say(cds, "c=1")
		(<-held).want(t, "the set changes", http.StatusOK, "a", "b", "c")
		if n := p.server.Decisions().Allowed - before; n != 2 {
			t.Errorf("%d decisions on a stream and all of a type", n)
		}
	})
}
