package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var groupsCases = slices.Concat(groupKeyCases, featureCases, dedicatedCases, secretCases, groupCrowdCases)

var groupKeyCases = []testCase{
	{
		"RELAY-60 RELAY-62 FEAT-2", "pods of one deployment share a stream, whose node has the key's fields and nothing else; other metadata does not",
		groupOfDeployment,
	},
	{"RELAY-62", "two replicas, and one that was restarted, present the same node", groupOnReplicas},
	{"RELAY-62", "virtual: whatever build they run", func(t *testing.T) {
		virtual(t, "../../../relay/node", "TestGroupKeysAreGolden")
		virtual(t, "../../../relay/node", "TestUnknownFieldsOfMembersStay")
		virtual(t, "../../../relay/node", "TestOwnIdIsPresented")
	}},
	{"RELAY-62", "an id and a cluster may be fixed; an id that is part of the key is the members'", fixedNode},
	{"RELAY-61", "weir validate warns where every client would be a group", groupLint},
	{"RELAY-61", "virtual: a running weir says so where they are, once an hour", func(t *testing.T) {
		virtual(t, "../../../cmd/weir", "TestGroupsEqualClients")
	}},
	{"RELAY-61", "virtual: and where members of a group differ in what control planes go by, once a group and field", func(t *testing.T) {
		virtual(t, "../../../cmd/weir", "TestMembersDiffer")
		virtual(t, "../../../relay", "TestDiffering")
		virtual(t, "../../../relay/inspect", "TestSuggestDiffering")
	}},
	{"RELAY-63", "with no fields in the key all clients share one lane", oneGroup},
	{"RELAY-63", "an origin asked for xdstp names alone has one lane, whatever groups its clients are in elsewhere", oneGroupByAuthority},
	{"RELAY-63", "virtual: an origin asked for xdstp names alone has one group by default", func(t *testing.T) {
		virtual(t, "../../../cmd/weir/config", "TestGroupByDefault")
	}},
	{"RELAY-67", "a group too many is refused, those that are there go on, and room is made after linger", groupLimit},
	{"RELAY-67", "nodes that a client makes up refuse no client its group, cost the origin no more than the rate, and leave nothing", madeUpGroups},
	{"RELAY-67", "a peer that makes up groups is refused, and no other", groupsPerPeer},
	{"RELAY-89", "to the next relay a group is a node as any other: it sees no client's id", groupsInRow},
	{"STREAM-2 RELAY-60", "a client without a node has a group of its own, which presents nobody's fields", namelessGroup},
}

// byDefault groups as a file does that does not say how.
func byDefault(c weirtest.Config) { delete(c.Origin(), "group_by") }

// pod is a node with metadata.
func pod(t *testing.T, id, cluster string, metadata map[string]any) *corev3.Node {
	t.Helper()
	fields, err := structpb.NewStruct(metadata)
	if err != nil {
		t.Fatal(err)
	}
	n := relaytest.Node(id, cluster)
	n.Metadata, n.Locality = fields, &corev3.Locality{Region: "r", Zone: "z"}
	return n
}

// as is a client with that node, which asks for all clusters.
func (w *world) as(d relaytest.Dialect, n *corev3.Node) *relaytest.Client {
	w.t.Helper()
	c := newClient(w.t, weirtest.Connect(w.t, w.weir.Addr), relaytest.ClientConfig{Dialect: d})
	c.Open(n)
	c.Subscribe(cds, "*")
	return c
}

// nodes are those of the streams at the origin, in the order they were opened.
func (w *world) nodes() (all []*corev3.Node) {
	for _, s := range w.origin.Streams() {
		if rs := s.Requests(); len(rs) > 0 {
			all = append(all, rs[0].Node())
		}
	}
	return all
}

// sees fails if any request at the origin has the text anywhere.
func (w *world) sees(text string) bool {
	return slices.ContainsFunc(w.origin.Requests(), func(r *relaytest.Request) bool { return bytes.Contains(r.Raw, []byte(text)) })
}

