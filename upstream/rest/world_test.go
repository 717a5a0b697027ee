package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/encoding/protojson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cds = relaytest.ClusterType
	eds = relaytest.EndpointType
	lds = relaytest.ListenerType
)

// poll is one request that a scripted server was sent.
type poll struct {
	at     time.Time
	host   string
	path   string
	header http.Header
	*discoveryv3.DiscoveryRequest
}

// script answers polls, instead of a network. Safe for concurrent use.
type script struct {
	t *testing.T

	mu      sync.Mutex
	polls   []poll
	answers map[string]func(poll) (int, string) // by path; "host path" goes before; nil: 404
	down    map[string]bool                     // hosts that cannot be reached
	holds   bool                                // what is unchanged is not answered at all
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	p := poll{at: time.Now(), host: req.URL.Host, path: req.URL.Path, header: req.Header, DiscoveryRequest: &discoveryv3.DiscoveryRequest{}}
	if err := protojson.Unmarshal(body, p.DiscoveryRequest); err != nil {
		s.t.Errorf("%s is no request: %v", body, err)
	}
	s.mu.Lock()
	s.polls = append(s.polls, p)
	answer, down, held := s.answers[p.host+" "+p.path], s.down[p.host], s.holds
	if answer == nil {
		answer = s.answers[p.path]
	}
	s.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	code, text := http.StatusNotFound, "no such path"
	if answer != nil {
		code, text = answer(p)
	}
	if code == 0 || held && code == http.StatusNotModified {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(text))),
	}, nil
}

func (s *script) set(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
}

// serve has a path answered with a version and resources in JSON, or with 304 to who presents the
// version.
func (s *script) serve(where, version string, resources ...string) {
	text := `{"versionInfo":"` + version + `","nonce":"n` + version + `","resources":[` + strings.Join(resources, ",") + `]}`
	s.answer(where, func(p poll) (int, string) {
		if p.GetVersionInfo() == version {
			return http.StatusNotModified, ""
		}
		return http.StatusOK, text
	})
}

func (s *script) answer(where string, f func(poll) (int, string)) {
	s.set(func() { s.answers[where] = f })
}

// taken are the polls since the last call.
func (s *script) taken() []poll {
	s.mu.Lock()
	defer s.mu.Unlock()
	polls := s.polls
	s.polls = nil
	return polls
}

const (
	clusters  = "/v3/discovery:clusters"
	endpoints = "/v3/discovery:endpoints"
	listeners = "/v3/discovery:listeners"
)

func cluster(name string) string {
	return `{"@type":"` + cds + `","name":"` + name + `","connectTimeout":"1s"}`
}

func assignment(name string) string { return `{"@type":"` + eds + `","cluster_name":"` + name + `"}` }

// world is one scripted server, one table and one Origin between them, in virtual time. Clients are
// the table's own handles.
type world struct {
	*script
	table *relay.Table
	up    *Origin
	logs  *observer.ObservedLogs
	group *relay.Group
	stop  func()
}

// in runs f in a bubble. The origin has the URLs http://a and, where two is set, http://b.
func in(t *testing.T, edit func(*Config), f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, edit)
		f(w)
	})
}

func begin(t *testing.T, edit func(*Config)) *world {
	t.Helper()
	w := &world{script: &script{t: t, answers: map[string]func(poll) (int, string){}, down: map[string]bool{}}}
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{
		{Name: "rest", SotW: true, PerType: true, Types: Types(), GroupBy: []string{"cluster"}, Secrets: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.table = table
	core, logs := observer.New(zap.InfoLevel)
	w.logs = logs
	cfg := Config{Name: "rest", URLs: []string{"http://a"}, Log: zap.New(core), Instance: "weir-1"}
	if edit != nil {
		edit(&cfg)
	}
	if w.up, err = New(cfg, table.Origin("rest")); err != nil {
		t.Fatal(err)
	}
	w.up.client.Transport = w.script
	w.group = w.groupOf("edge")
	w.run()
	return w
}

func (w *world) groupOf(name string) *relay.Group {
	w.t.Helper()
	g, err := w.table.Origin("rest").Group(relaytest.Node("n", name))
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// run starts the Origin and the table's clock.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- w.up.Run(ctx) }()
	go func() { ended <- w.advance(ctx) }()
	w.stop = func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				w.t.Error(err)
			}
		}
		w.stop = func() {}
		if err := w.table.Check(); err != nil {
			w.t.Error(err)
		}
	}
	w.t.Cleanup(func() { w.stop() })
}

func (w *world) advance(ctx context.Context) error {
	for {
		var due <-chan time.Time
		if next := w.table.Advance(time.Now()); !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-w.table.Deadlines():
		}
	}
}

// want subscribes a new client to names of the type ("*" for the wildcard).
func (w *world) want(typeURL string, names ...string) *relay.Sub {
	sub := w.group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: typeURL, Delta: true})
	sub.Update(time.Now(), names, nil)
	return sub
}

func (w *world) held(typeURL string) []string {
	names := []string{}
	inspect.Query(w.table.Origin("rest"), inspect.ResourceQuery{TypeURL: typeURL}, func(r inspect.ResourceInfo) bool {
		if r.Body != nil {
			names = append(names, r.Name)
		}
		return true
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// wantHeld says what the table holds by now.
func (w *world) wantHeld(typeURL, sentence string, names ...string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.held(typeURL); !slices.Equal(got, names) {
		w.t.Fatalf("%s: the table holds %q, want %q; %v", sentence, got, names, w.logs.All())
	}
}

// sleep lets virtual time pass.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// one is the only poll since the last look.
func (w *world) one(sentence string) poll {
	w.t.Helper()
	synctest.Wait()
	ps := w.taken()
	if len(ps) != 1 {
		w.t.Fatalf("%s: %d polls, want one: %v", sentence, len(ps), ps)
	}
	return ps[0]
}

func (w *world) none(sentence string) {
	w.t.Helper()
	synctest.Wait()
	if ps := w.taken(); len(ps) != 0 {
		w.t.Fatalf("%s: %v", sentence, ps)
	}
}

// lines counts the log lines with a text.
func (w *world) lines(text string) int {
	synctest.Wait()
	return w.logs.Filter(func(e observer.LoggedEntry) bool {
		return strings.Contains(e.Message+fmt.Sprint(e.ContextMap()), text)
	}).Len()
}
