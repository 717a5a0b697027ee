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

	"google.golang.org/grpc/codes"

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
  - { address: "127.0.0.1:0", tls: { cert: %q, key: %q, client_ca: %q } }
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
	i := &identities{
		ca: weirtest.NewAuthority(t, "ca"), dir: t.TempDir(),
		origin: relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience}),
	}
	for n, name := range []string{"server", "web", "bill", "late"} {
		i.ca.Issue(name, int64(n+1))
	}
	i.reloading = startReloading(t, i.text(originKeys))
	return i
}

// client is a client who is somebody: the subject of a certificate, "uid" or "anonymous". All have
// one node.
func (i *identities) client(who string, dialect relaytest.Dialect) *relaytest.Client {
	i.t.Helper()
	ports := i.active.Load().ports
	switch who {
	case "uid":
		return openClient(i.t, dial(i.t, "unix:"+ports[1].Addr().String()), dialect)
	case "anonymous":
		return openClient(i.t, dial(i.t, ports[2].Addr().String()), dialect)
	}
	return openClient(i.t, dial(i.t, ports[0].Addr().String(),
		withTLS(&tls.Config{RootCAs: i.ca.Pool, Certificates: []tls.Certificate{i.ca.Pair(who)}})), dialect)
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
	if _, page := i.get("/"); !strings.Contains(page, "clients of subject:CN=web") {
		t.Error("the page does not say whose a group is")
	}
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