// own are the features that weir has itself, in every spelling (FEAT-6).
var own = []string{
	"envoy.config.supports-resource-ttl", "xds.config.resource-in-sotw", "xds.config.supports-resource-in-sotw", "xds.config.supports-resource-ttl",
}

func groupOfDeployment(t *testing.T) {
	w := start(t, setup{config: byDefault})
	w.origin.Put(cds, cdsAt("a", 1))
	metadata := map[string]any{"app": "shop", "labels": map[string]any{"tier": 1, "canary": false}}
	shop := func(id string) *corev3.Node {
		n := pod(t, id, "edge", metadata)
		n.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: "version-of-" + id}
		return n
	}
	first := shop("pod-1")
	first.ClientFeatures = []string{"some.feature", "xds.config.supports-resource-ttl"}
	second := shop("pod-2")
	second.ClientFeatures = []string{"some.feature"}
	for _, c := range []*relaytest.Client{w.as(relaytest.Delta, first), w.as(relaytest.SotW, second)} {
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.CheckClean()
	}
	nodes := w.nodes()
	if len(nodes) != 1 {
		t.Fatalf("two pods of one deployment have %d streams", len(nodes))
	}
	want := pod(t, nodes[0].GetId(), "edge", metadata)
	want.ClientFeatures = slices.Sorted(slices.Values(append([]string{"some.feature"}, own...)))
	if !proto.Equal(nodes[0], want) || !strings.HasPrefix(want.Id, "weir/weir/") {
		t.Errorf("presented is\n%v, want\n%v", nodes[0], want)
	}
	metadata["labels"].(map[string]any)["tier"] = 2
	third := shop("pod-3")
	third.ClientFeatures = second.ClientFeatures
	w.as(relaytest.Delta, third).AwaitNames(cds, "one with other metadata is served", "a")
	nodes = w.nodes()
	if len(nodes) != 2 {
		t.Fatalf("other metadata: %d streams, want a second", len(nodes))
	}
	if nodes[0].Id == nodes[1].Id || !proto.Equal(nodes[1].Metadata, third.Metadata) {
		t.Errorf("presented is %v, want its own metadata and another id", nodes[1])
	}
	if w.sees("pod-") {
		t.Error("an id or a version of a member is sent upstream")
	}
}

func groupOnReplicas(t *testing.T) {
	w := start(t, setup{config: byDefault, stopped: false})
	w.origin.Put(cds, cdsAt("a", 1))
	file := weirtest.NewConfig(w.origin.Net().Addr(), relaytest.Delta).Set("name", "edge-pop")
	byDefault(file)
	member := func(p *weirtest.Process, id string) {
		t.Helper()
		c := newClient(t, weirtest.Connect(t, p.Addr), relaytest.ClientConfig{})
		c.Open(pod(t, id, "edge", map[string]any{"a": 1.5, "b": []any{"x", nil}, "c": "d"}))
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.Cancel()
	}
	one, two := weirtest.Start(t, file), weirtest.Start(t, file.Set("instance", "another-host"))
	member(one, "pod-1")
	member(two, "pod-2")
	one.Stop()
	member(weirtest.Start(t, file), "pod-3")
	nodes := w.nodes()
	if len(nodes) != 3 {
		t.Fatalf("%d streams, want one for each process", len(nodes))
	}
	for _, n := range nodes {
		if !proto.Equal(n, nodes[0]) || !strings.HasPrefix(n.Id, "weir/edge-pop/") {
			t.Errorf("presented is\n%v, and elsewhere\n%v", n, nodes[0])
		}
	}
}

