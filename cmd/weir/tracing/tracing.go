package tracing

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	// MostOpen is how many updates are followed at a time.
	MostOpen = 100
	// lookEvery is the time between two looks at the open updates.
	lookEvery = 100 * time.Millisecond
	// flush bounds how long the last spans may take at the end.
	flush = time.Second
	// exportWait bounds one export.
	exportWait = 10 * time.Second
	// precision is how far two times of one receipt may differ, by the clock that they are of.
	precision = time.Microsecond
)

// Config of a Tracing. All fields are required unless they say otherwise.
type Config struct {
	// Endpoint is host:port of the collector, which speaks OTLP over gRPC.
	Endpoint string
	// TLS secures the connection to it; nil: plain text.
	TLS *tls.Config
	// Headers are sent with each export. Default: none.
	Headers map[string]string
	// Service, Instance and Version are of this process.
	Service, Instance, Version string
	// Traces draws the updates.
	Traces *relay.Traces
	// Unsent returns how many clients have still to be sent each of the updates.
	Unsent func([]*relay.Traced) []int
	// Log gets failures.
	Log *zap.Logger
}

// Tracing follows updates and exports a span for each.
type Tracing struct {
	// Longest is how long an update is followed. It is a minute, and set before Run.
	Longest time.Duration

	// Set once by New.
	cfg      Config
	base     context.Context // of spans
	stop     func()          // ends exports
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer

	mu   sync.Mutex // guards what follows
	open []*update
}

// New makes a Tracing. It connects to the collector later, and whether there is one or not.
func New(ctx context.Context, cfg Config) (*Tracing, error) {
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(cfg.Endpoint), otlptracegrpc.WithHeaders(cfg.Headers), otlptracegrpc.WithTimeout(exportWait),
	}
	if cfg.TLS == nil {
		options = append(options, otlptracegrpc.WithInsecure())
	} else {
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(cfg.TLS)))
	}
	t := &Tracing{Longest: time.Minute, cfg: cfg, base: context.WithoutCancel(ctx)}
	to, err := otlptracegrpc.New(t.base, options...)
	if err != nil {
		return nil, err
	}
	x := &exporter{SpanExporter: to, log: cfg.Log}
	x.end, t.stop = context.WithCancel(t.base)
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // the updates were drawn already
		sdktrace.WithBatcher(x, sdktrace.WithBatchTimeout(time.Second), sdktrace.WithExportTimeout(exportWait)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", cfg.Service),
			attribute.String("service.instance.id", cfg.Instance), attribute.String("service.version", cfg.Version))),
	)
	t.tracer = t.provider.Tracer("github.com/weir-xds/weir")
	return t, nil
}

// Open is part of downstream.Traces.
func (t *Tracing) Open() bool { return t.cfg.Traces.Open() }

// Note is part of downstream.Traces. It locks the tracing.
func (t *Tracing) Note(e *downstream.Event) {
	switch e.Kind {
	case downstream.EventSent, downstream.EventAcked, downstream.EventNacked, downstream.EventEnded:
	default:
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeDrawn()
	for _, u := range t.open {
		u.note(e)
	}
}

// TraceID is the trace of the open update of a type that was received at a time; "": there is none.
// It locks the tracing.
func (t *Tracing) TraceID(typeURL string, received time.Time) string {
	if !t.Open() {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeDrawn()
	i := slices.IndexFunc(t.open, func(u *update) bool {
		return u.TypeURL == typeURL && u.Came.Sub(received).Abs() <= precision
	})
	if i < 0 {
		return ""
	}
	return t.open[i].span.SpanContext().TraceID().String()
}

// takeDrawn opens the updates that were drawn meanwhile.
func (t *Tracing) takeDrawn() {
	for _, x := range t.cfg.Traces.Drawn() {
		_, span := t.tracer.Start(t.base, "update", trace.WithTimestamp(x.Came), trace.WithNewRoot())
		t.open = append(t.open, &update{Traced: x, span: span, waits: map[uint64]uint64{}})
	}
}

// Run follows updates until ctx ends, and then exports what there is.
func (t *Tracing) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if !t.Open() {
			select {
			case <-ctx.Done():
			case <-t.cfg.Traces.Wake():
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
			t.look(time.Now(), false)
		}
	}
	t.look(time.Now(), true)
	t.Close()
	return nil
}

// Close exports what there is, within a second. Run does it.
func (t *Tracing) Close() {
	ctx, cancel := context.WithTimeout(t.base, flush)
	defer cancel()
	defer t.stop()
	_ = t.provider.Shutdown(ctx) // what is left is lost with the process
}

// look ends the updates that are over; all: every one. It locks the tracing.
func (t *Tracing) look(now time.Time, all bool) {
	t.mu.Lock()
	t.takeDrawn()
	open := slices.Clone(t.open)
	t.mu.Unlock()
	traced := make([]*relay.Traced, len(open))
	for i, u := range open {
		traced[i] = u.Traced
	}
	unsent := t.cfg.Unsent(traced) // it locks sessions, so it is asked without our lock

	t.mu.Lock()
	defer t.mu.Unlock()
	for i, u := range open { // what came meanwhile is behind them
		if u.unsent = unsent[i]; u.over(now.Sub(u.Came) > t.Longest || all) {
			u.end(now)
			t.cfg.Traces.End()
			t.open = slices.DeleteFunc(t.open, func(x *update) bool { return x == u })
		}
	}
}

// sayEvery is the least time between two lines of log about failed exports.
const sayEvery = 5 * time.Minute

// exporter exports spans, and logs failures now and then. Without it the library would write them
// to stderr, in a form of its own.
type exporter struct {
	sdktrace.SpanExporter
	log *zap.Logger
	end context.Context // exports end with it

	mu   sync.Mutex // guards what follows; a leaf
	last time.Time  // when a failure was logged
	lost int        // spans, since then
}

// ExportSpans is part of sdktrace.SpanExporter. It locks the exporter.
func (x *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.end, cancel)()
	err := x.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	x.mu.Lock()
	x.lost += len(spans)
	lost, now := x.lost, time.Now()
	say := x.last.IsZero() || now.Sub(x.last) >= sayEvery
	if say {
		x.last, x.lost = now, 0
	}
	x.mu.Unlock()
	if say {
		x.log.Warn("cannot export traces; they are lost", zap.Error(err), zap.Int("spans", lost))
	}
	return nil
}

