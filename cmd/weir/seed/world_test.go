package seed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// patience is the time that a search has in tests that do not expect it to pass.
const patience = time.Minute

// newTable returns a table with so many clusters of the origin mesh.
func newTable(t testing.TB, clusters int, text string) *relay.Table {
	t.Helper()
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if clusters == 0 {
		return table
	}
	group, err := table.Origin("mesh").Group(relaytest.Node("n", "c"))
	if err != nil {
		t.Fatal(err)
	}
	fillTable(t, table, group, clusters, text)
	return table
}

// fillTable has a client of a group ask for all clusters, and the origin answer.
func fillTable(t testing.TB, table *relay.Table, group *relay.Group, clusters int, text string) {
	t.Helper()
	now := time.Now()
	group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: relaytest.ClusterType, Delta: true}).Update(now, []string{"*"}, nil)
	lane := table.Origin("mesh").TakeLanes()[0]
	lane.Open(now, 0)
	lane.Take(now, false)
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: relaytest.ClusterType, Nonce: "1"}
	for i := range clusters {
		name := fmt.Sprintf("c-%05d", i)
		m.Resources = append(m.Resources, &discoveryv3.Resource{Name: name, Version: "1", Resource: relaytest.EDSCluster(name, text)})
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := xds.ParseResponse(raw, true)
	if err != nil {
		t.Fatal(err)
	}
	update, rejected := xds.Accept(r, 1000)
	if rejected != nil {
		t.Fatal(rejected)
	}
	lane.Apply(now, &update)
	table.Advance(now.Add(time.Minute)) // it is quiet, so the set is whole
}

// sibling is a Server with a table.
type sibling struct {
	*httptest.Server
	head  Head
	table *relay.Table
	keys  *snapshot.Keys
	seed  *Server
	// change alters answers; nil: they stay.
	change func(w http.ResponseWriter, r *http.Request) bool
	asked  atomic.Int64 // how often the state was, since states
	opened chan struct{}
}

// newSibling starts a sibling that has so many clusters, for which the origin vouched so long ago.
func newSibling(t *testing.T, clusters int, ago time.Duration, edit ...func(*sibling)) *sibling {
	t.Helper()
	s := &sibling{table: newTable(t, clusters, "x"), opened: make(chan struct{})}
	s.head = Head{
		Process: t.Name() + fmt.Sprint(time.Now().UnixNano()), Deployment: "weir", Format: snapshot.Format,
		Origins: []Origin{{Name: "mesh", Resources: clusters, Vouched: time.Now().Add(-ago)}},
	}
	close(s.opened)
	for _, e := range edit {
		e(s)
	}
	s.seed = NewServer(ServerConfig{
		Loaded: s.opened, Head: func() Head { return s.head }, Log: zap.NewNop(),
		Capture: func() *snapshot.State { return s.capture(s.head.Deployment, time.Now()) },
	})
	handler := s.seed.Handler()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == statePath {
			s.asked.Add(1)
		}
		if s.change == nil || !s.change(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sibling) capture(deployment string, now time.Time) *snapshot.State {
	origins := []snapshot.Origin{{Name: "mesh", Addresses: []string{"cp:1"}, Vouched: s.head.Origins[0].Vouched, Frozen: s.head.Origins[0].Frozen}}
	return snapshot.Capture(s.table, origins, deployment, s.keys, now)
}

func (s *sibling) address() string { return s.Listener.Addr().String() }

// states is how often the state was asked for since the last call.
func (s *sibling) states() int { return int(s.asked.Swap(0)) }

// search is a Search, with what it logs.
type search struct {
	*Search
	t    *testing.T
	logs *observer.ObservedLogs
}

func newSearch(t *testing.T, edit func(*Config), siblings ...*sibling) *search {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cfg := Config{
		Process: "me", Deployment: "weir", Origins: []string{"mesh"}, MaxBytes: 1 << 30,
		Dial: (&net.Dialer{}).DialContext, Log: zap.New(core),
	}
	for _, s := range siblings {
		cfg.Peers = append(cfg.Peers, Peer{Address: s.address()})
	}
	if edit != nil {
		edit(&cfg)
	}
	return &search{New(cfg), t, logs}
}

// run searches until something was found, and returns where it is from and how long it took.
func (s *search) run(within time.Duration) (found Found, took time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	began := time.Now()
	for f := range s.Sources(ctx, s.Heads(ctx)) {
		found = f
		break
	}
	return found, time.Since(began)
}

// said reports whether the text of a log line or its error contains a part.
func (s *search) said(part string) bool {
	for _, e := range s.logs.All() {
		if strings.Contains(e.Message+" "+fmt.Sprint(e.ContextMap()), part) {
			return true
		}
	}
	return false
}

// lines are what was logged, for messages.
func (s *search) lines() string {
	var b strings.Builder
	for _, e := range s.logs.All() {
		fmt.Fprintln(&b, e.Level, e.Message, e.ContextMap())
	}
	return b.String()
}

// resources are those of a content.
func resourcesOf(t *testing.T, f Found) int {
	t.Helper()
	if f.Content == nil {
		return 0
	}
	table := newTable(t, 0, "")
	now := time.Now()
	r := f.Content.Restore(table, snapshot.RestoreConfig{Now: now, Wall: now, Addresses: map[string][]string{"mesh": {"cp:1"}}})
	if len(r.Problems) > 0 || r.Lost > 0 {
		t.Errorf("restored with %d lost: %v", r.Lost, r.Problems)
	}
	return r.Resources
}
