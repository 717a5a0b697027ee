package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// restOriginCases are about an origin that is polled (`origins[].rest`). The weir is beside the row.
var restOriginCases = []testCase{
	{
		"REST-1 REST-3 REST-4 REST-9", "an origin that is polled: POST with the node and the accepted version, 304 changes " +
			"nothing, what is left out goes, what cannot be read or answered changes nothing", polledOrigin,
	},
	{"RELAY-87 RELAY-88", "virtual: a relay that is polled refuses a way, which is left, or a loop, which is counted and said", func(t *testing.T) {
		virtual(t, "../../../upstream/rest", "TestRefusedWay")
		virtual(t, "../../../upstream/rest", "TestLoop")
	}},
}

// restOrigin is a REST server that gives what the test says, and 304 to who presents its version.
type restOrigin struct {
	t *testing.T

	mu        sync.Mutex
	version   int
	code      int    // instead of an answer; 0: none
	text      string // instead of resources
	clusters  []string
	unchanged int
	polls     int
}

func (o *restOrigin) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	o.version++
}

func (o *restOrigin) count() (polls, unchanged int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.polls, o.unchanged
}

// ServeHTTP is part of http.Handler.
func (o *restOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var asked struct {
		VersionInfo string
		Node        struct{ ID, Cluster string }
	}
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != clustersPath || asked.Node.Cluster != "edge" {
		o.t.Errorf("weir asks %s %s %s: %v", r.Method, r.URL.Path, body, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.polls++
	switch version := fmt.Sprint(o.version); {
	case o.code != 0:
		w.WriteHeader(o.code)
	case asked.VersionInfo == version:
		o.unchanged++
		w.WriteHeader(http.StatusNotModified)
	default:
		var all []string
		for _, name := range o.clusters {
			all = append(all, fmt.Sprintf(`{"@type":%q,"name":%q}`, cds, name))
		}
		if o.text != "" {
			all = append(all, o.text)
		}
		_, _ = fmt.Fprintf(w, `{"versionInfo":%q,"resources":[%s]}`, version, strings.Join(all, ","))
	}
}

func polledOrigin(t *testing.T) {
	origin := &restOrigin{t: t, clusters: []string{"a", "b"}}
	server := httptest.NewServer(origin)
	t.Cleanup(server.Close)
	cfg := weirtest.NewConfig("", relaytest.Delta)
	delete(cfg.Origin(), "grpc")
	cfg.Origin()["rest"] = map[string]any{"urls": []any{server.URL}, "poll": "100ms"}
	cfg.Origin()["node"] = map[string]any{"cluster": "edge"}
	w := &world{t: t, weir: weirtest.Start(t, cfg)}
	w.first = w.weir
	clients := []*relaytest.Client{w.client(relaytest.Delta), w.client(relaytest.SotW)}
	await := func(sentence string, names ...string) {
		t.Helper()
		for _, c := range clients {
			c.AwaitNames(cds, sentence, names...)
		}
	}
	polled := func(sentence string, n int, of func() int) {
		t.Helper()
		before := of()
		if !weirtest.Until(weirtest.Patience, func() bool { return of() >= before+n }) {
			t.Fatal(sentence)
		}
	}
	polls := func() int { n, _ := origin.count(); return n }
	unchanged := func() int { _, n := origin.count(); return n }

	for _, c := range clients {
		c.Request(cds, "*")
	}
	await("what the origin has", "a", "b")
	polled("the accepted version is presented, and 304 changes nothing", 3, unchanged)
	origin.set(func() { origin.clusters = []string{"b", "c"} })
	await("what it has now", "b", "c")
	origin.set(func() { origin.code = http.StatusInternalServerError })
	polled("weir goes on polling", 2, polls)
	await("an error changes nothing", "b", "c")
	origin.set(func() {
		origin.code, origin.text = 0, `{"@type":"type.googleapis.com/of.a.later.Version","name":"x"}`
		origin.clusters = []string{"b", "d"}
	})
	await("what can be read counts, and what is left out beside what cannot stays", "b", "c", "d")
	origin.set(func() { origin.text = "" })
	await("until all can be read", "b", "d")
	for _, c := range clients {
		c.CheckClean()
	}
}
