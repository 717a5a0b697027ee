package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// replica is the configuration of one, with what it says of cache.seed. dir: of the snapshot;
// empty: it is off.
func replica(origin, dir, seed string) string {
	return strings.Replace(keptConfig(origin, "delta", dir), "cache: {", "cache: { seed: { "+seed+" },", 1)
}

const answers = `listen: "127.0.0.1:0"`

func asks(addresses ...string) string {
	text, _ := json.Marshal(addresses)
	return "peers: " + string(text)
}

// seedAddress is where siblings ask a process.
func (r *running) seedAddress() string { return r.siblings.port.listener.Addr().String() }

// port waits until a process listens on one of its HTTP ports.
func (c *child) port(name string) (address string) {
	c.t.Helper()
	await(c.t, "the process listens", func() bool {
		for line := range strings.Lines(c.errs.String()) {
			var entry struct{ Msg, Address, Port string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" && entry.Port == name {
				address = entry.Address
			}
		}
		return address != ""
	})
	return address
}

// readyOf is what /readyz says of the only origin.
func readyOf(t *testing.T, adminPort string) admin.OriginReadiness {
	t.Helper()
	code, body := fetch(t, http.MethodGet, "http://"+adminPort+"/readyz")
	var page admin.Readiness
	if err := json.Unmarshal([]byte(body), &page); code != http.StatusOK || err != nil || len(page.Origins) != 1 {
		t.Fatalf("/readyz: %d %v %s", code, err, body)
	}
	return page.Origins[0]
}

// servesWithin is how soon a replica has to serve that starts cold, as the log tells. The tests
// allow five times as much, for machines that are busy.
const servesWithin = 5 * time.Second

// TestColdFromSibling: the origin is dead, and a replica starts that has nothing. It is ready and
// serves what its sibling has, and so does one that asks this one, after the first has been killed.
// What they have is on their own disks then. WEIR_SNAPSHOT_CLUSTERS says how many resources.
func TestColdFromSibling(t *testing.T) {
	n := 500
	if text := os.Getenv("WEIR_SNAPSHOT_CLUSTERS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Batch(func() {
		for i := range n {
			name := fmt.Sprintf("cluster-%06d", i)
			origin.Set(relaytest.ClusterType, name, "1", relaytest.EDSCluster(name, strings.Repeat("x", 200)))
		}
		origin.Set(relaytest.EndpointType, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	})
	top := t.TempDir()
	start := func(dir, seed string) *child {
		return spawn(t, os.Args[0], "run", "-c", write(t, replica(origin.Net().Addr(), dir, seed)))
	}
	dir := filepath.Join(top, "first")
	first := start(dir, answers)
	address, adminPort := first.addresses()
	large := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
	}
	client := openClient(t, dial(t, address, large...), relaytest.Delta)
	client.Request(relaytest.ClusterType)
	client.Request(relaytest.EndpointType, "a")
	first.awaitSaved(adminPort, n+1)
	await(t, "the set is whole", func() bool { return wholeOnDisk(t, dir) })
	origin.Stop()

	before := first
	for _, name := range []string{"second", "third"} {
		from := before.port("seed")
		began := time.Now()
		next := start(filepath.Join(top, name), answers+", "+asks(from))
		address, adminPort := next.addresses()
		for _, dialect := range bothDialects {
			c := openClient(t, dial(t, address, large...), dialect)
			c.Request(relaytest.ClusterType)
			await(t, "a new client is served the set", func() bool { return c.Count(relaytest.ClusterType) == n })
			c.Request(relaytest.EndpointType, "a")
			c.AwaitNames(relaytest.EndpointType, "and by name", "a")
			took := time.Since(began)
			t.Logf("%s, %s: a client has all %s after the start", name, dialect, took.Round(time.Millisecond))
			if took > 5*servesWithin {
				t.Errorf("%s: a client is served %s after the start, want %s", name, took, servesWithin)
			}
			c.CheckClean()
		}
		if r := readyOf(t, adminPort); !r.Restored || r.Reached || r.RestoredFrom != "sibling "+from {
			t.Errorf("/readyz of the %s: %+v", name, r)
		}
		if s := next.awaitSaved(adminPort, n+1); s.Restored != n+1 || s.From != "sibling "+from {
			t.Errorf("/origins of the %s: %+v", name, s)
		}
		if !wholeOnDisk(t, filepath.Join(top, name)) {
			t.Errorf("the set of the %s is not whole on disk", name)
		}
		before.signal(syscall.SIGKILL)
		before.waitEnd()
		before = next
	}
}

