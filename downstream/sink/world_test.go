package sink

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cds = xds.ClusterType
	eds = xds.EndpointType
	lds = xds.ListenerType
	rds = xds.RouteType
	sds = xds.SecretType

	settle = 50 * time.Millisecond
	hold   = 500 * time.Millisecond
	cold   = 10 * time.Second
)

// world is a table driven by hand, and a sink that is stepped by hand: the test says what the
// origin answers and what time it is.
type world struct {
	t        *testing.T
	table    *relay.Table
	origin   *relay.Origin
	sink     *Sink
	dir      string
	now      time.Time
	lanes    []*relay.Lane
	count    int // of responses
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
	steps    []string // what was written and removed, in order, from one look to the next
	seen     map[string]string
	renamed  []string // since the last look
	away     bool     // the origin
}

func newWorld(t *testing.T, edit ...func(*Config)) *world {
	t.Helper()
	return newWorldOf(t, relay.OriginConfig{Name: "mesh"}, edit...)
}

func newWorldOf(t *testing.T, of relay.OriginConfig, edit ...func(*Config)) *world {
	t.Helper()
	w := &world{
		t: t, dir: filepath.Join(t.TempDir(), "out"), now: time.Unix(1e9, 0), seen: map[string]string{},
	}
	w.newTable(of)
	w.begin(edit...)
	return w
}

func (w *world) newTable(of relay.OriginConfig) {
	w.t.Helper()
	table, err := relay.New(relay.Config{Settle: settle, ColdWait: cold, FirmSettle: 2500 * time.Millisecond, Origins: []relay.OriginConfig{of}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.table, w.origin, w.lanes = table, table.Origin("mesh"), nil
	w.t.Cleanup(func() {
		if err := table.Check(); err != nil {
			w.t.Error(err)
		}
	})
}

// begin starts a sink as a process does that begins.
func (w *world) begin(edit ...func(*Config)) {
	w.t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	w.logs, w.registry = logs, prometheus.NewRegistry()
	cfg := Config{
		Path: w.dir, Origin: w.origin, Node: &corev3.Node{Id: "files", Cluster: "edge"}, OrderHold: hold, ColdWait: cold,
		Log: zap.New(core), Metrics: metrics.New(w.registry),
	}
	for _, e := range edit {
		e(&cfg)
	}
	var err error
	if w.sink, err = New(cfg); err != nil {
		w.t.Fatal(err)
	}
	w.sink.dir.renamed = func(file string) { w.renamed = append(w.renamed, file) }
	sink := w.sink
	w.t.Cleanup(func() { sink.leave(w.now) })
	w.pass(0)
}

// pass lets time go by. The sink is stepped whenever it would be.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); ; {
		w.table.Advance(w.now)
		w.up()
		_, wrote := w.sink.step(w.now)
		w.up()
		w.look()
		if !wrote && !w.now.Before(end) {
			return
		}
		if w.now.Before(end) {
			w.now = w.now.Add(min(10*time.Millisecond, end.Sub(w.now)))
		}
	}
}

// up opens the lanes that are wanted, and asks on all what there is to ask.
func (w *world) up() {
	if w.away {
		return
	}
	for _, l := range w.origin.TakeLanes() {
		l.Open(w.now, 0)
		w.lanes = append(w.lanes, l)
	}
	for _, l := range w.lanes {
		if _, reopen := l.Take(w.now, false); reopen {
			l.Close()
			l.Open(w.now, 0)
			l.Take(w.now, false)
		}
	}
}

// says has the origin answer, and the sink notice.
func (w *world) says(typeURL string, what ...any) {
	w.t.Helper()
	w.answers(typeURL, what...)
	w.pass(0)
}

// answers has the origin answer. A string that begins with a minus is a removal.
func (w *world) answers(typeURL string, what ...any) {
	w.t.Helper()
	w.count++
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: fmt.Sprint("n", w.count)}
	for _, x := range what {
		switch x := x.(type) {
		case string:
			m.RemovedResources = append(m.RemovedResources, strings.TrimPrefix(x, "-"))
		case proto.Message:
			a, err := anypb.New(x)
			if err != nil {
				w.t.Fatal(err)
			}
			a.TypeUrl = typeURL
			m.Resources = append(m.Resources, &discoveryv3.Resource{Name: nameOf(x), Version: fmt.Sprint("v", w.count), Resource: a})
		}
	}
	b, err := proto.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	parsed, err := xds.ParseResponse(b, true)
	if err != nil {
		w.t.Fatal(err)
	}
	u, bad := xds.Accept(parsed, 0)
	if bad != nil {
		w.t.Fatal(bad)
	}
	for _, l := range w.lanes {
		if _, ok := l.Apply(w.now, &u); ok {
			return
		}
	}
	w.t.Fatalf("%s was never asked for", typeURL)
}

