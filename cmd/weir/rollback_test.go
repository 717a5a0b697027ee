package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/relaytest"
)

// push has an origin come to its state of a number, as a control plane does that knows no order:
// the cluster of that number and no other, the route to it, and a listener. The endpoints of all
// clusters stay.
func push(o *relaytest.Origin, n int) {
	o.Batch(func() {
		o.Set(relaytest.EndpointType, clusterName(n), "1", relaytest.Endpoints(clusterName(n), "10.0.0.1:80"))
		o.Replace(relaytest.ClusterType, relaytest.Resource{Name: clusterName(n), Version: "1", Body: relaytest.EDSCluster(clusterName(n), "")})
		o.Set(relaytest.RouteType, "r", strconv.Itoa(n), relaytest.Route("r", clusterName(n)))
		o.Set(relaytest.ListenerType, "l", strconv.Itoa(n), relaytest.Listener("l", 1000+n))
	})
}

func clusterName(n int) string { return fmt.Sprint("c", n) }

// proxy is a client that has all types, as Envoy does.
type proxy struct{ *relaytest.Client }

func openProxy(t *testing.T, w *running, dialect relaytest.Dialect, group string) *proxy {
	t.Helper()
	return openProxyAt(t, w.listenAddress(), dialect, group)
}

func openProxyAt(t *testing.T, address string, dialect relaytest.Dialect, group string) *proxy {
	t.Helper()
	c := relaytest.NewClient(t, dial(t, address), relaytest.ClientConfig{Dialect: dialect, Patience: patience})
	c.Open(relaytest.Node("proxy-of-"+group, group))
	c.Request(relaytest.ClusterType)
	c.Request(relaytest.ListenerType)
	c.Request(relaytest.RouteType, "r")
	return &proxy{c}
}

// at waits until the client is at the origin's state of a number, in all types.
func (p *proxy) at(n int, sentence string) {
	listener := string(relaytest.Listener("l", 1000+n).Value)
	p.Await(0, func(s *relaytest.State) bool {
		return slices.Equal(s.Names(relaytest.ClusterType), []string{clusterName(n)}) &&
			routeOf([]byte(s.Body(relaytest.RouteType, "r"))) == clusterName(n) && s.Body(relaytest.ListenerType, "l") == listener
	}, fmt.Sprintf("%s: state %d", sentence, n))
}

// routeOf is the cluster that a route leads to.
func routeOf(body []byte) string {
	r := &route.RouteConfiguration{}
	if proto.Unmarshal(body, r) != nil || len(r.VirtualHosts) == 0 {
		return ""
	}
	return r.VirtualHosts[0].Routes[0].GetRoute().GetCluster()
}

// wantNoGap wants that the route has led to a cluster that the client had, after every response
// that it got.
func (p *proxy) wantNoGap(t *testing.T) {
	t.Helper()
	p.CheckClean()
	clusters, leads := map[string]bool{}, ""
	for _, r := range p.Responses("") {
		if r.TypeURL() == relaytest.ClusterType && r.SotW != nil {
			clear(clusters)
		}
		for _, i := range r.Items {
			switch r.TypeURL() {
			case relaytest.ClusterType:
				clusters[i.Name] = true
			case relaytest.RouteType:
				leads = routeOf(i.Body.Value)
			}
		}
		if r.TypeURL() == relaytest.ClusterType && r.Delta != nil {
			for _, name := range r.Delta.RemovedResources {
				delete(clusters, name)
			}
		}
		if leads != "" && !clusters[leads] {
			t.Fatalf("after response %d the route leads to %s, and the client has %v", r.N, leads, clusters)
		}
	}
}

// says runs a command against the weir and wants its exit code, and what it prints to contain.
func (r *running) says(code int, want string, args ...string) string {
	r.t.Helper()
	got, stdout, stderr := weir(r.t, append(args, "--admin", r.admin.listener.Addr().String())...)
	if got != code || !strings.Contains(stdout+stderr, want) {
		r.t.Fatalf("weir %s: %d\n%s%s\nwant %d, %q", strings.Join(args, " "), got, stdout, stderr, code, want)
	}
	return stdout
}

// keyOf is the key of the group of a node cluster.
func (r *running) keyOf(cluster string) string {
	r.t.Helper()
	var all struct {
		Groups []struct {
			Key     string
			Cluster string `json:"node_cluster"`
		}
	}
	r.state("/groups", &all)
	for _, g := range all.Groups {
		if g.Cluster == cluster {
			return g.Key
		}
	}
	r.t.Fatalf("there is no group of cluster %s", cluster)
	return ""
}

// rolling is a weir with two groups that were at the states 1, 2 and 3 of their origin.
type rolling struct {
	*running
	origin  *relaytest.Origin
	config  string
	proxies []*proxy
	began   [4]time.Time // when all were at the state of that number
}

// rollingConfig is the configuration of an origin. cache is what it says of that.
func rollingConfig(origin *relaytest.Origin, upstream relaytest.Dialect, cache string) string {
	return fmt.Sprintf(`
origins: [{ name: mesh, grpc: { addresses: [%q], dialect: %s }, group_by: [cluster], canary: { bake: 1s } }]
cache: { %s }
timing: { settle: 20ms, firm_settle: 200ms, gather: 500ms, pause: 20ms, backoff: { base: 20ms, max: 100ms }, drain: 200ms }
`, origin.Net().Addr(), upstream, cache)
}

