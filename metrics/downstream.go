package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// DownstreamType counts the client streams of one dialect for one type. Nil counts nothing.
type DownstreamType struct {
	responses, bytes, nacks prometheus.Counter
}

type downstreamKey struct{ typeName, dialect string }

func newDownstream(f promauto.Factory) map[downstreamKey]*DownstreamType {
	responses := counterVec(f, "weir_downstream_responses_total", "Responses sent to clients.", "type", "dialect")
	bytes := counterVec(f, "weir_downstream_bytes_total",
		"Bytes of the responses sent to clients, uncompressed.", "type", "dialect")
	nacks := counterVec(f, "weir_downstream_nacks_total", "Responses that clients rejected.", "type", "dialect")

	out := make(map[downstreamKey]*DownstreamType)
	for _, typeName := range typeNames {
		for _, dialect := range dialects {
			out[downstreamKey{typeName, dialect}] = &DownstreamType{
				responses: responses.WithLabelValues(typeName, dialect),
				bytes:     bytes.WithLabelValues(typeName, dialect),
				nacks:     nacks.WithLabelValues(typeName, dialect),
			}
		}
	}
	return out
}

// Downstream returns the counters of a type (short name or type URL) and a dialect ("delta";
// anything else is "sotw"). It takes no lock. Callers should keep the result, which never changes.
func (m *Metrics) Downstream(typeShort, dialect string) *DownstreamType {
	if m == nil {
		return nil
	}
	return m.downstream[downstreamKey{ShortName(typeShort), dialectName(dialect)}]
}

// Response counts a response that was sent, and its size in bytes.
func (d *DownstreamType) Response(bytes int) {
	if d != nil {
		d.responses.Inc()
		d.bytes.Add(float64(bytes))
	}
}

// Nack counts a response that a client rejected.
func (d *DownstreamType) Nack() {
	if d != nil {
		d.nacks.Inc()
	}
}