func nameOf(m proto.Message) string {
	switch m := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		return m.GetClusterName()
	case interface{ GetName() string }:
		return m.GetName()
	}
	return ""
}

// cluster has its endpoints from elsewhere. mark makes one content differ from another.
func cluster(name string, mark ...string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}, AltStatName: strings.Join(mark, ""),
	}
}

func endpoints(name string, zones ...string) *endpointv3.ClusterLoadAssignment {
	m := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	for _, z := range zones {
		m.Endpoints = append(m.Endpoints, &endpointv3.LocalityLbEndpoints{Locality: &corev3.Locality{Zone: z}})
	}
	return m
}

func route(name string, mark ...string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: name, InternalOnlyHeaders: mark}
}

func secret(name string) *tlsv3.Secret { return &tlsv3.Secret{Name: name} }

// listener has its routes from elsewhere.
func listener(t *testing.T, name, routes string) *listenerv3.Listener {
	t.Helper()
	hcm, err := anypb.New(&hcmv3.HttpConnectionManager{
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: routes}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &listenerv3.Listener{Name: name, FilterChains: []*listenerv3.FilterChain{{
		Filters: []*listenerv3.Filter{{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: hcm}}},
	}}}
}

// read gives the names in a file; ok is false if there is none.
func (w *world) read(file string) (names []string, ok bool) {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.dir, file))
	if err != nil {
		return nil, false
	}
	m := &discoveryv3.DiscoveryResponse{}
	if err := proto.Unmarshal(content, m); err != nil {
		w.t.Fatalf("%s is no response: %v", file, err)
	}
	if m.GetVersionInfo() == "" || m.GetTypeUrl() == "" {
		w.t.Errorf("%s has no version or no type: %v", file, m)
	}
	for _, a := range m.GetResources() {
		x, err := a.UnmarshalNew()
		if err != nil {
			w.t.Fatal(err)
		}
		names = append(names, nameOf(x))
	}
	return names, true
}

// disk is what is there, with its mode.
func (w *world) disk() map[string]string {
	w.t.Helper()
	now := map[string]string{}
	entries, _ := os.ReadDir(w.dir)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(w.dir, e.Name()))
		info, statErr := e.Info()
		if err != nil || statErr != nil {
			w.t.Fatal(err, statErr)
		}
		now[e.Name()] = info.Mode().String() + string(content)
	}
	return now
}

// look notes which files are others than before.
func (w *world) look() {
	w.t.Helper()
	now := w.disk()
	var changed []string
	for _, file := range w.renamed {
		if before, was := w.seen[file]; was && before == now[file] {
			w.t.Errorf("%s was written, and is what it was", file)
		}
		names, _ := w.read(file)
		changed = append(changed, file+"="+strings.Join(names, ","))
	}
	for file, content := range now {
		if w.seen[file] != content && !slices.Contains(w.renamed, file) {
			w.t.Errorf("%s was changed in place, or left behind", file)
		}
	}
	w.renamed = nil
	var gone []string
	for file := range w.seen {
		if _, is := now[file]; !is {
			gone = append(gone, "-"+file)
		}
	}
	slices.Sort(gone)
	if changed = append(changed, gone...); len(changed) > 0 {
		w.steps = append(w.steps, strings.Join(changed, " "))
	}
	w.seen = now
}

// wrote fails unless this is what has changed since the last call, step by step.
func (w *world) wrote(sentence string, steps ...string) {
	w.t.Helper()
	if !slices.Equal(w.steps, steps) {
		w.t.Errorf("%s:\nwant %q\n got %q", sentence, steps, w.steps)
	}
	w.steps = nil
}

// counted is how often files were written, by how it ended.
func (w *world) counted(result string) (n float64) {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "weir_sink_writes_total" && l.GetValue() == result {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// filled is a world of one of each, written.
func filled(t *testing.T, edit ...func(*Config)) *world {
	t.Helper()
	w := newWorld(t, edit...)
	w.fill()
	return w
}

func (w *world) fill() {
	w.t.Helper()
	w.says(cds, cluster("a"))
	w.says(lds, listener(w.t, "l", "r"))
	w.pass(settle)
	w.says(eds, endpoints("a", "z1"))
	w.says(rds, route("r"))
	w.pass(3 * time.Second)
	w.wrote("all is written, in order", "eds.a.pb=a", "cds.pb=a", "rds.r.pb=r lds.pb=l")
}