// TestVouchedIsHandedOn: what a replica took is as old at the next one as it was at the first.
func TestVouchedIsHandedOn(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	first := startFull(t, origin.Net().Addr(), answers)
	origin.Stop()
	await(t, "the origin is lost", func() bool { return first.keptOrigins()[0].Away })
	at := first.vouchedOrigins()[0].Vouched
	second := startWeir(t, replica(origin.Net().Addr(), "", answers+", "+asks(first.seedAddress())))
	await(t, "it has it", func() bool { return second.ready.Load() || second.siblings.settled.Load() })
	third := startWeir(t, replica(origin.Net().Addr(), "", answers+", "+asks(second.seedAddress())))
	await(t, "it has it too", func() bool { return third.siblings.settled.Load() })
	if got := third.vouchedOrigins()[0]; at.IsZero() || !got.Vouched.Equal(at) || third.kept.from != "sibling "+second.seedAddress() {
		t.Errorf("%+v of %s, want %s", got, third.kept.from, at)
	}
}

// startFull starts a replica that a client has asked for everything, and waits until it has that.
func startFull(t *testing.T, origin, seed string) *running {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kept")
	w := startWeir(t, replica(origin, dir, seed))
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	await(t, "it is full", func() bool {
		return c.Count(relaytest.ClusterType) > 0 && w.kept.Status().Resources == c.Count(relaytest.ClusterType) && wholeOnDisk(t, dir)
	})
	return w
}

// up waits until a replica has taken what there is, and serves.
func (r *running) up() *running {
	r.t.Helper()
	await(r.t, "it has started", func() bool { return r.logs.FilterMessage("listening").Len() > 1 })
	return r
}

