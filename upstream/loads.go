package upstream

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// loadMethod returns the method of load reports.
func (c *Config) loadMethod() string {
	service, method := xds.LoadReports(c.V2)
	return "/" + service + "/" + method
}

var errLeaving = status.Error(codes.Unavailable, "the connection to the origin was reconfigured: reconnect")

// loading is the time in which there are streams of load reports: while the origin runs.
type loading struct {
	begun chan struct{} // made by New, closed by Run

	mu sync.Mutex // guards what follows
	// leaving ends when Run is about to end: aggregates then send what is left. life ends after
	// that. Both are nil before Run.
	life, leaving  context.Context
	endLife, leave context.CancelFunc
}

// await waits for Run to begin, since the process listens before it calls Run
// (TestLoadReportsAwaitRun).
func (o *Origin) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, o.coldWait())
	defer cancel()
	select {
	case <-o.loading.begun:
	case <-ctx.Done():
	}
}

// coldWait returns how long a stream of load reports waits for a connection.
func (o *Origin) coldWait() time.Duration { return max(o.table.ColdWait(), time.Second) }

// during returns the context that streams live by; nil: Run has not begun or has ended. It locks
// the loading.
func (l *loading) during() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life == nil || l.leaving.Err() != nil {
		return nil
	}
	return l.life
}

// beginLoads is called when Run begins. It locks the loading.
func (o *Origin) beginLoads(ctx context.Context) {
	l := &o.loading
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life, l.endLife = context.WithCancel(context.WithoutCancel(ctx))
	l.leaving, l.leave = context.WithCancel(l.life)
	close(l.begun)
}

// endLoads ends all streams of load reports. Aggregates send what is left before. It locks the
// aggregates, then the pool.
func (o *Origin) endLoads() {
	o.aggregates.mu.Lock()
	o.aggregates.ended = true
	o.aggregates.mu.Unlock()
	o.loading.leave()
	o.aggregates.running.Wait()
	o.pool.mu.Lock()
	o.pool.ended = true
	o.pool.mu.Unlock()
	o.loading.endLife()
}

// LoadReports opens a stream of load reports on one of the origin's connections, for a client whose
// stream came through the relays of via (LRS-2). It waits for a connection for cold_wait at most,
// and not for a server in backoff. If it fails, the client gets UNAVAILABLE and retries (LRS-5).
// The stream ends with ctx, and the caller has to end ctx.
//
// These streams do not count for the origin's health, and no discovery stream waits for them: an
// origin without the service may answer everything else.
func (o *Origin) LoadReports(ctx context.Context, via []string) (*LoadStream, error) {
	if most := o.cfg.LoadReports; most > 0 && o.reporting.Add(1) > int64(most) {
		o.reporting.Add(-1)
		o.metrics.LimitRejection("load_reports")
		return nil, status.Errorf(codes.ResourceExhausted,
			"limits.load_reports %d is reached: so many streams of load reports are open at the origin", most)
	}
	s, err := o.openLoads(ctx, via)
	if err != nil && o.cfg.LoadReports > 0 {
		o.reporting.Add(-1)
	}
	return s, err
}

func (o *Origin) openLoads(ctx context.Context, via []string) (*LoadStream, error) {
	o.await(ctx)
	life := o.loading.during()
	if life == nil {
		return nil, errLeaving
	}
	slot, err := o.pool.loadSlot(ctx, o.coldWait())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &LoadStream{origin: o, slot: slot, life: life}
	s.wire, err = o.open(ctx, cancel, slot.conn, via, o.cfg.loadMethod())
	if err != nil {
		cancel()
		o.pool.release(slot, noMiss)
		return nil, status.Errorf(codes.Unavailable, "origin %q: no stream of load reports: %v", o.cfg.Name, err)
	}
	context.AfterFunc(life, cancel)
	context.AfterFunc(ctx, func() { cancel(); s.close() })
	return s, nil
}

// LoadStream is a stream of load reports at an origin. Send and Recv may be called concurrently.
type LoadStream struct {
	// Set once.
	origin *Origin
	slot   *slot
	wire   grpc.ClientStream
	life   context.Context // of the origin's Run
}

// close frees the stream's place on the connection.
func (s *LoadStream) close() {
	s.origin.pool.release(s.slot, noMiss)
	if s.origin.cfg.LoadReports > 0 {
		s.origin.reporting.Add(-1)
	}
}

// Send sends a report in wire format. After an error, Recv returns why the stream has ended. It
// copies the report, since grpc may still read its argument after SendMsg has returned.
func (s *LoadStream) Send(report []byte) error { return s.wire.SendMsg(bytes.Clone(report)) }

// CloseSend states that no report follows.
func (s *LoadStream) CloseSend() error { return s.wire.CloseSend() }

// Recv waits for the origin's next message, in wire format. The error is the stream's end: io.EOF,
// or a status.
func (s *LoadStream) Recv() ([]byte, error) {
	var m []byte
	err := s.wire.RecvMsg(&m)
	if err != nil && s.life.Err() != nil {
		return nil, errLeaving
	}
	return m, err
}

// loadSlot returns a place on a connection to the server in use. It locks the pool.
func (p *pool) loadSlot(ctx context.Context, atMost time.Duration) (*slot, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for {
		p.mu.Lock()
		s := p.inUse()
		p.mu.Unlock()
		sl, wait := p.take(ctx, s)
		if sl != nil {
			return sl, nil
		}
		if wait > 0 || ctx.Err() != nil {
			return nil, status.Errorf(codes.Unavailable, "origin %q cannot be reached: %s", p.cfg.Name, p.health.Reason())
		}
	}
}
