package tracing

import (
	"context"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

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
		x.log.Warn("traces cannot be exported; they are lost, and nothing else is", zap.Error(err), zap.Int("spans", lost))
	}
	return nil
}