// TestLocalSnapshotStays: nothing that is on the own disk is replaced, however new or full a
// sibling is.
func TestLocalSnapshotStays(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	dir := filepath.Join(t.TempDir(), "own")
	own := startWeir(t, replica(origin.Net().Addr(), dir, answers))
	c := openClient(t, dial(t, own.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	await(t, "it is on disk", func() bool { return own.kept.Status().Resources == 1 && wholeOnDisk(t, dir) })
	own.end()
	origin.Set(relaytest.ClusterType, "b", "1", relaytest.EDSCluster("b", "x"))
	other := startFull(t, origin.Net().Addr(), answers)
	origin.Stop()
	again := startWeir(t, replica(origin.Net().Addr(), dir, answers+", "+asks(other.seedAddress()))).up()
	c = openClient(t, dial(t, again.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "it serves what it had", "a")
	if again.kept.from != fromSnapshot || again.kept.Status().Restored != 1 || other.logs.FilterMessageSnippet("sent the state to a sibling").Len() > 0 {
		t.Errorf("restored %d from %s", again.kept.Status().Restored, again.kept.from)
	}
}

// TestFirstInstall: where nobody has anything, all start at once, and wait for their origins as
// without siblings.
func TestFirstInstall(t *testing.T) {
	a := startWeir(t, replica("127.0.0.1:1", "", answers))
	began := time.Now()
	b := startWeir(t, replica("127.0.0.1:1", "", answers+", timeout: 10m, "+asks(a.seedAddress(), "127.0.0.1:1"))).up()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it starts after %s", took)
	}
	if b.logs.FilterMessageSnippet("no seed found").Len() != 1 {
		t.Error("it does not say so")
	}
	if code, body := b.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, `"state": "starting"`) || strings.Contains(body, "restored") {
		t.Errorf("/readyz: %d %s", code, body)
	}
}

// TestOneself: a process that finds itself among its siblings asks itself for nothing.
func TestOneself(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	began := time.Now()
	w := startWeir(t, replica("127.0.0.1:1", "", fmt.Sprintf("listen: %q, timeout: 10m, ", address)+asks(address))).up()
	if n := w.logs.FilterMessageSnippet("no seed found").FilterField(zap.Int("siblings", 0)).Len(); n != 1 || time.Since(began) > patience/2 {
		t.Errorf("it finds itself: %v", w.logs.All())
	}
}

// TestSeedTLS: replicas know each other by their certificates, on both sides, and none of those who
// are no sibling gets or gives anything. New certificates are used as soon as they are there.
func TestSeedTLS(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	ours, theirs := weirtest.NewAuthority(t, "ours"), weirtest.NewAuthority(t, "theirs")
	for _, a := range []*weirtest.Authority{ours, theirs} {
		a.IssueSPIFFE("weir", 2, "spiffe://corp/ns/mesh/sa/weir")
		a.IssueSPIFFE("other", 3, "spiffe://corp/ns/mesh/sa/other")
	}
	secured := func(cert, key, ca, allowed string) string {
		return fmt.Sprintf(`tls: { cert: %q, key: %q, ca: %q }, peers_allowed: ["spiffe://corp/ns/mesh/sa/%s"]`, cert, key, ca, allowed)
	}
	of := func(a, ca *weirtest.Authority, name, allowed string) string {
		return secured(a.Path(name+".pem"), a.Path(name+".key"), ca.Path("ca.pem"), allowed)
	}
	mounted := newVolume(t)
	files := func(a *weirtest.Authority) map[string]string {
		return map[string]string{"tls.crt": a.Path("weir.pem"), "tls.key": a.Path("weir.key"), "ca.crt": a.Path("ca.pem")}
	}
	mounted.swap(files(ours))
	full := startFull(t, origin.Net().Addr(), answers+", "+secured(mounted.path("tls.crt"), mounted.path("tls.key"), mounted.path("ca.crt"), "weir"))
	origin.Stop()
	join := func(tls string) *running {
		return startWeir(t, replica(origin.Net().Addr(), "", asks(full.seedAddress())+", "+tls)).up()
	}
	for what, row := range map[string]struct {
		tls  string
		want bool
		said string
	}{
		"siblings":                 {of(ours, ours, "weir", "weir"), true, "restored from a seed"},
		"who joins is no sibling":  {of(ours, ours, "other", "weir"), false, "bad certificate"},
		"who is asked is none":     {of(ours, ours, "weir", "other"), false, "does not fit cache.seed.peers_allowed"},
		"of another authority":     {of(theirs, ours, "weir", "weir"), false, "unknown certificate authority"},
		"trusts another authority": {of(ours, theirs, "weir", "weir"), false, "certificate signed by unknown authority"},
		"in plain text":            {"", false, ""},
	} {
		w := join(row.tls)
		text := ""
		for _, e := range w.logs.All() {
			text += fmt.Sprintln(e.Message, e.ContextMap())
		}
		if got := w.kept.from != ""; got != row.want || !strings.Contains(text, row.said) {
			t.Errorf("%s: it is given something: %t, want %t, and %q in\n%s", what, got, row.want, row.said, text)
		}
		w.end()
	}
	mounted.swap(files(theirs))
	await(t, "the other certificate is in use", func() bool { return join(of(theirs, theirs, "weir", "weir")).kept.from != "" })
}

// TestSecretsOverSeed: what has a private key in it goes to a sibling only sealed, and is counted
// otherwise. Who lacks the key is told which it is.
func TestSecretsOverSeed(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "secured", "1", securedCluster(t, "secured"))
	origin.Set(relaytest.ClusterType, "plain", "1", relaytest.EDSCluster("plain", "x"))
	keys := keyFile(t, 'x')
	keyed := func(text string) string {
		return strings.Replace(text, "snapshot: {", fmt.Sprintf("snapshot: { key_file: %q,", keys), 1)
	}
	for _, sealed := range []bool{true, false} {
		text := replica(origin.Net().Addr(), "", answers)
		if sealed {
			text = keyed(text)
		}
		full := startWeir(t, text)
		c := openClient(t, dial(t, full.listenAddress()), relaytest.Delta)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, "it is full", "plain", "secured")
		await(t, "and knows that", func() bool {
			w := startWeir(t, keyed(replica("127.0.0.1:1", "", asks(full.seedAddress())))).up()
			defer w.end()
			c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
			defer c.Close()
			c.Request(relaytest.ClusterType)
			if sealed {
				return w.kept.from != "" && w.logs.FilterMessageSnippet("has no resources with private keys").Len() == 0
			}
			return w.logs.FilterMessageSnippet("has no resources with private keys").Len() == 1
		})
		if w := startWeir(t, replica("127.0.0.1:1", "", asks(full.seedAddress()))).up(); sealed {
			text := fmt.Sprint(w.logs.FilterMessageSnippet("state is unusable").All())
			if w.kept.from != "" || !strings.Contains(text, full.kept.keys.Load().ID()) {
				t.Errorf("without the key: %q, and says %s", w.kept.from, text)
			}
		}
	}
}