func fixedNode(t *testing.T) {
	for name, c := range map[string]struct {
		config      func(weirtest.Config)
		members     []string
		id, cluster []string
	}{
		"fixed": {
			func(c weirtest.Config) {
				c.Origin().Set("group_by", []any{"cluster"}).Set("node", map[string]any{"id": "the-id", "cluster": "the-cluster"})
			},
			[]string{"one", "two"},
			[]string{"the-id"},
			[]string{"the-cluster"},
		},
		"members'": {byID, []string{"one", "two"}, []string{"one", "two"}, []string{"", ""}},
		"of istio's four parts": {
			func(c weirtest.Config) { c.Origin().Set("group_by", []any{"id", "cluster", "metadata"}) },
			[]string{"sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local", "router~10.0.0.2~in-0.edge~edge.svc.cluster.local"},
			[]string{"sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local", "router~10.0.0.2~in-0.edge~edge.svc.cluster.local"},
			[]string{"edge", "edge"},
		},
	} {
		w := start(t, setup{config: c.config})
		w.origin.Put(cds, cdsAt("a", 1))
		for _, id := range c.members {
			w.as(relaytest.Delta, relaytest.Node(id, "edge")).AwaitNames(cds, "the clusters arrive", "a")
		}
		var ids, clusters []string
		for _, n := range w.nodes() {
			ids, clusters = append(ids, n.GetId()), append(clusters, n.GetCluster())
		}
		if !slices.Equal(ids, c.id) || !slices.Equal(clusters, c.cluster) {
			t.Errorf("%s: presented are the ids %q and clusters %q, want %q and %q", name, ids, clusters, c.id, c.cluster)
		}
	}
}

func groupLint(t *testing.T) {
	file := weirtest.NewConfig("127.0.0.1:1", relaytest.Delta)
	byID(file)
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(weirtest.Binary, "validate", "-c", path)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("a warning is no failure: %v", err)
	}
	if said := errs.String(); strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, path+":") || !strings.Contains(said, ": warning: origins[0].group_by[0]: ") {
		t.Errorf("it says %q", said)
	}
}

func oneGroup(t *testing.T) {
	w := start(t, setup{}) // group_by is empty there
	w.origin.Put(cds, cdsAt("a", 1))
	for i, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW, relaytest.Delta} {
		n := pod(t, fmt.Sprint("pod-", i), fmt.Sprint("cluster-", i), map[string]any{"pod": fmt.Sprint("pod-", i)})
		n.ClientFeatures = []string{fmt.Sprint("feature-", i)}
		w.as(d, n).AwaitNames(cds, "the clusters arrive", "a")
	}
	if n := len(w.origin.Streams()); n != 1 {
		t.Errorf("%d streams, want one for all", n)
	}
	if w.sees("pod-") || w.sees("cluster-") || w.sees("feature-") {
		t.Error("a member's field is sent upstream")
	}
}

func oneGroupByAuthority(t *testing.T) {
	f := federate(t, setup{config: func(c weirtest.Config) {
		for _, o := range c["origins"].([]any) {
			delete(o.(map[string]any), "group_by")
		}
	}})
	f.origin.Put(cds, cdsAt("a", 1))
	name := urn("east", cds, "b")
	f.east.Put(cds, relaytest.Resource{Name: name, Version: "1", Body: relaytest.Cluster(name, time.Second)})
	for _, id := range []string{"one", "two"} {
		c := newClient(t, weirtest.Connect(t, f.weir.Addr), relaytest.ClientConfig{})
		c.Open(pod(t, "pod-"+id, "edge", map[string]any{"app": "app-" + id}))
		c.Subscribe(cds, "a", name)
		c.AwaitNames(cds, "the names of both origins arrive", "a", name)
		c.CheckClean()
	}
	if own, east := len(f.origin.Streams()), len(f.east.Streams()); own != 2 || east != 1 {
		t.Errorf("%d streams at the default origin and %d at the other; want one for each group, and one for all", own, east)
	}
	east := world{t: t, origin: f.east}
	if east.sees("pod-") || east.sees("app-") {
		t.Error("a member's field is sent to the origin that does not go by nodes")
	}
}

