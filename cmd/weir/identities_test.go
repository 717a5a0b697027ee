package main

import (
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// identities is a weir with a listener for certificates, one for the users of a socket and one for
// anybody.
type identities struct {
	*reloading
	ca     *weirtest.Authority
	origin *relaytest.Origin
	dir    string
}

func (i *identities) text(originKeys string) string {
	return fmt.Sprintf(`
listeners:
  - { address: "127.0.0.1:0", tls: { cert: %q, key: %q, client_ca: %q }, dedicated: [eds] }
  - { address: "unix://%s" }
  - { address: "127.0.0.2:0" }
admin: { address: "127.0.0.1:0" }
origins: [{ name: mesh, grpc: { addresses: [%q] }, %s }]
cache: { snapshot: { path: %q, interval: 100ms } }
timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms }, cold_wait: 1s, drain: 200ms }
`, i.ca.Path("server.pem"), i.ca.Path("server.key"), i.ca.Path("ca.pem"), filepath.Join(i.dir, "s"),
		i.origin.Net().Addr(), originKeys, filepath.Join(i.dir, "kept"))
}

func startIdentities(t *testing.T, originKeys string) *identities {
	t.Helper()
	return startIdentitiesAt(t, originKeys, relaytest.OriginConfig{Serving: true, Patience: patience})
}

func startIdentitiesAt(t *testing.T, originKeys string, cfg relaytest.OriginConfig, more ...string) *identities {
	t.Helper()
	i := &identities{
		ca: weirtest.NewAuthority(t, "ca"), dir: t.TempDir(),
		origin: relaytest.NewOrigin(t, relaytest.TCP(), cfg),
	}
	for n, name := range []string{"server", "web", "bill", "late"} {
		i.ca.Issue(name, int64(n+1))
	}
	i.reloading = startReloading(t, i.text(originKeys)+strings.Join(more, ""))
	return i
}

// dial connects as somebody: the subject of a certificate, "uid" or "anonymous".
func (i *identities) dial(who string) *grpc.ClientConn {
	i.t.Helper()
	ports := i.active.Load().ports
	switch who {
	case "uid":
		return dial(i.t, "unix:"+ports[1].Addr().String())
	case "anonymous":
		return dial(i.t, ports[2].Addr().String())
	}
	return dial(i.t, ports[0].Addr().String(),
		withTLS(&tls.Config{RootCAs: i.ca.Pool, Certificates: []tls.Certificate{i.ca.Pair(who)}}))
}

// client is a client who is somebody. All have one node.
func (i *identities) client(who string, dialect relaytest.Dialect) *relaytest.Client {
	i.t.Helper()
	return openClient(i.t, i.dial(who), dialect)
}

// groups are the identities of the clients' groups, by key, as /groups has them, and of the clients
// of each, as /clients has them.
func (i *identities) groups() (groups map[string]string, clients map[string][]string) {
	i.t.Helper()
	var shown struct {
		Groups []struct{ Key, Identity string }
	}
	i.state("/groups", &shown)
	var streams struct {
		Clients []struct{ Group, Identity string }
	}
	i.state("/clients", &streams)
	groups, clients = map[string]string{}, map[string][]string{}
	for _, g := range shown.Groups {
		groups[g.Key] = g.Identity
	}
	for _, c := range streams.Clients {
		clients[c.Group] = append(clients[c.Group], c.Identity)
	}
	return groups, clients
}

// TestTwoIdentitiesOfOneNode: where group_by has the identity, clients of one node with two
// certificates, a socket and nothing to show are in groups of their own, each with an upstream
// stream, and those of one identity share. It is so after reloads, and after a restart while the
// origin is away: then a new identity is given nothing of what the others had.
func TestTwoIdentitiesOfOneNode(t *testing.T) {
	const by, without = "group_by: [identity, cluster]", "group_by: [cluster]"
	i := startIdentities(t, by)
	i.origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	who := []string{"web", "web", "bill", "uid", "anonymous"}
	uid := fmt.Sprintf("uid:%d", os.Getuid())
	all := map[string]int{"subject:CN=web": 2, "subject:CN=bill": 1, uid: 1, "anonymous": 1}
	serve := func(sentence string) (clients []*relaytest.Client) {
		for n, name := range who {
			c := i.client(name, bothDialects[n%2])
			c.Request(relaytest.ClusterType)
			c.AwaitNames(relaytest.ClusterType, sentence, "a")
			clients = append(clients, c)
		}
		return clients
	}
	check := func(sentence string) {
		t.Helper()
		groups, clients := i.groups()
		got := map[string]int{}
		for key, members := range clients {
			for _, m := range members {
				if m != groups[key] {
					t.Errorf("%s: %s is in the group of %q", sentence, m, groups[key])
				}
				got[m]++
			}
		}
		if !maps.Equal(got, all) || len(groups) != len(all) {
			t.Errorf("%s: %v in %d groups, want %v", sentence, got, len(groups), all)
		}
	}
	ended := func(clients []*relaytest.Client) {
		t.Helper()
		for _, c := range clients {
			if code := c.AwaitEnd("the stream ends, since its group is another"); code != codes.Unavailable {
				t.Errorf("ended with %s", code)
			}
			c.CheckClean()
		}
	}

	clients := serve("each is served")
	check("at first")
	if n := len(i.origin.Open()); n != len(all) {
		t.Errorf("%d streams at the origin, want %d", n, len(all))
	}
	if code, stdout, _ := weir(t, "status", "--admin", i.admin.listener.Addr().String()); code != exitOK ||
		!strings.Contains(stdout, "IDENTITY") || !strings.Contains(stdout, "subject:CN=bill") {
		t.Errorf("weir status: %d\n%s", code, stdout)
	}
	await(t, "the page says whose a group is", func() bool {
		_, page := i.get("/overview")
		return strings.Contains(page, `"identity": "subject:CN=web"`)
	})
	if code, stdout, _ := weir(t, "groups", "suggest", "--admin", i.admin.listener.Addr().String()); code != exitOK ||
		!strings.Contains(stdout, "group_by: [identity, cluster]") || !strings.Contains(stdout, "identity") {
		t.Errorf("weir groups suggest: %d\n%s", code, stdout)
	}

	i.applied(i.text(without))
	ended(clients)
	clients = serve("and again, in one group")
	if groups, of := i.groups(); len(groups) != 1 || len(of) != 1 || slices.Sorted(maps.Values(groups))[0] != "" {
		t.Errorf("without the identity: %v, %v", groups, of)
	}
	i.applied(i.text(by))
	ended(clients)
	serve("and again, each in its own")
	check("after two reloads")

	await(t, "the groups are on disk", func() bool { return snapshotOf(t, i.admin.listener.Addr().String()).Resources == len(all) })
	i.reloading.end()
	i.origin.Stop()
	i.begin(t)
	clients = serve("the origin is away, and weir was restarted")
	check("after a restart")
	late := i.client("late", relaytest.Delta)
	late.Request(relaytest.ClusterType)
	if code := late.AwaitEnd("nothing is known for this identity"); code != codes.Unavailable || late.Count(relaytest.ClusterType) != 0 {
		t.Errorf("%s, with %d resources", code, late.Count(relaytest.ClusterType))
	}
	for _, c := range clients {
		c.CheckClean()
	}
}

// TestOriginIsToldIdentities: with identity_to the origin finds the identity of the client in the
// node, on streams of groups by identity, dedicated ones and those of load reports. A client cannot
// set it itself: whatever it claims under the key, the origin is never told.
func TestOriginIsToldIdentities(t *testing.T) {
	reports := make(chan []byte, 10)
	i := startIdentitiesAt(t, "group_by: [identity, cluster, metadata], identity_to: metadata.WHO", relaytest.OriginConfig{
		Serving: true, Patience: patience, Loads: func(wire grpc.ServerStream) error {
			for {
				var b []byte
				if err := wire.RecvMsg(&b); err != nil {
					return nil //nolint:nilerr // the client has gone
				}
				reports <- b
			}
		},
	})
	i.origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	i.origin.Set(relaytest.EndpointType, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	told := func(n *corev3.Node) (string, bool) {
		v, is := n.GetMetadata().GetFields()["WHO"]
		return v.GetStringValue(), is
	}
	claims := map[string]string{"web": "subject:CN=bill", "bill": "subject:CN=web", "uid": "uid:0", "anonymous": "subject:CN=web"}
	names := map[string]string{"web": "subject:CN=web", "bill": "subject:CN=bill", "uid": fmt.Sprintf("uid:%d", os.Getuid()), "anonymous": "anonymous"}
	for n, who := range slices.Sorted(maps.Keys(claims)) {
		node := relaytest.Node("node-"+who, "edge")
		node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"WHO": structpb.NewStringValue(claims[who])}}
		conn := i.dial(who)
		c := relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: bothDialects[n%2], Patience: patience})
		c.Open(node)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, "each is served", "a")
		c.Request(relaytest.EndpointType, "a")
		c.AwaitNames(relaytest.EndpointType, "also on a dedicated stream, at one of the listeners", "a")

		loads := relaytest.NewClient(t, conn, relaytest.ClientConfig{Method: relaytest.LoadMethod, Patience: patience})
		loads.Open(nil)
		for range 2 { // the second need not have it, and might have another
			b, err := proto.Marshal(&loadstats.LoadStatsRequest{Node: node})
			if err != nil {
				t.Fatal(err)
			}
			loads.SendRaw(b)
			var r loadstats.LoadStatsRequest
			if err := proto.Unmarshal(<-reports, &r); err != nil {
				t.Fatal(err)
			}
			if got, _ := told(r.Node); got != names[who] || r.Node.GetId() != node.Id {
				t.Errorf("load reports of %s: the origin is told %q", who, got)
			}
		}
		if who == "web" {
			loads.SendRaw([]byte{0xff})
			if code := loads.AwaitEnd("what cannot be read could name anybody"); code != codes.InvalidArgument {
				t.Errorf("ended with %s", code)
			}
		}
	}
	groups, seen := map[string]int{}, map[string]string{}
	for _, r := range i.origin.Requests() {
		n := r.Node()
		if n == nil {
			continue
		}
		got, is := told(n)
		who, own := strings.CutPrefix(n.GetId(), "node-")
		switch {
		case own && got != names[who]:
			t.Errorf("a dedicated stream of %s: the origin is told %q", who, got)
		case own:
			seen[who] = got
		case is:
			groups[got]++
		}
	}
	if len(groups) != 4 || groups["uid:0"] > 0 != (os.Getuid() == 0) {
		t.Errorf("the streams of groups tell %v", groups)
	}
	if len(seen) != 2 { // the listener with certificates has dedicated types
		t.Errorf("the dedicated streams tell %v", seen)
	}
	if shown, _ := i.groups(); len(shown) != 4+2 {
		t.Errorf("%d groups: what is claimed makes one more", len(shown))
	}
}
