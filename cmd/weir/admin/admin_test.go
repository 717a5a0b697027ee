package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a table with one origin, and an Admin that shows it.
type world struct {
	t       *testing.T
	cfg     Config
	clients []downstream.ClientStatus
	ready   Readiness
	config  ConfigState
	drained int
	refusal error // of a freeze
}

func newWorld(t *testing.T) *world {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Check(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, ready: Readiness{Ready: true, State: "ready"}}
	w.cfg = Config{
		Name: "weir", Version: "v9", Started: time.Now(), Table: table, Metrics: prometheus.NewRegistry(),
		Effective: func(changed bool) ([]byte, ConfigState) {
			if changed {
				return []byte("{}\n"), w.config
			}
			return []byte("name: weir\n"), w.config
		},
		Origins: func() []Origin { return []Origin{{Name: "mesh", Kind: "grpc", Source: "cp:1"}} },
		Clients: func() []downstream.ClientStatus { return w.clients }, Readiness: func() Readiness { return w.ready },
		Readable: func(body *anypb.Any) json.RawMessage {
			text, err := protojson.Marshal(body)
			if err != nil {
				text = []byte(`"opaque"`)
			}
			return text
		},
		Freeze: func(origin string, on bool) (string, bool, error) { return origin + " is told", true, w.refusal },
		Drain:  func() { w.drained++ }, Pprof: true,
		Explain:      func(string, string, string) []downstream.Explained { return nil },
		Rejections:   func() []downstream.Rejection { return nil },
		Decisions:    func() downstream.Decisions { return downstream.Decisions{} },
		Certificates: func() map[string]time.Time { return nil },
		Memory:       func() Memory { return Memory{} },
		Snapshot:     func() *Snapshot { return nil },
		Durable:      func(context.Context, bool) string { return "" },
		ClientStatus: http.NotFoundHandler(), GRPC: http.NotFoundHandler(),
		Log: zap.NewNop(), Levels: levels.New("info", nil),
	}
	return w
}

// hold puts resources of one type into the table, as an origin's answer to `*`.
func (w *world) hold(bodies map[string]*anypb.Any, typeURL string) {
	w.t.Helper()
	now := time.Now()
	origin := w.cfg.Table.Origin("mesh")
	group, err := origin.Group(relaytest.Node("n", "c"))
	if err != nil {
		w.t.Fatal(err)
	}
	group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: typeURL, Delta: true}).
		Update(now, []string{xds.Wildcard}, nil)
	lanes := origin.TakeLanes()
	if len(lanes) != 1 {
		w.t.Fatalf("%d lanes are wanted, want the main one", len(lanes))
	}
	lanes[0].Open(now, 0)
	lanes[0].Take(now, false)
	update := &xds.Update{TypeURL: typeURL}
	for name, body := range bodies {
		encoded, err := proto.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		update.Resources = append(update.Resources, xds.Resource{Name: name, Version: "1", Any: encoded})
	}
	if _, ok := lanes[0].Apply(now, update); !ok {
		w.t.Fatal("the lane never asked for the type")
	}
}

func (w *world) get(path string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	return w.do(http.MethodGet, path, edit...)
}

func (w *world) do(method, path string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	w.t.Helper()
	a, err := New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return ask(a, method, path, edit...)
}

// ask is a request under a name of the port.
func ask(a *Admin, method, path string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "localhost:19080"
	for _, e := range edit {
		e(r)
	}
	rec := httptest.NewRecorder()
	a.Handler().ServeHTTP(rec, r)
	return rec
}

// want fails unless the answer has the code and every part.
func want(t *testing.T, rec *httptest.ResponseRecorder, code int, parts ...string) {
	t.Helper()
	if rec.Code != code {
		t.Errorf("got %d, want %d: %s", rec.Code, code, rec.Body)
	}
	for _, part := range parts {
		if !strings.Contains(rec.Body.String(), part) {
			t.Errorf("no %q in\n%s", part, rec.Body)
		}
	}
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func TestEveryPathAnswers(t *testing.T) {
	w := newWorld(t)
	for path, part := range map[string]string{
		"/": "<h1>weir", "/overview": `"name": "weir"`, "/series": `"at":[]`, "/ui/app.js": "import", "/healthz": "alive", "/readyz": `"ready"`, "/metrics": "", "/origins": `"mesh"`, "/groups": "[]",
		"/groups/suggest": `"compared": 0`,
		"/clients":        "[]", "/explain?node=a&type=cds&name=b": `"state": "unknown"`, "/resources": "[]", "/nacks": "[]", "/nacks/book": `"book": []`, "/authz": `"denials": []`, "/config": "name: weir", "/config?changed=true": "{}", "/replicas": `"state": "good"`, "/log": `"package": "admin"`, "/debug/pprof/": "goroutine",
		"/debug/pprof/heap": "", "/debug/pprof/cmdline": "",
	} {
		want(t, w.get(path), http.StatusOK, part)
	}
	want(t, w.get("/nowhere"), http.StatusNotFound)
}

// The token guards everything but the probes, is read anew, and an empty file
// opens nothing.
func TestToken(t *testing.T) {
	w := newWorld(t)
	w.cfg.TokenFile = filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(w.cfg.TokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(w.cfg); err == nil {
		t.Error("a missing token file is taken")
	}
	write("hush\n")
	a, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
		a.tries = tries{}
		return ask(a, http.MethodGet, path, edit...)
	}
	want(t, ask("/healthz"), http.StatusOK)
	want(t, ask("/readyz"), http.StatusOK)
	for _, path := range []string{"/", "/metrics", "/config", "/debug/pprof/"} {
		want(t, ask(path), http.StatusUnauthorized)
		want(t, ask(path, bearer("hus")), http.StatusUnauthorized)
		want(t, ask(path, bearer("")), http.StatusUnauthorized)
		want(t, ask(path, func(r *http.Request) { r.Header.Set("Authorization", "hush") }), http.StatusUnauthorized)
		want(t, ask(path, bearer("hush")), http.StatusOK)
	}
	write("new")
	want(t, ask("/config", bearer("hush")), http.StatusUnauthorized)
	want(t, ask("/config", bearer("new")), http.StatusOK)
	write(" \n")
	want(t, ask("/config", bearer("")), http.StatusServiceUnavailable)
	if _, err := New(w.cfg); err == nil {
		t.Error("an empty token file is taken")
	}
}

func TestProbes(t *testing.T) {
	a, err := New(newWorld(t).cfg)
	if err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/config": 404, "/clients": 404, "/debug/pprof/": 404,
	} {
		rec := httptest.NewRecorder()
		a.Probes().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		if rec.Code != code {
			t.Errorf("%s: %d, want %d", path, rec.Code, code)
		}
	}
}

