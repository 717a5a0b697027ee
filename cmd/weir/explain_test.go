package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// explained is an answer of /explain, as far as these tests look.
type explained struct {
	State, Headline string
	Streams         []struct {
		State, Headline, Parameters, Type string
		Group                             struct {
			Origin, Key string
			Why         []string
		}
		Steps []struct{ Step, Text string }
		Waits []struct {
			Reason, Text string
			Since, Until time.Time
		}
	}
}

// reasons are those of all streams.
func (x *explained) reasons() (all []string) {
	for _, s := range x.Streams {
		for _, w := range s.Waits {
			all = append(all, w.Reason)
		}
	}
	return all
}

func (w *running) explain(t *testing.T, node, typeName, name string) (x explained) {
	t.Helper()
	q := url.Values{"node": {node}}
	if typeName != "" {
		q.Set("type", typeName)
	}
	if name != "" {
		q.Set("name", name)
	}
	code, body := w.get("/explain?" + q.Encode())
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	if err := json.Unmarshal([]byte(body), &x); err != nil {
		t.Fatal(err)
	}
	return x
}

// awaitExplained waits until a name is explained by a state, with words in the headline and, unless
// it is empty, a reason to wait.
func (w *running) awaitExplained(t *testing.T, node, typeName, name, state, reason string, words ...string) (x explained) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		x = w.explain(t, node, typeName, name)
		ok := x.State == state && (reason == "" || slices.Contains(x.reasons(), reason))
		for _, word := range words {
			ok = ok && strings.Contains(x.Headline, word)
		}
		if ok {
			return x
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s %s: %+v, want %s, %s, %q", node, typeName, name, x, state, reason, words)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// explainedOrigin is a control plane with a cluster and a listener, and a weir before it.
func explainedOrigin(t *testing.T, timing, origin string) (*relaytest.Origin, *running) {
	t.Helper()
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	o.Set(relaytest.ClusterType, "web", "7", relaytest.Cluster("web", time.Second))
	o.Set(relaytest.ListenerType, "in", "7", relaytest.Listener("in", 80))
	text := strings.Replace(controlPlane(o.Net().Addr()), "grpc: {", origin+"grpc: {", 1)
	return o, startWeir(t, freePorts+strings.Replace(text, "timing: {", "timing: { settle: 20ms, firm_settle: 200ms, "+timing, 1))
}

// opened is a client with a node id that leaves ACKs to the test.
func opened(t *testing.T, w *running, id string, cfg relaytest.ClientConfig) *relaytest.Client {
	t.Helper()
	cfg.Patience = patience
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), cfg)
	c.Open(relaytest.Node(id, "edge"))
	return c
}

