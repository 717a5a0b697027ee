package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay/relaytest"
)

// large is a world whose clients and origin have chosen long texts, and many.
func large(t *testing.T) *world {
	w := newWorld(t)
	text, now := strings.Repeat("x\u202e", 8<<10), time.Now() // which is shown in twice as many bytes
	bodies := map[string]*anypb.Any{}
	for i := range 40 {
		body, err := anypb.New(&clusterv3.Cluster{Name: fmt.Sprint("c", i), AltStatName: strings.Repeat("y", 1<<20)})
		if err != nil {
			t.Fatal(err)
		}
		bodies[fmt.Sprint("c", i)] = body
	}
	w.hold(bodies, relaytest.ClusterType)
	nack := downstream.TypeStatus{TypeURL: relaytest.ClusterType, Nacks: 1, Nacking: true}
	nack.LastNack.Message, nack.LastNack.At = text, now
	for i := range 1000 {
		w.clients = append(w.clients, downstream.ClientStatus{Stream: uint64(i), NodeID: "n", Types: []downstream.TypeStatus{nack}, Since: now})
	}
	origins := w.cfg.Origins
	w.cfg.Origins = func() []Origin {
		all := origins()
		for i := range 50_000 {
			all[0].NACKs = append(all[0].NACKs, OriginNACK{Group: fmt.Sprint("group", i), Type: "cds", Reason: strings.Repeat("z", 500)})
			all[0].Quarantined = append(all[0].Quarantined, QuarantinedType{Group: fmt.Sprint("group", i), Reason: strings.Repeat("z", 500)})
		}
		return all
	}
	w.cfg.Rejections = func() (all []downstream.Rejection) {
		for range 1000 {
			all = append(all, downstream.Rejection{Origin: "mesh", TypeURL: relaytest.ClusterType, Message: text})
		}
		return all
	}
	w.cfg.Decisions = func() (d downstream.Decisions) {
		for range 1000 {
			d.Denials = append(d.Denials, downstream.Denial{Identity: text, Origin: "mesh", TypeURL: relaytest.ClusterType})
		}
		return d
	}
	w.cfg.Explain = func(_, _, _ string) (all []downstream.Explained) {
		for range 20_000 {
			all = append(all, downstream.Explained{ClientStatus: downstream.ClientStatus{Peer: strings.Repeat("p", 1000), Origin: "mesh"}})
		}
		return all
	}
	return w
}

// TestAnswersHaveACeiling: whatever peers have chosen, an answer has so many bytes at most. It says
// that it is cut, and how to ask for less.
func TestAnswersHaveACeiling(t *testing.T) {
	w := large(t)
	for _, path := range []string{
		"/resources?bodies=true", "/clients?limit=100000", "/nacks?limit=100000", "/nacks/book?limit=100000", "/authz?limit=100000",
		"/explain?node=n", "/origins", "/groups?full=true", "/history?type=cds&name=c1&full=true&limit=100000", "/groups/suggest",
	} {
		rec := w.get(path)
		if n := rec.Body.Len(); n > mostAnswer+4<<10 {
			t.Errorf("%s has %d bytes", path, n)
		}
		if rec.Code != http.StatusOK || !json.Valid(rec.Body.Bytes()) {
			t.Errorf("%s: %d %.300s", path, rec.Code, rec.Body)
		}
		is := rec.Body.String()
		whole := strings.HasPrefix(path, "/groups") || strings.HasPrefix(path, "/history")
		if cut := strings.Contains(is, "16 MiB") && strings.Contains(is, `"truncated": true`) || strings.Contains(is, `left_out": `); cut == whole {
			t.Errorf("%s says that it is cut: %v", path, cut)
		}
	}
	// Page by page all clients are listed.
	seen, after := map[uint64]bool{}, ""
	for pages := 0; pages < 10; pages++ {
		var page struct {
			Clients []struct{ Stream uint64 }
			Next    string
		}
		if err := json.Unmarshal(w.get("/clients?limit=100000&after="+after).Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Clients {
			seen[c.Stream] = true
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(seen) != len(w.clients) {
		t.Errorf("%d clients are listed", len(seen))
	}
	// One entry that is too long by itself is an error.
	w.clients[0].NodeID = strings.Repeat("x", mostAnswer)
	w.clients = w.clients[:1]
	want(t, w.get("/clients"), http.StatusInsufficientStorage, "16 MiB", "limit=")
}

// TestCeilingOfNesting: what grows by its indentation is measured with it.
func TestCeilingOfNesting(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `[[],{}]`, `{"a":{"b":[1,2,{"c":"x,[{:\"\\"}]},"d":null}`, `"x"`, strings.Repeat("[", 500) + strings.Repeat("]", 500),
	} {
		for depth := range 3 {
			prefix := strings.Repeat("  ", depth)
			want, err := json.MarshalIndent(json.RawMessage(text), prefix, "  ")
			if err != nil {
				t.Fatal(err)
			}
			if n := indentedSize([]byte(text), depth); n != len(want) {
				t.Errorf("%.60s at %d: %d bytes, and it has %d", text, depth, n, len(want))
			}
		}
	}
	w := newWorld(t)
	body := json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))
	w.cfg.Readable = func(*anypb.Any) json.RawMessage { return body }
	w.hold(map[string]*anypb.Any{"a": relaytest.Cluster("a", 0)}, relaytest.ClusterType)
	want(t, w.get("/resources?name=a"), http.StatusInsufficientStorage, "16 MiB")
}

