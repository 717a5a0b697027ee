package conformance

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// restartCases: one weir that keeps a snapshot ends, and comes back. In a row it is beside the row:
// with its origin away it has none.
var restartCases = []testCase{
	{"RELAY-96 RELAY-2", "a restart from a snapshot that is older than what clients hold, the origin down: who returns is sent nothing, " +
		"who holds nothing is served; the origin is back without two: exactly these are told", perDialect(oldSnapshot)},
	{"RELAY-2 RELAY-7 RELAY-96", "the origin goes before a set has settled: a delta client that holds nothing is served, before a restart and after", unsettledOnDisk},
	{"RELAY-54", "a restart after the TTL has passed: not served", expiredOnDisk},
	{"RELAY-96", "virtual: what is kept and what is not, names, sets, aliases, globs, origins that say nothing and origins to be swept", func(t *testing.T) {
		for _, name := range []string{
			"restored", "restored_names", "restored_sotw", "restored_sotw_origin", "restored_silent", "restored_sweep", "restored_aliases",
			"restored_globs", "restored_not",
		} {
			virtual(t, "github.com/weir-xds/weir/relay", "TestScripts/"+name)
		}
		virtual(t, "github.com/weir-xds/weir/downstream", "TestScripts/restarted")
	}},
	{"RELAY-54", "virtual: the time that is left counts wall-clock time", func(t *testing.T) {
		virtual(t, "github.com/weir-xds/weir/relay", "TestScripts/restored_ttl")
		virtual(t, "github.com/weir-xds/weir/relay", "TestBodyImage")
	}},
}

// coldWait is short: who waited for it in vain would lose its stream.
const coldWait = time.Second

// keeps is a weir in front of the world's origin, with a snapshot in a directory of its own.
func (w *world) keeps(d relaytest.Dialect) (file weirtest.Config, dir string) {
	dir = filepath.Join(w.t.TempDir(), "kept")
	file = weirtest.NewConfig(w.origin.Net().Addr(), d).Set("timing.firm_settle", "500ms").Set("timing.cold_wait", coldWait.String()).
		Set("timing.drain", "100ms").Set("cache.snapshot", map[string]any{"path": dir, "interval": "100ms"})
	return file, dir
}

// begin runs the weir that clients talk to from now on.
func (w *world) begin(file weirtest.Config) {
	w.t.Helper()
	delete(file.Listener(), "address") // the one of the process before
	w.weir = weirtest.Start(w.t, file)
	w.first = w.weir
}

// unsettledOnDisk: what is there of a set may well be all of it.
func unsettledOnDisk(t *testing.T) {
	w := start(t, setup{})
	file, _ := w.keeps(relaytest.Delta)
	file.Set("timing.settle", "10s").Set("timing.firm_settle", "20s").Set("timing.cold_wait", "14s")
	w.origin.Replace(cds, clusters("a", "b")...)
	served := func(sentence string) {
		t.Helper()
		c := w.client(relaytest.Delta)
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, sentence, "a", "b")
		c.CheckClean()
	}
	w.begin(file)
	served("the clusters arrive")
	w.origin.Stop()
	served("they arrive while the origin is away")
	w.weir.Stop()
	w.begin(file)
	served("so they do from a snapshot")
}

func oldSnapshot(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	file, dir := w.keeps(d)
	w.origin.Replace(cds, clusters("a", "b", "c", "d")...)
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	hold := func(c *relaytest.Client) {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
		c.AwaitNames(cds, "the clusters arrive", "a", "b", "c", "d")
		c.AwaitNames(eds, "so do the endpoints", "a")
	}
	w.begin(file)
	for _, c := range each(w, hold) {
		c.WantIdle(10*50*time.Millisecond + quiet) // the set is whole
		c.Cancel()
	}
	w.weir.Stop() // which writes what there is
	older := filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}

	w.begin(file)
	before := each(w, hold)
	newer := relaytest.Cluster("a", 9*time.Second)
	w.origin.Set(cds, "a", "2", newer)
	ends := relaytest.Endpoints("a", "10.0.0.2:80")
	w.origin.Set(eds, "a", "2", ends)
	for _, c := range before {
		c.Await(0, func(s *relaytest.State) bool {
			return s.Body(cds, "a") == string(newer.Value) && s.Body(eds, "a") == string(ends.Value)
		}, "both changes arrive")
		c.WantIdle(quiet)
	}
	w.weir.Stop()
	w.origin.Stop()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(older)); err != nil {
		t.Fatal(err)
	}

	w.begin(file)
	delta, sotw := w.client(relaytest.Delta), w.client(relaytest.SotW)
	delta.SubscribeWith(cds, before[0].Held(cds), "*")
	delta.SubscribeWith(eds, before[0].Held(eds), "a")
	version := func(typeURL string) string {
		rs := before[1].Responses(typeURL)
		return rs[len(rs)-1].Version()
	}
	sotw.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceNames: []string{"*"}, VersionInfo: version(cds)})
	sotw.Send(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a"}, VersionInfo: version(eds)})
	for _, c := range each(w, hold) {
		c.CheckClean()
	}
	for _, c := range []*relaytest.Client{delta, sotw} {
		c.WantIdle(2*coldWait + quiet)
		if err := c.Err(); err != nil {
			t.Fatalf("the stream of a client that holds everything ends: %v", err)
		}
	}

	w.origin.Remove(cds, "b")
	w.origin.Remove(cds, "c")
	w.origin.Start()
	delta.Await(0, func(s *relaytest.State) bool { return s.Absent(cds, "b") && s.Absent(cds, "c") }, "the deletions are told")
	delta.WantIdle(quiet)
	removed := 0
	for _, r := range delta.Responses("") {
		removed += len(r.Removed())
		if len(r.Items) > 0 {
			t.Errorf("%v tells what the client holds", r)
		}
	}
	if removed != 2 {
		t.Errorf("%d resources are removed, want the two that went", removed)
	}
	sotw.AwaitNames(cds, "the list without them is told", "a", "d")
	for _, c := range []*relaytest.Client{delta, sotw} {
		c.CheckClean()
	}
}

func expiredOnDisk(t *testing.T) {
	w := start(t, setup{})
	file, _ := w.keeps(relaytest.Delta)
	const ttl = 2 * time.Second
	w.origin.Put(eds, relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Endpoints("a", "10.0.0.1:80"), TTL: ttl})
	w.origin.Put(eds, relaytest.Resource{Name: "b", Version: "1", Body: relaytest.Endpoints("b", "10.0.0.1:80")})
	w.begin(file)
	received := time.Now()
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a", "b") })
	for _, c := range clients {
		c.AwaitNames(eds, "both arrive", "a", "b")
	}
	// Of a group that never acknowledged anything nothing is kept.
	w.weir.AwaitMetric(0, "weir has read what the clients acknowledge", "weir_downstream_unsynced_streams")
	for _, c := range clients {
		c.Cancel()
	}
	w.weir.Stop()
	w.origin.Stop()
	weirtest.Until(time.Minute, func() bool { return time.Since(received) > ttl+quiet })
	w.begin(file)
	for _, c := range each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a", "b") }) {
		c.AwaitNames(eds, "what lasts is served", "b")
		c.WantIdle(quiet)
		if held := c.Held(eds); held["a"] != "" {
			t.Error("what has expired is served (RELAY-54)")
		}
		c.CheckClean()
	}
}
