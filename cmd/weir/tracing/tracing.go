package tracing

import (
	"context"
	"crypto/tls"
	"slices"
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
	"github.com/weir-xds/weir/relay"
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
