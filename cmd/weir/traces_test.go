package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay/relaytest"
)

// otlpCollector takes spans over OTLP.
type otlpCollector struct {
	collector.UnimplementedTraceServiceServer
	address string

	mu      sync.Mutex // guards all below
	spans   []*otlp.Span
	tenants []string // what the header says, of each export
	service string
}

func newCollector(t *testing.T) *otlpCollector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, s := &otlpCollector{address: l.Addr().String()}, grpc.NewServer()
	collector.RegisterTraceServiceServer(s, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *otlpCollector) Export(ctx context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	c.tenants = append(c.tenants, md.Get("x-tenant")...)
	for _, rs := range r.GetResourceSpans() {
		c.service = rs.GetResource().String()
		for _, ss := range rs.GetScopeSpans() {
			c.spans = append(c.spans, ss.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// with returns the spans that have all these attributes, as "key=value".
func (c *otlpCollector) with(attributes ...string) (found []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		has := 0
		for _, a := range attributes {
			if strings.Contains(attributesOf(s), " "+a+" ") {
				has++
			}
		}
		if has == len(attributes) {
			found = append(found, s)
		}
	}
	return found
}

// all are the spans' attributes, for messages.
func (c *otlpCollector) all() (all string) {
	for _, s := range c.with() {
		all += s.GetName() + attributesOf(s) + "\n"
	}
	return all
}

func attributesOf(s *otlp.Span) string {
	text := " "
	for _, a := range s.GetAttributes() {
		value := fmt.Sprint(a.GetValue().GetIntValue())
		if a.GetValue().GetIntValue() == 0 {
			value = a.GetValue().GetStringValue()
		}
		text += a.GetKey() + "=" + value + " "
	}
	return text
}

// tracedWeir runs a weir of files that traces as configured, and follows an update so long at most.
func tracedWeir(t *testing.T, dir files, tracing string, longest time.Duration) *running {
	t.Helper()
	text := freePorts + filesOrigin(dir) + "metrics: { exemplars: true }\ntiming: { drain: 1s }\ntracing: " + tracing + "\n"
	cfg, err := config.Parse("weir.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	return runWeir(t, cfg, zap.New(core), logs, func(p *process) {
		if p.tracing != nil {
			p.tracing.Longest = longest
		}
	})
}

// joinAll opens so many clients of `*`, each of which has cluster a.
func joinAll(t *testing.T, w *running, n int, cfg relaytest.ClientConfig) (all []*relaytest.Client) {
	t.Helper()
	cfg.Patience = patience
	conn := dial(t, w.listenAddress())
	for i := range n {
		c := relaytest.NewClient(t, conn, cfg)
		c.Open(relaytest.Node(fmt.Sprintf("envoy-%d", i), "edge"))
		c.Request(relaytest.ClusterType)
		all = append(all, c)
	}
	for _, c := range all {
		c.AwaitNames(relaytest.ClusterType, "the first cluster comes", "a")
	}
	return all
}

// TestTracingFollowsAnUpdate: an update to fifty clients makes one span, which says how many
// acknowledged it, and which the exemplars name.
func TestTracingFollowsAnUpdate(t *testing.T) {
	to, dir := newCollector(t), newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := tracedWeir(t, dir, fmt.Sprintf("{ endpoint: %q, sample: 1, insecure: true, headers: { x-tenant: we-ourselves } }", to.address), time.Minute)
	all := joinAll(t, w, 50, relaytest.ClientConfig{Dialect: relaytest.Delta})
	await(t, "the first update is over", func() bool { return !w.tracing.Open() })
	before := time.Now()
	dir.put(t, "cds.yaml", clusters("a", "b"))
	for _, c := range all {
		c.AwaitNames(relaytest.ClusterType, "the second one comes", "a", "b")
	}
	of := []string{"weir.origin=disk", "weir.revision=2", "weir.type=cds", "weir.changed=1", "weir.clients=50", "weir.acked=50", "weir.nacked=", "weir.gone="}
	await(t, "there is a span", func() bool { return len(to.with(of...)) > 0 })
	spans := to.with(of...)
	if len(spans) != 1 || len(to.with("weir.unfinished=1")) > 0 {
		t.Errorf("not one span:\n%s", to.all())
	}
	s := spans[0]
	begun, ended := time.Unix(0, int64(s.GetStartTimeUnixNano())), time.Unix(0, int64(s.GetEndTimeUnixNano()))
	if s.GetName() != "update" || begun.Before(before.Add(-time.Second)) || !ended.After(begun) || len(s.GetParentSpanId()) > 0 {
		t.Errorf("%s from %v to %v, after %v", s.GetName(), begun, ended, before)
	}
	r, err := http.NewRequest(http.MethodGet, "http://"+w.admin.listener.Addr().String()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if _ = resp.Body.Close(); err != nil || !strings.Contains(string(text), `trace_id="`+hex.EncodeToString(s.GetTraceId())+`"`) {
		t.Errorf("no exemplar names the trace: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, shown := w.get("/config"); strings.Contains(shown, "we-ourselves") || !strings.Contains(shown, "x-tenant") {
		t.Errorf("/config shows the header: %s", shown)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.tenants) == 0 || to.tenants[0] != "we-ourselves" || !strings.Contains(to.service, `"weir"`) {
		t.Errorf("%q, %s", to.tenants, to.service)
	}
}

// TestTracingUnfinished: a client that never answers makes the span end after a while; one that
// refuses is counted as such.
func TestTracingUnfinished(t *testing.T) {
	to, dir := newCollector(t), newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := tracedWeir(t, dir, fmt.Sprintf("{ endpoint: %q, sample: 1, insecure: true }", to.address), 3*time.Second)
	refuses := atomic.Bool{}
	all := joinAll(t, w, 2, relaytest.ClientConfig{Dialect: relaytest.Delta})
	all = append(all, joinAll(t, w, 1, relaytest.ClientConfig{Dialect: relaytest.SotW, Reject: func(*relaytest.Response) string {
		if refuses.Load() {
			return "not to my taste"
		}
		return ""
	}})...)
	silent := joinAll(t, w, 1, relaytest.ClientConfig{Dialect: relaytest.Delta, ManualACK: true})[0]
	silent.ACK(relaytest.ClusterType)
	await(t, "the first update is over", func() bool { return !w.tracing.Open() })
	refuses.Store(true)
	dir.put(t, "cds.yaml", clusters("a", "b"))
	for _, c := range append(all[:2:2], silent) {
		c.AwaitNames(relaytest.ClusterType, "the second cluster comes", "a", "b")
	}
	await(t, "the span ends", func() bool {
		return len(to.with("weir.clients=4", "weir.acked=2", "weir.nacked=1", "weir.gone=", "weir.unfinished=1")) == 1
	})
	refuses.Store(false)
	silent.ACK(relaytest.ClusterType)
	dir.put(t, "cds.yaml", clusters("a", "b", "c"))
	for _, c := range append(all, silent) {
		c.AwaitNames(relaytest.ClusterType, "the third cluster comes", "a", "b", "c")
	}
	silent.Close()
	await(t, "a client that goes is not waited for", func() bool {
		return len(to.with("weir.clients=4", "weir.acked=3", "weir.nacked=", "weir.gone=1")) == 1
	})
}

// TestTracingOff: nothing is drawn, and nothing runs, without an endpoint or a sample.
func TestTracingOff(t *testing.T) {
	to := newCollector(t)
	for _, text := range []string{"{ sample: 1 }", fmt.Sprintf("{ endpoint: %q, sample: 0, insecure: true }", to.address)} {
		dir := newFiles(t)
		dir.put(t, "cds.yaml", clusters("a"))
		w := tracedWeir(t, dir, text, time.Minute)
		joinAll(t, w, 1, relaytest.ClientConfig{})
		if w.tracing != nil || w.draws != nil {
			t.Errorf("%s: it traces", text)
		}
		w.end()
	}
	if len(to.with()) > 0 {
		t.Errorf("there are spans:\n%s", to.all())
	}
}

// TestTracingDeadCollector: a collector that takes connections and says nothing delays neither an
// update nor the end.
func TestTracingDeadCollector(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := tracedWeir(t, dir, fmt.Sprintf("{ endpoint: %q, sample: 1 }", l.Addr()), time.Minute)
	c := joinAll(t, w, 1, relaytest.ClientConfig{})[0]
	for i := range 5 {
		dir.put(t, "cds.yaml", clusters("a", fmt.Sprintf("b%d", i)))
		c.AwaitNames(relaytest.ClusterType, "an update comes", "a", fmt.Sprintf("b%d", i))
	}
	await(t, "the updates are over", func() bool { return !w.tracing.Open() })
	c.Close()
	begun := time.Now()
	w.end()
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("the end takes %v", took)
	}
}