// TestExplainOrder: a client that does not acknowledge clusters is waited for, with its version, and
// its listeners wait for that.
func TestExplainOrder(t *testing.T) {
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			_, w := explainedOrigin(t, "order_hold: 1h, ", "")
			c := opened(t, w, "web-1", relaytest.ClientConfig{ManualACK: true, Dialect: dialect})
			c.Request(relaytest.ClusterType)
			c.Expect(relaytest.ClusterType, "the clusters come")
			x := w.awaitExplained(t, "web-1", "cds", "web", "waiting", "ack", "waits for the client to acknowledge CDS web version ", ", sent ")
			if g := x.Streams[0].Group; g.Origin != "mesh" || g.Key == "" || len(g.Why) == 0 {
				t.Errorf("the group is %+v", g)
			}
			var steps []string
			for _, s := range x.Streams[0].Steps {
				steps = append(steps, s.Step)
			}
			if got := strings.Join(steps, " "); got != "stream group subscribed asked lane origin cache sent answered" {
				t.Errorf("the steps are %s", got)
			}
			c.Request(relaytest.ListenerType)
			x = w.awaitExplained(t, "web-1", "lds", "in", "waiting", "clusters", "LDS in waits: the client has not answered the Clusters")
			until := x.Streams[0].Waits[0].Until
			if d := time.Until(until); d < 50*time.Minute || d > time.Hour {
				t.Errorf("it waits until %v: %+v", until, x)
			}
			code, stdout, stderr := weir(t, "explain", "web-1", "lds", "in", "--admin", w.admin.listener.Addr().String())
			if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "waiting: LDS in waits: the client has not answered the Clusters") ||
				!strings.Contains(stdout, "\nwaits ") || !strings.Contains(stdout, " clusters (for ") {
				t.Errorf("%d, %q:\n%s", code, stderr, stdout)
			}
			if _, body := w.get("/clients?node=web-1"); !strings.Contains(body, `"reason": "clusters"`) || !strings.Contains(body, `"reason": "ack"`) {
				t.Errorf("/clients does not say what it waits for:\n%s", body)
			}
			if _, body := w.get("/metrics"); !strings.Contains(body, `weir_waiting{reason="clusters"} 1`) || !strings.Contains(body, `weir_waiting{reason="guard"} 0`) {
				t.Error("the metrics do not count it")
			}
			c.ACK(relaytest.ClusterType)
			c.Expect(relaytest.ListenerType, "the listeners come")
			c.ACK(relaytest.ListenerType)
			w.awaitExplained(t, "web-1", "lds", "in", "current", "", "the client has LDS in version ", ", the newest that weir knows of")
			w.awaitExplained(t, "web-1", "cds", "", "current", "", "acknowledged all of CDS")
			if x := w.awaitExplained(t, "web-1", "", "", "current", ""); len(x.Streams) != 2 {
				t.Errorf("all types: %+v", x)
			}
		})
	}
}

// TestExplainWithheld: what the guard and a freeze keep from clients, and until when.
func TestExplainWithheld(t *testing.T) {
	o, w := explainedOrigin(t, "", "guard: { min: 1, hold: 10m }, ")
	c := opened(t, w, "web-1", relaytest.ClientConfig{})
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the clusters come", "web")
	c.WantIdle(500 * time.Millisecond)
	port := w.admin.listener.Addr().String()
	if code, _, stderr := weir(t, "freeze", "mesh", "--admin", port); code != exitOK {
		t.Fatal(stderr)
	}
	o.Set(relaytest.ClusterType, "web", "8", relaytest.Cluster("web", 2*time.Second))
	w.awaitExplained(t, "web-1", "cds", "web", "waiting", "freeze", "the origin is frozen")
	if code, _, stderr := weir(t, "unfreeze", "mesh", "--admin", port); code != exitOK {
		t.Fatal(stderr)
	}
	w.awaitExplained(t, "web-1", "cds", "web", "current", "")
	c.Expect(relaytest.ClusterType, "what waited comes")
	c.WantIdle(500 * time.Millisecond)
	o.Stop() // or else the removal may be stated on its own, which the guard lets pass
	o.Remove(relaytest.ClusterType, "web")
	o.Start()
	x := w.awaitExplained(t, "web-1", "cds", "web", "waiting", "guard", "the guard delays a removal", "1 of 1 resources are gone")
	for _, wait := range x.Streams[0].Waits {
		if d := time.Until(wait.Until); wait.Reason == "guard" && (d < 9*time.Minute || d > 10*time.Minute) {
			t.Errorf("the guard holds until %v", wait.Until)
		}
	}
}

// TestExplainAway: an origin that cannot be reached, with nothing known and with what was known.
func TestExplainAway(t *testing.T) {
	w := startWeir(t, freePorts+strings.Replace(controlPlane(deadAddress(t)), "timing: {", "timing: { cold_wait: 9s, ", 1))
	c := opened(t, w, "web-1", relaytest.ClientConfig{})
	c.Request(relaytest.ClusterType, "web")
	w.awaitExplained(t, "web-1", "cds", "web", "waiting", "cold_wait", "the last attempt to reach the origin failed", "connection refused")

	o, w := explainedOrigin(t, "", "")
	c = opened(t, w, "web-1", relaytest.ClientConfig{})
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the clusters come", "web")
	o.Close()
	w.awaitExplained(t, "web-1", "cds", "web", "current", "", "stale, since the origin is away")
}

