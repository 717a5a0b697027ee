package upstream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/loads"
)

const (
	// leastInterval is the shortest time between two reports of an aggregate, even if the origin
	// asks for a shorter one.
	leastInterval = 100 * time.Millisecond
	// reportDoubt is how long after a report the end of its stream leaves it uncertain whether the
	// report arrived.
	reportDoubt = time.Second
	// farewell is how long an origin may take to end a stream after the last report.
	farewell = time.Second
)

// aggregates are the streams of load reports that the clients of a group share (LRS-6).
type aggregates struct {
	running sync.WaitGroup

	mu    sync.Mutex // guards what follows; held for map work only
	all   map[aggregateKey]*aggregate
	ended bool // no new ones are made
}

// aggregateKey is a group and the relays that its clients came through. A stream presents one such
// path, and in a loop of relays the path has to grow until it is refused (RELAY-87).
type aggregateKey struct {
	group *relay.Group
	via   string
}

// aggregate is one stream at the origin for many clients. Their reports are added up, and sent in
// the interval that the origin asks for, with the node of the group. While the stream is broken,
// clients stay and their reports wait, unless the origin has never answered or has no such service.
//
// It has one goroutine from its first client to its last, and one more while a stream is open.
type aggregate struct {
	// Set once.
	origin  *Origin
	key     aggregateKey
	via     []string
	idle    chan struct{}   // closed when the last client has left
	life    context.Context // of the origin's Run
	leaving context.Context // ends when Run is about to end

	clients int // guarded by aggregates.mu

	mu      sync.Mutex // guards what follows
	sums    *loads.Sums
	answer  []byte        // the origin's last answer, in wire format
	answers int           // number of answers
	changed chan struct{} // closed at the next answer, or at the end
	err     error         // why it ended
}

// AggregateLoads adds a client to the stream of its group. first is the client's first message, and
// who its identity. Other than that it is like LoadReports.
func (o *Origin) AggregateLoads(ctx context.Context, via []string, who string, first []byte) (*LoadShare, error) {
	r := &loadstats.LoadStatsRequest{}
	if err := proto.Unmarshal(first, r); err != nil {
		return nil, unreadable(err)
	}
	group, err := o.table.NewestFor(r.GetNode(), who)
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	o.await(ctx)
	key := aggregateKey{group, strings.Join(via, ",")}
	as := &o.aggregates
	as.mu.Lock()
	life := o.loading.during()
	if as.ended || life == nil {
		as.mu.Unlock()
		group.Release(time.Now())
		return nil, errLeaving
	}
	a := as.all[key]
	if a == nil {
		if as.all == nil {
			as.all = map[aggregateKey]*aggregate{}
		}
		a = &aggregate{
			origin: o, key: key, via: slices.Clone(via), idle: make(chan struct{}), life: life, leaving: o.loading.leaving,
			sums: loads.New(time.Now()), changed: make(chan struct{}),
		}
		as.all[key] = a
		as.running.Go(a.run)
	}
	a.clients++
	as.mu.Unlock()
	s := &LoadShare{aggregate: a, ctx: ctx, said: make(chan struct{})}
	context.AfterFunc(ctx, s.leave)
	return s, nil
}

func unreadable(err error) error {
	return status.Errorf(codes.InvalidArgument, "a load report cannot be read: %v", err)
}

// LoadShare is a client's share of an aggregate. Send and Recv may be called concurrently.
type LoadShare struct {
	// Set once.
	aggregate *aggregate
	ctx       context.Context // of the client's stream
	said      chan struct{}   // closed by CloseSend, and by a report that does not decode
	once      sync.Once
	err       error // of that report; set before said is closed

	seen     int            // number of answers received; owned by Recv
	reporter loads.Reporter // guarded by aggregate.mu
}

// Send adds a report in wire format. It keeps none of the bytes.
func (s *LoadShare) Send(report []byte) error {
	r, err := loads.Read(report)
	if err != nil {
		s.once.Do(func() { s.err = unreadable(err); close(s.said) })
		return err
	}
	a := s.aggregate
	a.mu.Lock()
	lost := a.sums.Add(&s.reporter, r)
	a.mu.Unlock()
	a.origin.counts.LoadsLost(lost)
	return nil
}

// CloseSend ends the client's share. It must not be called concurrently with Send.
func (s *LoadShare) CloseSend() error {
	s.once.Do(func() { close(s.said) })
	return nil
}

// Recv waits for the next answer of the origin. It returns io.EOF after CloseSend.
func (s *LoadShare) Recv() ([]byte, error) {
	a := s.aggregate
	for {
		a.mu.Lock()
		answer, answers, changed, err := a.answer, a.answers, a.changed, a.err
		a.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case answers != s.seen:
			s.seen = answers
			return answer, nil
		}
		select {
		case <-changed:
		case <-s.said:
			return nil, cmp.Or(s.err, io.EOF)
		case <-s.ctx.Done():
			return nil, status.FromContextError(s.ctx.Err()).Err()
		}
	}
}

// leave ends the client's share, and with the last one the aggregate. It locks the aggregate, then
// the aggregates.
func (s *LoadShare) leave() {
	a := s.aggregate
	a.mu.Lock()
	a.sums.Leave(&s.reporter)
	a.mu.Unlock()
	as := &a.origin.aggregates
	as.mu.Lock()
	if a.clients--; a.clients == 0 {
		if as.all[a.key] == a {
			delete(as.all, a.key)
		}
		close(a.idle)
	}
	as.mu.Unlock()
	a.key.group.Release(time.Now())
}

