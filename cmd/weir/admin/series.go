package admin

import (
	"context"
	"net/http"
	runtimemetrics "runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
)

const (
	// seriesStep is the time between two samples, and seriesKept how many there are: six hours.
	seriesStep = 10 * time.Second
	seriesKept = 6 * 360
	// seriesOrigins bounds the origins in a sample: the first of the configuration.
	seriesOrigins = 20
	// seriesShare bounds the part of a processor that samples take: 1 in this.
	seriesShare = 400
)

// sample is how everything stood at a time. Rates are of the time since the sample before it.
type sample struct {
	at                                    time.Time
	inSync, lag, heap                     float64
	clients, unsynced, nacking, upstream  int
	deliveries, bytesSent, nacks, changes float64
	ended                                 float64 // client streams since the start
	origins                               []originSample
}

type originSample struct {
	name      string
	connected bool
	stale     int
	changes   float64
}

// series are the samples of the last hours. Run takes them.
type series struct {
	mu   sync.Mutex // guards ring and next
	ring []sample
	next int // where the next sample goes, once the ring is full

	// Owned by Run.
	totals    metrics.Totals
	revisions map[string]uint64 // by origin
	taken     time.Time
	heap      [1]runtimemetrics.Sample
}

// Run takes samples for charts, and ends answers whose callers are not admitted any more, until ctx
// ends. Then all answers end that go on. It is called once, or never.
func (a *Admin) Run(ctx context.Context) error {
	defer close(a.ended)
	a.series.heap[0].Name = "/memory/classes/heap/objects:bytes"
	timer, judge := time.NewTimer(0), time.NewTicker(leaseEvery)
	defer timer.Stop()
	defer judge.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-judge.C:
			a.recheck()
			continue
		case <-timer.C:
		}
		now := time.Now()
		s := a.board.get(now)
		a.series.take(s.Overview, a.cfg.Counts.Totals(), now)
		timer.Reset(max(seriesStep, seriesShare*s.cost)) // a large fleet takes long to count
	}
}

// take adds a sample.
func (s *series) take(o *Overview, now metrics.Totals, at time.Time) {
	runtimemetrics.Read(s.heap[:])
	gap := at.Sub(s.taken).Seconds()
	rate := func(n float64) float64 {
		if s.taken.IsZero() || gap <= 0 {
			return 0
		}
		return max(n, 0) / gap
	}
	x := sample{
		at: at, inSync: o.InSyncPercent, lag: o.WorstLag, heap: float64(s.heap[0].Value.Uint64()), clients: o.Clients, unsynced: o.Unsynced, nacking: o.Nacking,
		ended: now.Ended, deliveries: rate(now.Responses - s.totals.Responses), bytesSent: rate(now.Bytes - s.totals.Bytes), nacks: rate(now.Nacks - s.totals.Nacks),
	}
	revisions := make(map[string]uint64, len(o.Origins))
	for i := range o.Origins {
		g := &o.Origins[i]
		n := originSample{name: g.Name, connected: g.Connected, stale: g.Stale}
		if before, is := s.revisions[g.Name]; is {
			n.changes = rate(float64(g.Revisions) - float64(before))
		}
		revisions[g.Name] = g.Revisions
		x.upstream += g.Streams
		x.changes += n.changes
		if len(x.origins) < seriesOrigins {
			x.origins = append(x.origins, n)
		}
	}
	s.totals, s.revisions, s.taken = now, revisions, at

	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < seriesKept {
		s.ring = append(s.ring, x)
		return
	}
	s.ring[s.next] = x
	s.next = (s.next + 1) % seriesKept
}

// endedSince returns how many client streams have ended since a time, or since the first sample.
func (s *series) endedSince(t time.Time, total float64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.ring)
	before := total
	for i := range n {
		x := &s.ring[(s.next+n-1-i)%n] // the newest first
		before = x.ended
		if !x.at.After(t) {
			break
		}
	}
	return int(total - before)
}

// since returns the samples after a time, the oldest first.
func (s *series) since(t time.Time) []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Concat(s.ring[s.next:], s.ring[:s.next])
	return slices.DeleteFunc(all, func(x sample) bool { return !x.at.After(t) })
}

// seriesColumns is what /series answers: a column for each number, with a value for each of At.
type seriesColumns struct {
	Step          float64                  `json:"step_seconds"`
	At            []int64                  `json:"at"` // Unix seconds
	InSync        []float64                `json:"in_sync_percent"`
	Clients       []int                    `json:"clients"`
	Unsynced      []int                    `json:"unsynced"`
	Nacking       []int                    `json:"nacking"`
	Lag           []float64                `json:"worst_lag_seconds"`
	Deliveries    []float64                `json:"deliveries_per_second"`
	BytesSent     []float64                `json:"bytes_per_second"`
	NACKs         []float64                `json:"nacks_per_second"`
	Changes       []float64                `json:"changes_per_second"`
	Streams       []int                    `json:"upstream_streams"`
	Heap          []float64                `json:"heap_bytes"`
	Origins       []string                 `json:"origins"`
	OriginColumns map[string]*originColumn `json:"by_origin"`
}

// originColumn has nulls where the origin was not configured.
type originColumn struct {
	Connected []*int     `json:"connected"` // 0 or 1
	Stale     []*int     `json:"stale"`
	Changes   []*float64 `json:"changes_per_second"`
}

func (a *Admin) getSeries(w http.ResponseWriter, r *http.Request) error {
	p := a.params(r, "since")
	since := p.since(time.Now(), 6*time.Hour)
	if p.err == nil {
		writeLine(w, columnsOf(a.series.since(since)))
	}
	return p.err
}

func columnsOf(all []sample) *seriesColumns {
	c := &seriesColumns{
		Step: seriesStep.Seconds(), At: []int64{}, InSync: []float64{}, Clients: []int{}, Unsynced: []int{}, Nacking: []int{}, Lag: []float64{}, Deliveries: []float64{},
		BytesSent: []float64{}, NACKs: []float64{}, Changes: []float64{}, Streams: []int{}, Heap: []float64{}, Origins: []string{}, OriginColumns: map[string]*originColumn{},
	}
	for i := range all {
		s := &all[i]
		c.At, c.InSync, c.Clients = append(c.At, s.at.Unix()), append(c.InSync, s.inSync), append(c.Clients, s.clients)
		c.Unsynced, c.Nacking, c.Lag = append(c.Unsynced, s.unsynced), append(c.Nacking, s.nacking), append(c.Lag, s.lag)
		c.Deliveries, c.BytesSent = append(c.Deliveries, s.deliveries), append(c.BytesSent, s.bytesSent)
		c.NACKs, c.Changes = append(c.NACKs, s.nacks), append(c.Changes, s.changes)
		c.Streams, c.Heap = append(c.Streams, s.upstream), append(c.Heap, s.heap)
		for j := range s.origins {
			c.addOrigin(i, len(all), &s.origins[j])
		}
	}
	return c
}

// addOrigin adds the i-th of n samples of an origin.
func (c *seriesColumns) addOrigin(i, n int, s *originSample) {
	x := c.OriginColumns[s.name]
	if x == nil {
		x = &originColumn{make([]*int, n), make([]*int, n), make([]*float64, n)}
		c.Origins, c.OriginColumns[s.name] = append(c.Origins, s.name), x
	}
	connected := 0
	if s.connected {
		connected = 1
	}
	x.Connected[i], x.Stale[i], x.Changes[i] = &connected, &s.stale, &s.changes
}