func startRolling(t *testing.T, upstream relaytest.Dialect, cache string, with ...func(*process)) *rolling {
	t.Helper()
	r := &rolling{origin: relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})}
	r.config = freePorts + rollingConfig(r.origin, upstream, cache)
	r.running = startWeir(t, r.config, with...)
	r.push(t)
	return r
}

// push has proxies of two groups connect, and takes the origin through its states.
func (r *rolling) push(t *testing.T) {
	t.Helper()
	push(r.origin, 1)
	for _, dialect := range bothDialects {
		r.proxies = append(r.proxies, openProxy(t, r.running, dialect, "edge"), openProxy(t, r.running, dialect, "core"))
	}
	r.at(1, "the first state comes")
	r.proxies[0].WantIdle(500 * time.Millisecond) // firm_settle, and more
	for n := 1; n <= 3; n++ {
		push(r.origin, n)
		r.at(n, "pushed")
		time.Sleep(5 * time.Millisecond)
		r.began[n] = time.Now()
		time.Sleep(5 * time.Millisecond)
	}
}

func (r *rolling) at(n int, sentence string) {
	for _, p := range r.proxies {
		p.at(n, sentence)
	}
}

func moment(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// TestRollback: an operator takes all clients of an origin back to an earlier state, over all types,
// from there to another one, and forward again.
func TestRollback(t *testing.T) {
	for _, upstream := range bothDialects {
		t.Run(string(upstream), func(t *testing.T) { testRollback(t, upstream) })
	}
}

func testRollback(t *testing.T, upstream relaytest.Dialect) {
	r := startRolling(t, upstream, "")
	r.says(exitOK, "mesh: group ", "rollback", "mesh", "--to", moment(r.began[2]))
	r.at(2, "back")
	said := r.logs.FilterMessageSnippet("rolled back").All()
	if len(said) != 2 || said[0].ContextMap()["by"] != "anonymous" || said[0].ContextMap()["to"] != moment(r.began[2]) || said[0].ContextMap()["group"] == said[1].ContextMap()["group"] {
		t.Errorf("the log says %v", said)
	}

	r.origin.Set(relaytest.EndpointType, "c2", "2", relaytest.Endpoints("c2", "10.0.0.9:80"))
	p := r.proxies[0]
	p.Request(relaytest.EndpointType, "c2")
	p.AwaitNames(relaytest.EndpointType, "endpoints are there", "c2")
	was := p.Body(relaytest.EndpointType, "c2")
	r.origin.Set(relaytest.EndpointType, "c2", "3", relaytest.Endpoints("c2", "10.0.0.10:80"))
	p.Await(0, func(s *relaytest.State) bool { return s.Body(relaytest.EndpointType, "c2") != was }, "endpoints keep moving")
	push(r.origin, 4)
	await(t, "what the origin has now waits", func() bool { b := r.mesh().Rollback; return b != nil && b.Waiting >= 4 })
	late := openProxy(t, r.running, relaytest.Delta, "edge")
	late.at(2, "a new client")
	r.proxies = append(r.proxies, late)
	fresh := openProxy(t, r.running, relaytest.SotW, "fresh")
	fresh.at(4, "a new group gets what there is")
	fresh.WantIdle(500 * time.Millisecond)
	push(r.origin, 5)
	fresh.WantIdle(500 * time.Millisecond)
	fresh.at(4, "and stays at it")

	b := r.mesh().Rollback
	if !b.Whole || b.By != "anonymous" || b.To != moment(r.began[2]) || len(b.Groups) != 2 || time.Since(b.Since) > time.Minute || len(b.Groups[0].State) < 12 {
		t.Errorf("/origins has %+v", b)
	}
	r.says(exitOK, "the origin rolled back to "+b.To+" by anonymous", "status")
	r.says(exitFailed, "mesh is rolled back, and frozen with that: weir rollforward mesh ends both", "unfreeze", "mesh")
	if code, body := fetch(t, http.MethodPost, "http://"+r.admin.listener.Addr().String()+"/guard/release"); code != http.StatusOK || !strings.HasPrefix(body, "no removals are held") {
		t.Errorf("the guard: %d %s", code, body)
	}

	r.says(exitOK, "held at state", "rollback", "mesh", "--to", moment(r.began[1]))
	r.at(1, "farther back")
	r.origin.Restart()
	await(t, "the origin answers again", func() bool { return len(r.origin.Open()) > 0 })
	push(r.origin, 6)
	p.WantIdle(300 * time.Millisecond)
	r.at(1, "it stays")
	fresh.at(4, "so does the new group")

	r.says(exitOK, "follows the origin again", "rollforward", "mesh")
	r.proxies = append(r.proxies, fresh)
	r.at(6, "forward")
	r.says(exitOK, "mesh was not rolled back", "rollforward", "mesh")
	if o := r.mesh(); o.Rollback != nil || !o.Frozen.IsZero() {
		t.Errorf("/origins has %+v, frozen %v", o.Rollback, o.Frozen)
	}
	push(r.origin, 7)
	r.at(7, "and it goes on")
	for _, p := range r.proxies {
		p.wantNoGap(t)
	}
}
