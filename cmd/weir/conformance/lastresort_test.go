package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// lastResortCases are about `origins[].fallback`. Each has one weir, which is beside the row.
var lastResortCases = []testCase{
	{
		"RELAY-2 RELAY-7 ORD-10", "a last resort: it stands in at a cold start without the origin; the origin's word " +
			"replaces it, the old cluster after the route to the new; the origin dies again, and weir restarts: what is " +
			"cached stays, and the last resort is out", perDialect(lastResort),
	},
	{
		"RELAY-2 RELAY-96", "a last resort: of two types the one that is known comes from the snapshot, the other from the files",
		perDialect(lastResortBesideSnapshot),
	},
	{
		"RELAY-8 ABS-5", "a last resort: an origin that is connected and silent; what the files lack is not absent",
		perDialect(lastResortOfSilent),
	},
	{"RELAY-96 RELAY-97", "virtual: a last resort by itself, both dialects, guard, silence, snapshots", func(t *testing.T) {
		for _, name := range []string{
			"fallback", "fallback_guard", "fallback_sotw", "fallback_silent", "fallback_restored",
		} {
			virtual(t, "github.com/weir-xds/weir/relay", "TestScripts/"+name)
		}
	}},
}

// resort is a directory of files.
type resort struct {
	t   *testing.T
	dir string
}

// resortOf is the last resort of the origin of a config.
func resortOf(t *testing.T, file weirtest.Config) *resort {
	r := &resort{t: t, dir: t.TempDir()}
	file.Origin()["fallback"] = map[string]any{"files": map[string]any{"path": r.dir}}
	return r
}

// put has the last resort hold these resources of a type, in the file of that name.
func (r *resort) put(file string, resources ...*anypb.Any) {
	r.t.Helper()
	text, err := proto.Marshal(&discoveryv3.DiscoveryResponse{TypeUrl: resources[0].TypeUrl, Resources: resources})
	beside := filepath.Join(r.dir, "."+file)
	if err == nil {
		err = os.WriteFile(beside, text, 0o600)
	}
	if err == nil {
		err = os.Rename(beside, filepath.Join(r.dir, file+".pb"))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// sources are where weir has what it holds of a type from, by name; of the last resort with a mark.
func (w *world) sources(typeURL string) map[string]string {
	w.t.Helper()
	page, err := weirtest.Fetch("http://" + w.weir.Admin + "/resources?type=" + typeURL)
	var list struct {
		Resources []struct {
			Name, Source string
			Fallback     bool
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(page), &list)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range list.Resources {
		if out[r.Name] = r.Source; r.Fallback {
			out[r.Name] = "fallback " + r.Source
		}
	}
	return out
}

// wantSource fails unless a resource comes from the last resort, or does not.
func (w *world) wantSource(typeURL, name string, fallback bool) {
	w.t.Helper()
	got := w.sources(typeURL)[name]
	if got == "" || strings.HasPrefix(got, "fallback ") != fallback {
		w.t.Errorf("%s is from %q, want of the last resort: %v", name, got, fallback)
	}
}

func lastResort(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	w.origin.Stop()
	file, _ := w.keeps(d)
	file.Set("timing.cold_wait", "14s")
	r := resortOf(t, file)
	r.put("cds", relaytest.EDSCluster("old", ""))
	r.put("eds", relaytest.Endpoints("old", "10.0.0.1:80"))
	r.put("lds", relaytest.Listener("l", 80))
	r.put("rds", relaytest.Route("r", "old"))
	w.begin(file)
	clients := each(w, func(c *relaytest.Client) {
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the clusters of the last resort", "old")
		c.Subscribe(eds, "old")
		c.AwaitNames(eds, "and endpoints", "old")
		c.Subscribe(lds, "*")
		c.AwaitNames(lds, "and listeners", "l")
		c.Subscribe(rds, "r")
		c.AwaitNames(rds, "and routes", "r")
	})
	for typeURL, name := range map[string]string{cds: "old", eds: "old", lds: "l", rds: "r"} {
		w.wantSource(typeURL, name, true)
	}
	r.put("lds", relaytest.Listener("l", 81))
	for _, c := range clients {
		port := string(relaytest.Listener("l", 81).Value)
		c.Await(0, func(s *relaytest.State) bool { return s.Body(lds, "l") == port }, "a change of the last resort")
	}
	r.put("cds", relaytest.EDSCluster("old", ""), relaytest.EDSCluster("more", ""))
	for _, c := range clients {
		c.AwaitNames(cds, "a cluster more", "more", "old")
	}
	r.put("cds", relaytest.EDSCluster("old", ""))
	for _, c := range clients {
		c.AwaitNames(cds, "and one fewer", "old")
	}

	to := relaytest.Route("r", "new")
	w.origin.Set(cds, "new", "1", relaytest.EDSCluster("new", ""))
	w.origin.Set(eds, "new", "1", relaytest.Endpoints("new", "10.0.0.2:80"))
	w.origin.Set(lds, "l", "1", relaytest.Listener("l", 81))
	w.origin.Set(rds, "r", "1", to)
	w.origin.Start()
	for _, c := range clients {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "new") != "" }, "the origin's cluster")
		c.Subscribe(eds, "new")
		c.Await(0, func(s *relaytest.State) bool { return s.Body(rds, "r") == string(to.Value) }, "and the route to it")
		c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "old") == "" }, "the last resort's goes")
		c.Unsubscribe(eds, "old")
		c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "new") != "" }, "the new endpoints are there")
		without := c.Responses(cds)
		routes := c.Responses(rds)
		before(t, "the old cluster goes after the route", routes[len(routes)-1], without[len(without)-1])
		if n := c.Count(lds); n != 1 {
			t.Errorf("there are %d listeners", n)
		}
		for _, x := range c.Responses(lds) {
			if len(x.Removed()) > 0 {
				t.Errorf("%v takes away the listener, which both have", x)
			}
		}
	}
	for typeURL, name := range map[string]string{cds: "new", eds: "new", lds: "l", rds: "r"} {
		w.wantSource(typeURL, name, false)
	}

	w.origin.Stop()
	cached := func(sentence string) {
		t.Helper()
		for _, c := range each(w, func(c *relaytest.Client) {
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, sentence, "new")
			c.Subscribe(eds, "old", "new")
			c.AwaitNames(eds, "and nothing of the last resort", "new")
			c.Subscribe(rds, "r")
			c.Await(0, func(s *relaytest.State) bool { return s.Body(rds, "r") == string(to.Value) }, "nor its route")
		}) {
			c.WantIdle(quiet)
		}
	}
	cached("the cached clusters, with the origin away")
	for _, c := range clients {
		c.WantIdle(quiet)
	}
	w.weir.Stop() // which writes what there is
	w.begin(file)
	cached("the snapshot's")
	w.wantSource(cds, "new", false)
}