func groupLimit(t *testing.T) {
	w := start(t, setup{
		config: func(c weirtest.Config) { c.Origin().Set("group_by", []any{"cluster"}) },
		edge:   func(c weirtest.Config) { c.Set("limits.groups", 2).Set("cache.linger", "300ms") },
	})
	w.origin.Put(cds, cdsAt("a", 1))
	one := w.as(relaytest.Delta, relaytest.Node("i", "one"))
	two := w.as(relaytest.SotW, relaytest.Node("i", "two"))
	one.AwaitNames(cds, "the first group is served", "a")
	two.AwaitNames(cds, "so is the second", "a")
	w.weir.AwaitMetric(2, "there are two groups", "weir_groups")
	three := w.as(relaytest.Delta, relaytest.Node("i", "three"))
	ends(t, three, "the third", codes.ResourceExhausted, "limits.groups")
	w.weir.AwaitMetric(1, "which is counted", "weir_limit_rejections_total", `limit="groups"`)
	w.as(relaytest.SotW, relaytest.Node("j", "one")).AwaitNames(cds, "who joins a group that is there is served", "a")
	w.origin.Put(cds, cdsAt("a", 2))
	for _, c := range []*relaytest.Client{one, two} {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") == string(cdsAt("a", 2).Body.Value) }, "what is there goes on")
		c.CheckClean()
	}
	two.Cancel()
	w.weir.AwaitMetric(1, "a group is released after linger", "weir_groups")
	three.Open(relaytest.Node("i", "three"))
	three.Subscribe(cds, "*")
	three.AwaitNames(cds, "and there is room", "a")
}

func groupsInRow(t *testing.T) {
	w := start(t, setup{config: byDefault})
	w.origin.Put(cds, cdsAt("a", 1))
	file := weirtest.NewConfig(w.weir.Addr, relaytest.Delta)
	byDefault(file)
	w.weir = weirtest.Start(t, file)
	for i, app := range []string{"shop", "shop", "till"} {
		w.as(relaytest.Delta, pod(t, fmt.Sprint("client-id-", i), "edge", map[string]any{"app": app})).AwaitNames(cds, "the clusters arrive", "a")
	}
	nodes := w.nodes()
	if len(nodes) != 2 {
		t.Fatalf("%d streams for two apps", len(nodes))
	}
	for i, app := range []string{"shop", "till"} {
		if n := nodes[i]; n.GetMetadata().GetFields()["app"].GetStringValue() != app || n.Cluster != "edge" || n.UserAgentName != "relaytest" ||
			n.GetLocality().GetZone() != "z" || !slices.Equal(n.ClientFeatures, own) {
			t.Errorf("beyond two relays %s is %v", app, n)
		}
	}
	if w.sees("client-id-") {
		t.Error("a client's id passes two relays")
	}
}

func namelessGroup(t *testing.T) {
	w := start(t, setup{config: byDefault})
	w.origin.Put(cds, cdsAt("a", 1))
	w.as(relaytest.Delta, pod(t, "pod-1", "edge", map[string]any{"app": "shop"})).AwaitNames(cds, "a client with a node is served", "a")
	for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		w.as(d, nil).AwaitNames(cds, "a client without one is served", "a")
	}
	nodes := w.nodes()
	if len(nodes) != 2 {
		t.Fatalf("%d streams, want one for each of two groups", len(nodes))
	}
	want := &corev3.Node{Id: nodes[1].GetId(), UserAgentName: nodes[1].GetUserAgentName(), ClientFeatures: own}
	if !proto.Equal(nodes[1], want) || nodes[1].Id == nodes[0].Id {
		t.Errorf("presented for nobody's node is %v", nodes[1])
	}
}