// TestExplainAnswers: a client that rejects, one that asks for something else, a name that does not
// exist, and nodes that are not there.
func TestExplainAnswers(t *testing.T) {
	o, w := explainedOrigin(t, "", "")
	c := opened(t, w, "web-1", relaytest.ClientConfig{Reject: func(*relaytest.Response) string { return "not\x1b[2J to my taste" }})
	c.Request(relaytest.ClusterType)
	w.awaitExplained(t, "web-1", "cds", "web", "rejected", "", "the client rejected CDS web version ", "to my taste")
	w.awaitExplained(t, "web-1", "cds", "", "rejected", "nack", "to my taste")
	w.awaitExplained(t, "web-1", "eds", "web", "not_subscribed", "", "not subscribed to EDS on this stream: it asks for CDS")
	port := w.admin.listener.Addr().String()
	if code, stdout, _ := weir(t, "explain", "web-1", "cds", "web", "--admin", port); code != exitOK || strings.Contains(stdout, "\x1b") {
		t.Errorf("%d, %q", code, stdout)
	}
	c.Close()
	w.awaitExplained(t, "web-1", "cds", "web", "unknown", "", "no stream of this node is open", "before it went it rejected CDS")

	c = opened(t, w, "web-2", relaytest.ClientConfig{})
	c.Request(relaytest.EndpointType, "none", "there")
	o.Set(relaytest.EndpointType, "there", "1", relaytest.Endpoints("there", "10.0.0.1:80"))
	c.AwaitNames(relaytest.EndpointType, "what exists comes", "there")
	w.awaitExplained(t, "web-2", "eds", "none", "absent", "", "the origin says that EDS none does not exist")
	asked := func(x explained) {
		t.Helper()
		if !slices.ContainsFunc(x.Streams[0].Steps, func(s struct{ Step, Text string }) bool { return strings.Contains(s.Text, "is asked for 2 names") }) {
			t.Errorf("the origin is not said to be asked for 2 names: %+v", x)
		}
	}
	asked(w.awaitExplained(t, "web-2", "eds", "", "current", "", "1 of 2 names does not exist at the origin"))
	all := opened(t, w, "web-3", relaytest.ClientConfig{})
	all.Request(relaytest.EndpointType, "none", "nil")
	asked(w.awaitExplained(t, "web-3", "eds", "", "absent", "", "2 of 2 EDS names do not exist at the origin"))
	w.awaitExplained(t, "web-3", "", "", "absent", "", "2 of 2 EDS names do not exist at the origin")
	w.awaitExplained(t, "web-2", "eds", "other", "not_subscribed", "", "it names 2 others")
	for query, want := range map[string]string{
		"": "node= is missing", "node=a&name=b": "write the type too", "node=a&type=clusters": "clusters", "node=a&nam=b": `no parameter "nam"`,
	} {
		if code, body := w.get("/explain?" + query); code != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s", query, code, body, want)
		}
	}
	for flags, want := range map[string]int{"": exitUsage, "a b c d": exitUsage, "a -o csv": exitUsage, "a clusters": exitFailed} {
		if code, _, stderr := weir(t, append([]string{"explain", "--admin", port}, strings.Fields(flags)...)...); code != want {
			t.Errorf("%q: %d, %q", flags, code, stderr)
		}
	}
}

// TestExplainDenied: what the rules do not allow, and what is allowed.
func TestExplainDenied(t *testing.T) {
	i := startIdentities(t, "group_by: [cluster]")
	i.applied(i.text("group_by: [cluster]") + "\nauthorization:\n  - { who: [\"subject:CN={name}\"], names: [\"{name}-*\"] }\n")
	for _, dialect := range bothDialects {
		c := i.client("web", dialect)
		c.Subscribe(relaytest.ClusterType, "web-1", "shared")
		var x explained
		await(t, "the name is denied", func() bool {
			i.state("/explain?node=client-"+string(dialect)+"&type=cds&name=shared", &x)
			return x.State == "denied" && strings.Contains(x.Headline, "no rule allows this name")
		})
		if got := x.reasons(); !slices.Contains(got, "permission") {
			t.Errorf("it waits for %v", got)
		}
	}
}