// TestSeedFile: an export that somebody puts there is what a replica starts with if it has no
// sibling, also if it comes late.
func TestSeedFile(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	full := startFull(t, origin.Net().Addr(), answers)
	file := filepath.Join(t.TempDir(), "seed.weir")
	dir := full.config().Cache.Snapshot.Path
	full.end()
	origin.Stop()
	w := startWeir(t, replica(origin.Net().Addr(), "", fmt.Sprintf("timeout: 1m, file: %q", file)))
	time.AfterFunc(200*time.Millisecond, func() {
		_ = os.Rename(snapshot.File(dir), file)
	})
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "it serves what the file has", "a")
	if w.kept.from != "file "+file {
		t.Errorf("restored from %q", w.kept.from)
	}
}

// TestFreezeIsJoined: what an operator froze at one replica is frozen at one that starts with its
// seed, and at one that starts with nothing else.
func TestFreezeIsJoined(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	full := startFull(t, origin.Net().Addr(), answers)
	empty := startWeir(t, replica(origin.Net().Addr(), "", answers)).up()
	since := time.Now().Truncate(time.Millisecond).UTC()
	for _, w := range []*running{full, empty} {
		w.freezes.join("mesh", []order{{since, since}})
		next := startWeir(t, replica(origin.Net().Addr(), "", asks(w.seedAddress()))).up()
		if at, frozen := next.table.Origin("mesh").Frozen(); !frozen || !at.Equal(since) {
			t.Errorf("frozen %t since %s, want %s", frozen, at, since)
		}
	}
}

// TestEndsWhileItAsks: a process that waits for a seed is alive and not ready, and ends if it is
// told to.
func TestEndsWhileItAsks(t *testing.T) {
	files := newFiles(t)
	w := startWeir(t, freePorts+filesOrigin(files)+fmt.Sprintf("cache: { seed: { timeout: 10m, file: %q } }\n", filepath.Join(t.TempDir(), "never")))
	if code, body := w.get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d %s", code, body)
	}
	if code, body := w.get("/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "starting: ") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	w.end()
}

// TestSeedMetrics: transfers are counted on both sides.
func TestSeedMetrics(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	full := startFull(t, origin.Net().Addr(), answers)
	next := startWeir(t, replica(origin.Net().Addr(), "", asks(full.seedAddress()))).up()
	for role, w := range map[string]*running{"served": full, "taken": next} {
		await(t, "it is counted", func() bool {
			_, body := w.get("/metrics")
			return strings.Contains(body, fmt.Sprintf("weir_seed_transfers_total{result=\"ok\",role=%q} 1\n", role))
		})
	}
}