// FuzzIndentedSize: it is the size of what is written.
func FuzzIndentedSize(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{}],"b":"\"{"}`, `[]`, `[[[]]]`, `1`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		compact, err := json.Marshal(json.RawMessage(text))
		if err != nil {
			return
		}
		want, err := json.MarshalIndent(json.RawMessage(text), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if n := indentedSize(compact, 0); n != len(want) {
			t.Errorf("%q: %d bytes, and it has %d", text, n, len(want))
		}
	})
}

// slowReader takes what is written when it may.
type slowReader struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (s *slowReader) Write(b []byte) (int, error) {
	<-s.reads
	return s.ResponseRecorder.Write(b)
}

// TestOneCostlyAnswerAtATime: answers that cost are made one by one, and wait a bounded time for
// their turn. Those that are read slowly keep the others from being made only if they are many.
func TestOneCostlyAnswerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var making, most atomic.Int64
		const takes = time.Second
		w.cfg.Clients = func() []downstream.ClientStatus {
			if n := making.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(takes)
			making.Add(-1)
			return nil
		}
		a, err := New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		a.board.compute = func(time.Time) *Overview { return &Overview{} }
		codes := make(chan int, 100)
		began := time.Now()
		for range 20 {
			go func() {
				rec := ask(a, http.MethodGet, "/clients")
				if rec.Code != http.StatusOK && rec.Header().Get("Retry-After") == "" {
					t.Error("nobody says when to come again")
				}
				codes <- rec.Code
			}()
		}
		synctest.Wait()
		want(t, ask(a, http.MethodGet, "/overview"), http.StatusOK) // which is not one of them
		want(t, ask(a, http.MethodGet, "/readyz"), http.StatusOK)
		got := map[int]int{}
		for range 20 {
			got[<-codes]++
		}
		if d := time.Since(began); d > turnWait+2*takes || most.Load() != 1 || got[http.StatusOK] < int(turnWait/takes) || got[http.StatusOK]+got[http.StatusServiceUnavailable] != 20 {
			t.Errorf("%v at a time, %v in %v", most.Load(), got, d)
		}
		// One who leaves does not wait on.
		go ask(a, http.MethodGet, "/clients")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), takes/10)
		defer cancel()
		began = time.Now()
		ask(a, http.MethodGet, "/clients", func(r *http.Request) { *r = *r.WithContext(ctx) })
		if d := time.Since(began); d > takes/5 {
			t.Errorf("it waits for %v, and nobody for it", d)
		}
		time.Sleep(time.Minute)
		// Slow readers.
		reads := make(chan struct{})
		for range mostHeld - 1 {
			go func() {
				r := httptest.NewRequest(http.MethodGet, "/clients", nil)
				r.Host = "localhost"
				a.Handler().ServeHTTP(&slowReader{httptest.NewRecorder(), reads}, r)
			}()
		}
		time.Sleep(mostHeld * takes)
		want(t, ask(a, http.MethodGet, "/clients"), http.StatusOK)
		close(reads)
		time.Sleep(time.Minute)
	})
}

// TestForeignPagesReadNothing: a page of another web site, or of another port, makes a browser ask
// for nothing; a link on it may lead here.
func TestForeignPagesReadNothing(t *testing.T) {
	w := newWorld(t)
	a, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	fetched := func(site, mode, dest string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", mode)
			r.Header.Set("Sec-Fetch-Dest", dest)
		}
	}
	for _, path := range []string{"/resources?bodies=true", "/metrics", "/readyz", "/", "/events", "/debug/pprof/heap"} {
		for _, edit := range []func(*http.Request){
			fetched("cross-site", "no-cors", "empty"), fetched("cross-site", "no-cors", "image"), fetched("same-site", "cors", "empty"),
			fetched("same-site", "no-cors", "script"), fetched("cross-site", "navigate", "iframe"), fetched("cross-site", "navigate", "object"),
			header("Sec-Fetch-Site", "cross-site"), header("Origin", "http://localhost:3000"), header("Origin", "null"),
		} {
			want(t, ask(a, http.MethodGet, path, edit), http.StatusForbidden, "other web sites")
			want(t, ask(a, http.MethodHead, path, edit), http.StatusForbidden)
		}
	}
	for _, path := range []string{"/", "/clients", "/resources?bodies=true"} {
		for _, edit := range []func(*http.Request){
			fetched("cross-site", "navigate", "document"), fetched("same-site", "navigate", "document"), fetched("none", "navigate", "document"),
			fetched("same-origin", "cors", "empty"), fetched("same-origin", "navigate", "iframe"), header("Origin", "http://localhost:19080"),
		} {
			want(t, ask(a, http.MethodGet, path, edit), http.StatusOK)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	fetched("cross-site", "no-cors", "image")(r)
	rec := httptest.NewRecorder()
	a.Probes().ServeHTTP(rec, r)
	want(t, rec, http.StatusForbidden)
}

// endless is a body without end, which counts what is read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read.Add(int64(len(b)))
	return len(b), nil
}
func (e *endless) Close() error { return nil }

// TestBodiesOfRequestsEnd: no path reads a body without end.
func TestBodiesOfRequestsEnd(t *testing.T) {
	w := newWorld(t)
	w.cfg.ClientStatus = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for b := make([]byte, 1<<10); ; {
			if _, err := r.Body.Read(b); err != nil {
				return
			}
		}
	})
	for _, path := range []string{"/log", "/v3/discovery:client_status", "/drain", "/origins/mesh/freeze", signInPath} {
		body := &endless{}
		w.do(http.MethodPost, path, func(r *http.Request) { r.Body = body })
		if n := body.read.Load(); n > mostBody+64<<10 {
			t.Errorf("%s reads %d bytes", path, n)
		}
	}
}

// TestProfilesAreBounded: a profile takes a minute at most, and two are taken at a time.
func TestProfilesAreBounded(t *testing.T) {
	w := newWorld(t)
	a, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"61", "1e9", "NaN", "86400", "-1", "x", "0x1p10", "30&seconds=3600"} {
		for _, path := range []string{"profile", "trace", "heap", "goroutine"} {
			want(t, ask(a, http.MethodGet, "/debug/pprof/"+path+"?seconds="+query), http.StatusBadRequest, "seconds")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan bool)
	for range mostProfiles {
		go func() {
			ask(a, http.MethodGet, "/debug/pprof/heap?seconds=60", func(r *http.Request) { *r = *r.WithContext(ctx) })
			done <- true
		}()
	}
	for len(a.profiles) < mostProfiles {
		runtime.Gosched()
	}
	want(t, ask(a, http.MethodGet, "/debug/pprof/heap"), http.StatusServiceUnavailable, "profiles")
	cancel()
	for range mostProfiles {
		<-done
	}
	want(t, ask(a, http.MethodGet, "/debug/pprof/heap"), http.StatusOK)
}
