package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// restServer answers with one version of clusters, or with 304 to who presents it.
type restServer struct {
	*httptest.Server

	mu        sync.Mutex
	version   string
	clusters  string
	unchanged int // polls answered with 304
	asked     string
}

func startREST(t *testing.T) *restServer {
	s := &restServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *restServer) put(version string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, n := range names {
		list = append(list, fmt.Sprintf(`{"@type":%q,"name":%q}`, relaytest.ClusterType, n))
	}
	s.version, s.clusters = version, strings.Join(list, ",")
}

func (s *restServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is cut off lacks the version
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = string(body)
	switch {
	case r.URL.Path != "/base/v3/discovery:clusters" || r.Header.Get("X-Tenant") != "t":
		http.NotFound(w, r)
	case strings.Contains(strings.ReplaceAll(s.asked, " ", ""), `"version_info":"`+s.version+`"`):
		s.unchanged++
		w.WriteHeader(http.StatusNotModified)
	default:
		_, _ = fmt.Fprintf(w, `{"versionInfo":%q,"resources":[%s]}`, s.version, s.clusters) // or who polls is gone
	}
}

func (s *restServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unchanged
}

// TestRESTOrigin: clients of both dialects follow a server that is polled, through its changes, its
// end and its return, and a reload of how it is polled; what it does not change costs it a 304.
func TestRESTOrigin(t *testing.T) {
	s := startREST(t)
	s.put("1", "a", "b")
	text := func(poll string) string {
		return ports + fmt.Sprintf("origins: [{ name: poll, rest: { urls: [%q], poll: %s, headers: { x-tenant: t } } }]\n", s.URL+"/base/", poll) +
			"timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms }, drain: 1s }\n"
	}
	w := startReloading(t, text("100ms"))
	await(t, "it is reached, and no client has asked for anything", func() bool { return w.active.Load().origins[0].status().Reached })
	var clients []*relaytest.Client
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, w.listenAddress()), dialect)
		c.Request(relaytest.ClusterType, "*")
		c.AwaitNames(relaytest.ClusterType, "what is polled arrives", "a", "b")
		clients = append(clients, c)
	}
	await(t, "what is unchanged costs a 304", func() bool { return s.count() > 2 })
	s.put("2", "b", "c")
	for _, c := range clients {
		c.AwaitNames(relaytest.ClusterType, "changes and removals arrive", "b", "c")
	}
	var shown struct{ Origins []admin.Origin }
	w.state("/origins", &shown)
	if o := shown.Origins[0]; o.Kind != "rest" || o.Source != s.URL+"/base/" || !o.Connected || o.Streams != 1 {
		t.Errorf("the admin page shows %+v", o)
	}
	if _, body := w.get("/overview"); !strings.Contains(body, s.URL) {
		t.Error("the page has no URL")
	}
	w.applied(text("150ms"))
	s.put("3", "c")
	for _, c := range clients {
		c.AwaitNames(relaytest.ClusterType, "after a reload", "c")
	}
	s.put("", "gone")
	s.mu.Lock()
	s.clusters = "broken"
	s.mu.Unlock()
	await(t, "the origin is broken", func() bool { return !w.active.Load().origins[0].status().Connected })
	late := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	late.Request(relaytest.ClusterType, "*")
	late.AwaitNames(relaytest.ClusterType, "what was good is served", "c")
	s.put("4", "c", "d")
	for _, c := range append(clients, late) {
		c.AwaitNames(relaytest.ClusterType, "and what comes after it", "c", "d")
		c.CheckClean()
	}
}

// TestRESTTypes: an origin of REST is asked for what there is a path for, and of that for what it
// is restricted to.
func TestRESTTypes(t *testing.T) {
	for _, row := range []struct {
		types string
		want  int
	}{{"", 8}, {", types: [cds, eds]", 2}} {
		cfg, err := config.Parse("weir.yaml", []byte("origins: [{ name: a, rest: { urls: ['http://x'] }"+row.types+" }]\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		tc := tableConfig(cfg).Origins[0]
		if len(tc.Types) != row.want || !tc.SotW || !tc.PerType {
			t.Errorf("%q: %+v", row.types, tc)
		}
		if table, err := relay.New(tableConfig(cfg)); err != nil || table.Origin("a").Serves(xds.VirtualHostType) {
			t.Errorf("%q: %v", row.types, err)
		}
	}
}