// lastResortBesideSnapshot: nothing was ever asked of listeners before the restart.
func lastResortBesideSnapshot(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	file, _ := w.keeps(d)
	file.Set("timing.cold_wait", "10s")
	r := resortOf(t, file)
	r.put("cds", relaytest.Cluster("resort", time.Second))
	r.put("lds", relaytest.Listener("resort", 80))
	w.origin.Replace(cds, clusters("a", "b")...)
	w.begin(file)
	for _, c := range each(w, func(c *relaytest.Client) {
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the origin's", "a", "b")
	}) {
		c.WantIdle(quiet)
		c.Cancel()
	}
	w.weir.Stop() // which writes what there is
	w.origin.Stop()
	w.begin(file)
	check := func(c *relaytest.Client) {
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the snapshot's clusters", "a", "b")
		c.Subscribe(lds, "*")
		c.AwaitNames(lds, "and the last resort's listener", "resort")
	}
	each(w, check)
	w.wantSource(cds, "a", false)
	w.wantSource(lds, "resort", true)
	w.weir.Stop() // which writes nothing of it
	r.put("lds", relaytest.Listener("other", 80))
	w.begin(file)
	for _, c := range each(w, func(c *relaytest.Client) {
		c.Subscribe(lds, "*")
		c.AwaitNames(lds, "what the last resort has now", "other")
	}) {
		c.CheckClean()
	}
}

func lastResortOfSilent(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW, behaviour: relaytest.Behaviour{Mute: map[string]bool{cds: true, eds: true}}})
	file, _ := w.keeps(d)
	file.Set("timing.cold_wait", "6s")
	r := resortOf(t, file)
	r.put("cds", relaytest.Cluster("resort", time.Second))
	r.put("eds", relaytest.Endpoints("e", "10.0.0.1:80"))
	w.begin(file)
	clients := each(w, func(c *relaytest.Client) {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "e", "none")
		c.AwaitNames(cds, "clusters of the last resort", "resort")
		c.AwaitNames(eds, "and endpoints", "e")
		if isAbsent(c, eds, "none") {
			t.Error("what the last resort lacks is told to be absent")
		}
	})
	w.origin.Behave(func(b *relaytest.Behaviour) { b.Mute = nil })
	w.origin.Replace(cds, clusters("a")...)
	w.origin.Set(eds, "e", "1", relaytest.Endpoints("e", "10.0.0.2:80"))
	for _, c := range clients {
		c.AwaitNames(cds, "the origin answers after all", "a")
		is := string(relaytest.Endpoints("e", "10.0.0.2:80").Value)
		c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "e") == is }, "with its endpoints, too")
		c.CheckClean()
	}
}