var featureCases = []testCase{
	{"FEAT-1 FEAT-2", "a feature nobody knows is no reason to refuse, and goes upstream", func(t *testing.T) {
		w := start(t, setup{config: byDefault})
		w.origin.Put(cds, cdsAt("a", 1))
		n := relaytest.Node("pod-1", "edge", "no.such.feature", "", "no.such.feature")
		w.as(relaytest.SotW, n).AwaitNames(cds, "its client is served", "a")
		if got := w.nodes()[0].ClientFeatures; !slices.Contains(got, "no.such.feature") {
			t.Errorf("the features sent upstream are %q", got)
		}
	}},
	{"FEAT-2 FEAT-6", "features of a connection are weir's own upstream, in all four spellings, and make no group", func(t *testing.T) {
		w := start(t, setup{config: byDefault})
		w.origin.Put(cds, cdsAt("a", 1))
		for _, f := range [][]string{nil, {own[0]}, {own[1]}, {own[2]}, {own[3]}, {"envoy.config.resource-in-sotw"}, own} {
			w.as(relaytest.Delta, relaytest.Node("pod-1", "edge", f...)).AwaitNames(cds, "whatever its connection can do, a client is served", "a")
		}
		nodes := w.nodes()
		if len(nodes) != 1 || !slices.Equal(nodes[0].ClientFeatures, own) {
			t.Errorf("%d streams, and the features of the first are %q, want one with %q", len(nodes), nodes[0].ClientFeatures, own)
		}
	}},
	{"FEAT-7 FEAT-2", "features that change what the origin generates make a group each, and go upstream", func(t *testing.T) {
		w := start(t, setup{config: byDefault})
		w.origin.Put(cds, cdsAt("a", 1))
		features := []string{
			"envoy.lb.does_not_support_overprovisioning", "envoy.config.require-any-fields-contain-struct", "envoy.lrs.supports_send_all_clusters",
		}
		for i, f := range features {
			w.as(relaytest.Delta, relaytest.Node("pod-1", "edge", f)).AwaitNames(cds, "its client is served", "a")
			nodes := w.nodes()
			if want := slices.Sorted(slices.Values(append([]string{f}, own...))); len(nodes) != i+1 || !slices.Equal(nodes[i].ClientFeatures, want) {
				t.Errorf("%s: %d streams, and the features of the last are %q", f, len(nodes), nodes[len(nodes)-1].ClientFeatures)
			}
		}
	}},
	{"FEAT-5 FEAT-2", "a client that does not announce the TTL feature is given TTLs where the listener assumes it", perDialect(assumedTTL)},
	{"FEAT-5 FEAT-2", "a feature that a listener assumes is its clients'", func(t *testing.T) {
		w := start(t, setup{config: byDefault, edge: func(c weirtest.Config) { c.Listener().Set("assume_features", []any{"some.feature"}) }})
		w.origin.Put(cds, cdsAt("a", 1))
		w.as(relaytest.SotW, relaytest.Node("pod-1", "edge")).AwaitNames(cds, "who does not say it is served", "a")
		w.as(relaytest.SotW, relaytest.Node("pod-2", "edge", "some.feature")).AwaitNames(cds, "so is who says it", "a")
		nodes := w.nodes()
		if len(nodes) != 1 || !slices.Contains(nodes[0].ClientFeatures, "some.feature") {
			t.Errorf("the origin sees %d nodes, and of the first %q", len(nodes), nodes[0].ClientFeatures)
		}
	}},
}

// assumedTTL: a client like Envoy, which honours TTLs in either form and announces neither.
func assumedTTL(t *testing.T, d relaytest.Dialect) {
	for _, assume := range []bool{false, true} {
		w := start(t, setup{config: byDefault, edge: func(c weirtest.Config) {
			if assume {
				c.Listener().Set("assume_features", []any{own[0], own[1]})
			}
		}})
		r := cdsAt("a", 1)
		r.TTL = time.Minute
		w.origin.Put(cds, r)
		c := w.as(d, relaytest.Node("pod-1", "edge"))
		items := c.Expect(cds, "the cluster arrives").Items
		if len(items) != 1 || (items[0].TTL != nil) != assume {
			t.Errorf("assumed %v: got %v, with a TTL: %v", assume, items, len(items) == 1 && items[0].TTL != nil)
		}
		if got := w.nodes()[0].ClientFeatures; !slices.Equal(got, own) {
			t.Errorf("assumed %v: the features sent upstream are %q, want weir's own alone", assume, got)
		}
		c.CheckClean()
	}
}

// awaitGone waits until nothing at all is held of a type.
func (w *world) awaitGone(typeURL, sentence string) {
	w.t.Helper()
	var last string
	met := func() bool {
		body, err := weirtest.Fetch("http://" + w.weir.Admin + "/resources?type=" + typeURL)
		if err != nil {
			w.t.Fatal(err)
		}
		last = body
		var page struct{ Resources []any }
		return json.Unmarshal([]byte(body), &page) == nil && len(page.Resources) == 0
	}
	if !weirtest.Until(10*time.Second, met) {
		w.t.Fatalf("%s; weir holds %s", sentence, last)
	}
}
