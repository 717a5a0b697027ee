package metrics

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// delayBuckets are the bounds of the histograms of delays, in seconds.
var delayBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// delays are histograms whose series are shown from when they may get something. An origin has one
// for each type and stage, of which most configurations use few.
type delays struct {
	vec *prometheus.HistogramVec // not registered

	mu  sync.Mutex        // guards all
	all map[string]*delay // by the values of its labels
}

// delay is one of them.
type delay struct {
	prometheus.Histogram
	shown atomic.Bool
}

func newDelays(reg prometheus.Registerer, name, help string, labels ...string) *delays {
	d := &delays{
		vec: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: delayBuckets}, labels),
		all: map[string]*delay{},
	}
	reg.MustRegister(d)
	return d
}

// with returns the histogram of the labels. It locks the list.
func (d *delays) with(labels ...string) *delay {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := strings.Join(labels, "\x00")
	x := d.all[key]
	if x == nil {
		x = &delay{Histogram: d.vec.WithLabelValues(labels...).(prometheus.Histogram)}
		d.all[key] = x
	}
	return x
}

// Describe implements prometheus.Collector.
func (d *delays) Describe(ch chan<- *prometheus.Desc) { d.vec.Describe(ch) }

// Collect implements prometheus.Collector. It locks the list.
func (d *delays) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.all {
		if x.shown.Load() {
			ch <- x.Histogram
		}
	}
}

// Propagation measures how long changes of one type of an origin take to its clients. Nil measures
// nothing.
type Propagation struct {
	sent, acked *delay
	exemplars   *atomic.Bool
}

// show has the series be there, at zero, before there is anything to measure, so that a rate
// includes the first change.
func (p *Propagation) show() {
	p.sent.shown.Store(true)
	p.acked.shown.Store(true)
}

// Exemplars reports whether Sent and Acked use what they are told of the client.
func (p *Propagation) Exemplars() bool { return p != nil && p.exemplars.Load() }

// Sent records that a change was sent to a client d after its receipt from the origin.
func (p *Propagation) Sent(d time.Duration, to Exemplar) {
	if p != nil {
		p.observe(p.sent, d, &to)
	}
}

// Acked records that a client acknowledged a change d after its receipt from the origin.
func (p *Propagation) Acked(d time.Duration, by Exemplar) {
	if p != nil {
		p.observe(p.acked, d, &by)
	}
}

func (p *Propagation) observe(x *delay, d time.Duration, e *Exemplar) {
	if e.Stream == 0 || !p.exemplars.Load() {
		x.Observe(d.Seconds())
		return
	}
	x.Histogram.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), e.labels())
}

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