// run keeps a stream open until the last client has left, or the origin's Run ends. It locks the
// aggregate.
func (a *aggregate) run() {
	o := a.origin
	wait := waits{cfg: o.cfg.Backoff}
	for {
		answered, err := a.report()
		if answered {
			wait.reset()
		}
		if a.over() {
			break
		}
		if a.refuse(err) {
			return
		}
		o.log.Info("a load report stream ended; reports of clients are added up until it is back",
			zap.String("group", a.key.group.Key()), zap.Error(err))
		select {
		case <-time.After(wait.next()):
		case <-a.idle:
		case <-a.leaving.Done():
		}
		if a.over() {
			break
		}
	}
	a.mu.Lock()
	rest := a.sums.Take(time.Now())
	a.end(errLeaving)
	a.mu.Unlock()
	o.counts.LoadsLost(loads.Requests(rest))
}

// over reports whether there is no client left, or Run has ended.
func (a *aggregate) over() bool {
	select {
	case <-a.idle:
		return true
	case <-a.leaving.Done():
		return true
	default:
		return false
	}
}

// refuse ends the clients' streams if the origin has never answered, or has no such service.
// Clients that reconnect get a new aggregate. It locks the aggregates, and then the aggregate.
func (a *aggregate) refuse(err error) bool {
	as := &a.origin.aggregates
	as.mu.Lock()
	defer as.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers > 0 && status.Code(err) != codes.Unimplemented {
		return false
	}
	if as.all[a.key] == a {
		delete(as.all, a.key)
	}
	a.origin.counts.LoadsLost(loads.Requests(a.sums.Take(time.Now())))
	if errors.Is(err, io.EOF) {
		err = status.Error(codes.Unavailable, "the origin ended the stream of load reports")
	}
	a.end(err)
	return true
}

func (a *aggregate) end(err error) {
	if a.err == nil {
		a.err = err
		close(a.changed)
	}
}

// report opens a stream and reports on it until it ends or is not needed any more.
func (a *aggregate) report() (answered bool, err error) {
	ctx, cancel := context.WithCancel(a.life)
	defer cancel()
	s, err := a.origin.LoadReports(ctx, a.via)
	if err != nil {
		return false, err
	}
	hello, err := proto.Marshal(&loadstats.LoadStatsRequest{Node: a.key.group.Node()})
	if err != nil {
		// cannot happen: the node was decoded from the wire
		return false, status.Error(codes.Internal, err.Error())
	}
	_ = s.Send(hello) // Recv returns the reason
	ended, asked := make(chan error, 1), make(chan time.Duration, 1)
	go func() {
		for {
			m, err := s.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case <-asked:
			default:
			}
			asked <- a.deliver(m)
		}
	}()
	return a.flushes(s, asked, ended)
}

// maxLoadAnswer bounds what an origin's answer to load reports may need in memory, in bytes: it
// names clusters.
const maxLoadAnswer = 16 << 20

// deliver passes an answer of the origin to the clients, and returns the interval that it asks for.
// It locks the aggregate.
func (a *aggregate) deliver(m []byte) time.Duration {
	r := &loadstats.LoadStatsResponse{}
	if err := xds.Unmarshal(m, r, maxLoadAnswer); err != nil {
		a.origin.rateLimitedLog.warn(time.Now(), "loads", "the origin answers load reports with what cannot be read", zap.Error(err))
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = m
	a.answers++
	close(a.changed)
	a.changed = make(chan struct{})
	return max(r.GetLoadReportingInterval().AsDuration(), leastInterval)
}

// flushes reports in the interval that the origin asks for, until the stream ends or is not needed
// any more.
func (a *aggregate) flushes(s *LoadStream, asked <-chan time.Duration, ended <-chan error) (answered bool, err error) {
	var interval time.Duration
	var doubtful uint64 // requests in the last report
	var sent time.Time
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case err := <-ended:
			if time.Since(sent) < reportDoubt {
				a.origin.counts.LoadsLost(doubtful)
			}
			return answered, err
		case d := <-asked:
			answered = true
			if d > 0 && d != interval {
				interval = d
				timer.Reset(d)
			}
		case sent = <-timer.C:
			timer.Reset(interval)
			doubtful = a.flush(s)
		case <-a.idle:
			return answered, a.last(s, ended)
		case <-a.leaving.Done():
			return answered, a.last(s, ended)
		}
	}
}

// last sends what is left to report, and gives the origin a moment to receive it.
func (a *aggregate) last(s *LoadStream, ended <-chan error) error {
	a.flush(s)
	if err := s.CloseSend(); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(farewell):
		return nil
	}
}

// messageBytes is the approximate size of one message of a report. Servers accept 4 MiB by default.
const messageBytes = 1 << 20

// flush sends the sums, and returns the number of requests in them. What cannot be sent waits for
// the next stream. It locks the aggregate.
func (a *aggregate) flush(s *LoadStream) (requests uint64) {
	a.mu.Lock()
	report := a.sums.Take(time.Now())
	a.mu.Unlock()
	requests = loads.Requests(report)
	for first := true; first || len(report) > 0; first = false {
		m, n, size := &loadstats.LoadStatsRequest{}, 0, 0
		for n < len(report) && size < messageBytes {
			size += proto.Size(report[n])
			n++
		}
		m.ClusterStats = report[:n]
		b, err := proto.Marshal(m)
		if err == nil {
			err = s.Send(b)
		}
		if err != nil {
			a.mu.Lock()
			lost := a.sums.GiveBack(report)
			a.mu.Unlock()
			a.origin.counts.LoadsLost(lost)
			return requests - loads.Requests(report)
		}
		report = report[n:]
	}
	return requests
}