// TestSeedReload: changes of cache.seed need a restart.
func TestSeedReload(t *testing.T) {
	parse := func(seed string) *config.Config {
		cfg, err := config.Parse("weir.yaml", []byte(replica("127.0.0.1:1", "", seed)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	before := parse(answers)
	for _, seed := range []string{"timeout: 3s", answers + ", timeout: 3s", answers + ", peers: ['127.0.0.1:1']", answers + ", file: x"} {
		if err := parse(seed).CheckReload(before); err == nil || !strings.Contains(err.Error(), "cache.seed") {
			t.Errorf("%s: %v", seed, err)
		}
	}
}

// TestSiblingsOfThePage: the page's configuration is that of two replicas, with paths, ports and a
// control plane that are there. The second one starts with what the first one has.
func TestSiblingsOfThePage(t *testing.T) {
	fenced, _ := blocksOf(t)
	at := slices.IndexFunc(fenced, func(b block) bool { return b.first == "# siblings.yaml" })
	if at < 0 {
		t.Fatal("the page does not have it any more")
	}
	ca := weirtest.NewAuthority(t, "ca")
	ca.IssueSPIFFE("weir", 2, "spiffe://corp/ns/mesh/sa/weir")
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	start := func(peer string) (*running, string) {
		dir := filepath.Join(t.TempDir(), "kept")
		text := strings.NewReplacer(
			"/etc/weir/tls/tls.crt", ca.Path("weir.pem"), "/etc/weir/tls/tls.key", ca.Path("weir.key"), "/etc/weir/tls/ca.crt", ca.Path("ca.pem"),
			"/var/lib/weir }", dir+", interval: 100ms }", "0.0.0.0:18080", "127.0.0.1:0", "0.0.0.0:19082", "127.0.0.1:0",
			"dns:///weir-headless:19082", peer, "control-plane:18000", origin.Net().Addr(),
		).Replace(fenced[at].text)
		return startWeir(t, text+"admin: { address: \"127.0.0.1:0\" }\n").up(), dir
	}
	first, dir := start("127.0.0.1:1")
	c := openClient(t, dial(t, first.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	await(t, "the first is full", func() bool { return first.kept.Status().Resources == 1 && wholeOnDisk(t, dir) })
	origin.Stop()
	second, _ := start(first.seedAddress())
	c = openClient(t, dial(t, second.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "and so is the second", "a")
}

// TestRollingUpdateLosesNothing: three replicas serve clients of three groups, each one of its own.
// The origin dies, and the replicas are replaced one after the other, with nothing on disk. In the
// end each new replica serves the clients of all groups.
func TestRollingUpdateLosesNothing(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	origin.Set(relaytest.EndpointType, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	groups := []string{"red", "green", "blue"}
	ask := func(w *running, group string) *relaytest.Client {
		c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: relaytest.Delta, Patience: patience})
		c.Open(relaytest.Node("client", group))
		c.Request(relaytest.ClusterType)
		c.Request(relaytest.EndpointType, "a")
		return c
	}
	var replicas []*running
	for _, group := range groups {
		dir := filepath.Join(t.TempDir(), "kept")
		w := startWeir(t, strings.Replace(replica(origin.Net().Addr(), dir, answers), "group_by: []", "group_by: [cluster]", 1))
		ask(w, group)
		await(t, "it has its group", func() bool { return w.kept.Status().Resources == 2 && wholeOnDisk(t, dir) })
		replicas = append(replicas, w)
	}
	origin.Stop()
	for i := range replicas {
		var peers []string
		for _, w := range replicas {
			peers = append(peers, w.seedAddress())
		}
		text := replica(origin.Net().Addr(), "", answers+", "+asks(peers...))
		next := startWeir(t, strings.Replace(text, "group_by: []", "group_by: [cluster]", 1)).up()
		replicas[i].end()
		replicas[i] = next
	}
	for _, w := range replicas {
		for _, group := range groups {
			c := ask(w, group)
			c.AwaitNames(relaytest.ClusterType, "clients of "+group+" are served", "a")
			c.AwaitNames(relaytest.EndpointType, "and by name", "a")
		}
	}
}

// TestStartsWithWhatItHas: whatever its only sibling does wrong, a replica says so, starts without
// it within the time, and serves what its origin says.
func TestStartsWithWhatItHas(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "x"))
	head := func(w http.ResponseWriter, deployment string, format int, vouched time.Time) {
		_, _ = fmt.Fprintf(w, `{"process":"p","deployment":%q,"format":%d,"origins":[{"name":"mesh","resources":9,"vouched":%q}]}`,
			deployment, format, vouched.Format(time.RFC3339))
	}
	for what, row := range map[string]struct {
		head  func(w http.ResponseWriter)
		state func(w http.ResponseWriter, r *http.Request)
		said  string
	}{
		"of another version":    {func(w http.ResponseWriter) { head(w, "weir", 2, time.Now()) }, nil, "it is of another version: its format is 2"},
		"of another deployment": {func(w http.ResponseWriter) { head(w, "other", 1, time.Now()) }, nil, "it is of the deployment"},
		"lies of the time":      {func(w http.ResponseWriter) { head(w, "weir", 1, time.Now().Add(time.Hour)) }, nil, "is in the future"},
		"dies half-way": {func(w http.ResponseWriter) { head(w, "weir", 1, time.Now()) }, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 10_000))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "unexpected EOF"},
		"is stuck": {func(w http.ResponseWriter) { head(w, "weir", 1, time.Now()) }, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "context deadline exceeded"},
	} {
		t.Run(what, func(t *testing.T) {
			sibling := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/seed/head" {
					row.head(w)
				} else {
					row.state(w, r)
				}
			}))
			defer sibling.Close()
			w := startWeir(t, replica(origin.Net().Addr(), "", "timeout: 1s, "+asks(sibling.Listener.Addr().String()))).up()
			c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
			c.Request(relaytest.ClusterType)
			c.AwaitNames(relaytest.ClusterType, "it serves", "a")
			text := ""
			for _, e := range w.logs.All() {
				text += fmt.Sprintln(e.Level, e.Message, e.ContextMap())
			}
			if !strings.Contains(text, row.said) || w.kept.from != "" {
				t.Errorf("no %q in\n%s", row.said, text)
			}
		})
	}
}