// longestText bounds the texts of an attribute, in bytes.
const longestText = 256

// update is an update while it is followed.
type update struct {
	*relay.Traced
	span trace.Span

	clients, acked, nacked, gone int // those who were sent it, and what they did
	ackedFirst, ackedLast        time.Time
	last                         time.Time         // when something happened
	waits                        map[uint64]uint64 // streams that have not answered, with the number of the answer
	unsent                       int               // who has still to be sent it, at the last look
	quiet                        int               // how many looks have found nobody to wait for
}

// note takes an event in.
func (u *update) note(e *downstream.Event) {
	number, waits := u.waits[e.Stream]
	switch {
	case e.Kind == downstream.EventSent:
		if !waits && u.in(e) {
			u.clients++
			u.waits[e.Stream] = e.Number
			u.last = e.At
		}
		return
	case !waits:
		return
	case e.Kind == downstream.EventEnded:
		u.gone++
	case e.TypeURL != u.TypeURL || e.Number < number:
		return
	case e.Kind == downstream.EventNacked:
		u.nacked++
	default:
		if u.acked++; u.ackedFirst.IsZero() {
			u.ackedFirst = e.At
		}
		u.ackedLast = e.At
	}
	delete(u.waits, e.Stream)
	u.last = e.At
}

// in reports whether an answer has the update.
func (u *update) in(e *downstream.Event) bool {
	return e.TypeURL == u.TypeURL && (e.Source == nil || e.Source == u.Source) && e.First <= u.Revision && u.Revision <= e.Rev
}

// over reports whether the update need not be followed any longer. Between the take of an answer
// and its event the client is in neither number, so it takes two looks.
func (u *update) over(enough bool) bool {
	if u.quiet++; u.unfinished() > 0 {
		u.quiet = 0
	}
	return enough || u.quiet >= 2
}

// unfinished is how many clients lack the update.
func (u *update) unfinished() int { return len(u.waits) + u.unsent }

// end ends the span. Times are in seconds since the receipt.
func (u *update) end(now time.Time) {
	origin := u.Source.Origin().Name()
	u.span.SetAttributes(
		attribute.String("weir.origin", origin), attribute.String("weir.group", clip(u.Source.Key())),
		attribute.String("weir.type", metrics.ShortName(u.TypeURL)), attribute.Int64("weir.revision", int64(u.Revision)), //nolint:gosec // a count
		attribute.Int("weir.resources", u.Resources), attribute.Int("weir.removed", u.Removed), attribute.Int("weir.changed", u.Changed),
		attribute.Int("weir.clients", u.clients+u.unsent), attribute.Int("weir.acked", u.acked), attribute.Int("weir.nacked", u.nacked),
		attribute.Int("weir.gone", u.gone),
	)
	if !xds.IsSecret(u.TypeURL) { // it may be a digest of them (RELAY-76)
		u.span.SetAttributes(attribute.String("weir.origin_version", clip(u.Version)))
	}
	if u.acked > 0 {
		u.span.SetAttributes(attribute.Float64("weir.acked_first", u.ackedFirst.Sub(u.Came).Seconds()),
			attribute.Float64("weir.acked_last", u.ackedLast.Sub(u.Came).Seconds()))
	}
	at := u.last
	switch n := u.unfinished(); {
	case n > 0:
		u.span.SetAttributes(attribute.Int("weir.unfinished", n))
		at = now
	case at.IsZero():
		at = u.Came // it reached nobody
	}
	u.span.End(trace.WithTimestamp(at))
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), longestText)], "") }
