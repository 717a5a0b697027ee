package metrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Exemplar names the client of a measured propagation, for people who look at a slow one. Unlike
// labels, exemplars make no series: a bucket keeps its last one.
type Exemplar struct {
	Stream uint64 // as /clients has it; 0: there is no exemplar
	Node   string // the client's node id
	Trace  string // the trace of the change; "": there is none
}

// OpenMetrics bounds names and values of an exemplar's labels together to 128 characters. Of these
// the names take 21, a stream at most 20, and a trace 32.
const (
	mostNode  = 48
	mostTrace = 32
)

// labels are those of the exemplar. The library panics over labels that are too long, or not in
// UTF-8.
func (e *Exemplar) labels() prometheus.Labels {
	all := prometheus.Labels{"stream": strconv.FormatUint(e.Stream, 10)}
	if e.Node != "" {
		all["node_id"] = clip(e.Node, mostNode)
	}
	if e.Trace != "" {
		all["trace_id"] = clip(e.Trace, mostTrace)
	}
	return all
}

// clip returns at most so many characters of a text, as valid UTF-8.
func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "?")
	for i := range s {
		if most--; most < 0 {
			return s[:i]
		}
	}
	return s
}

// HasExemplars reports whether the exemplars of propagation are on.
func (m *Metrics) HasExemplars() bool { return m != nil && m.exemplars.Load() }

// Exemplars switches the exemplars of propagation on or off.
func (m *Metrics) Exemplars(on bool) {
	if m != nil {
		m.exemplars.Store(on)
	}
}