func TestReadyz(t *testing.T) {
	w := newWorld(t)
	w.ready = Readiness{State: "starting", Why: "not yet", Origins: []OriginReadiness{{Name: "mesh"}}}
	want(t, w.get("/readyz"), http.StatusServiceUnavailable, `"state": "starting"`, `"why": "not yet"`, `"reached": false`)
}

// Draining is for a POST of whoever may, and not for a browser that another
// site made send one.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	want(t, w.get("/drain"), http.StatusMethodNotAllowed)
	want(t, w.do(http.MethodPost, "/drain", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }),
		http.StatusForbidden)
	w.cfg.Reachable = true
	want(t, w.do(http.MethodPost, "/drain"), http.StatusForbidden, "admin.token_file")
	if w.drained != 0 {
		t.Fatal("drained by somebody who may not")
	}
	w.cfg.Reachable = false
	want(t, w.do(http.MethodPost, "/drain"), http.StatusAccepted)
	if w.drained != 1 {
		t.Error("not drained")
	}
}

// Whatever peers call themselves is text on the page.
func TestPageEscapes(t *testing.T) {
	const script = `<script>alert(1)</script>`
	w := newWorld(t)
	w.clients = []downstream.ClientStatus{{
		Stream: 1, NodeID: script, NodeCluster: script, Peer: script, Dialect: "delta", Since: time.Now(),
		Types: []downstream.TypeStatus{{
			TypeURL: script, Nacks: 1, LastNack: downstream.Nack{Message: script + `"'`, At: time.Now()},
		}},
	}}
	for _, path := range []string{"/", "/overview", "/clients", "/nacks", "/nacks/book"} {
		rec := w.get(path)
		want(t, rec, http.StatusOK)
		// The page has one script, which is its own.
		if n := strings.Count(rec.Body.String(), "<script"); n > 1 || n == 1 && path != "/" || strings.Contains(rec.Body.String(), "alert(1)</") {
			t.Errorf("%s: a peer's text is markup:\n%s", path, rec.Body)
		}
		if csp := rec.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s may load things: %q", path, csp)
		}
	}
	want(t, w.get("/clients"), http.StatusOK, `\u003cscript\u003e`)
	w.cfg.Name = script
	want(t, w.get("/"), http.StatusOK, "&lt;script&gt;")
	want(t, w.get("/nacks"), http.StatusOK, `"count": 1`, `"message"`)
}

// TestQuarantineIsShown is RELAY-92: what an origin ends streams for is listed with what it said,
// and what is only suspect is not.
func TestQuarantineIsShown(t *testing.T) {
	w := newWorld(t)
	o := Origin{Name: "mesh", Kind: "grpc", Source: "cp:1"}
	o.Sum([]inspect.GroupStatus{{Key: "g1", Quarantined: []relay.QuarantineStatus{
		{TypeURL: xds.ClusterType},
		{TypeURL: xds.SecretType, Quarantined: time.Unix(1, 0), Refused: 3, Reason: "no such type"},
	}}})
	w.cfg.Origins = func() []Origin { return []Origin{o} }
	rec := w.get("/origins")
	want(t, rec, http.StatusOK, `"group": "g1"`, `"type": "sds"`, xds.SecretType, `"refused": 3`, `"reason": "no such type"`)
	if strings.Contains(rec.Body.String(), xds.ClusterType) {
		t.Errorf("a type that is only suspect is listed:\n%s", rec.Body)
	}
	want(t, w.get("/overview"), http.StatusOK, `"quarantined"`, `"reason": "no such type"`, `"state": "warn"`)
}

// TestGroupsTellTheirParameterMaps: as many as are in use (RELAY-73).
func TestGroupsTellTheirParameterMaps(t *testing.T) {
	w := newWorld(t)
	group, err := w.cfg.Table.Origin("mesh").Group(relaytest.Node("n", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if body := w.get("/groups").Body.String(); strings.Contains(body, "parameter_sets") {
		t.Errorf("there are none:\n%s", body)
	}
	for _, env := range []string{"prod", "test"} {
		group.Open(relay.NewSubscriber(), relay.SubOptions{
			TypeURL: xds.ClusterType, Delta: true, Params: constraints.NewParams(map[string]string{"env": env}),
		})
	}
	want(t, w.get("/groups"), http.StatusOK, `"parameter_sets": 2`)
}
