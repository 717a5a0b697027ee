package fleet

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Fleet is one run.
type Fleet struct {
	// Set once by New.
	config  Config
	numbers requestFields
	control *world.Client // nil: changes are only observed
	// makes what secures a connection; it may be plain text
	security func() credentials.TransportCredentials
	board    *board

	// Owned by Run.
	conns []*grpc.ClientConn
	// By connection, so that the next one in its place has its TLS session.
	secured []credentials.TransportCredentials
	fail    context.CancelCauseFunc // ends the run

	stormBegan atomic.Int64 // nanoseconds of the wall clock
	began      atomic.Int64 // a world.Stamp: older changes are not counted
	storm      histogram    // from the storm's start to each client's first state

	responses, resources, bytes, ends atomic.Int64
	resumed                           atomic.Int64 // streams on connections that resumed a TLS session

	clients sync.WaitGroup

	mu      sync.Mutex    // guards all below
	full    int           // clients that have had their first state
	want    int           // number that is waited for
	gate    chan struct{} // closed when there are as many; nil: nothing waits
	lastEnd error         // why the last ended stream ended
}

// New checks the configuration.
func New(c Config) (*Fleet, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	security, err := c.TLS.Clients()
	if err != nil {
		return nil, err
	}
	f := &Fleet{config: c, numbers: deltaRequest, board: newBoard(), security: security}
	if c.Dialect == SotW {
		f.numbers = sotwRequest
	}
	if c.Control != "" {
		f.control = &world.Client{Addr: c.Control, HTTP: &http.Client{Transport: &http.Transport{}}}
	}
	f.began.Store(math.MaxInt64)
	return f, nil
}

// legacyWildcard reports whether all resources are asked for by an empty list, which all servers
// understand for clusters (WILD-5).
func (f *Fleet) legacyWildcard() bool { return f.config.TypeURL == world.Clusters.TypeURL() }

// Run does the storm, the pause, the changes and the rest. All clients have ended when it returns.
func (f *Fleet) Run(ctx context.Context) (*Report, error) {
	if err := f.checkMachine(ctx); err != nil {
		return nil, err
	}
	ctx, f.fail = context.WithCancelCause(ctx)
	defer func() {
		f.fail(nil)
		f.clients.Wait()
		if f.control != nil {
			f.control.HTTP.CloseIdleConnections()
		}
		for _, conn := range f.conns {
			_ = conn.Close()
		}
	}()
	r := &Report{config: &f.config}
	r.describe(&f.config)
	stay, leave := context.WithCancel(ctx)
	defer leave()
	if err := f.weather(stay, r); err != nil {
		return nil, err
	}
	if f.config.Away != nil {
		leave()
		if err := f.comeBack(ctx, r); err != nil {
			return nil, err
		}
	}
	if f.config.Changes > 0 || f.config.For > 0 {
		if err := f.measure(ctx, r); err != nil {
			return nil, err
		}
	}
	if err := f.rest(ctx, r); err != nil {
		return nil, err
	}
	return r, f.count(ctx, r)
}

// rest keeps the clients connected, and reads the memory once more.
func (f *Fleet) rest(ctx context.Context, r *Report) error {
	if f.config.Rest == 0 {
		return nil
	}
	f.config.Say(fmt.Sprintf("all is measured; the clients stay for %v", f.config.Rest))
	inUse := int64(0)
	if f.config.Heap != "" {
		var err error
		if inUse, err = collect(ctx, f.config.Heap); err != nil {
			return err
		}
	}
	if err := sleep(ctx, f.config.Rest); err != nil {
		return err
	}
	now, err := usages(f.config.PIDs)
	if err != nil {
		return err
	}
	r.rested(now, inUse)
	return nil
}

// weather makes all clients connect, and measures what they cost.
func (f *Fleet) weather(ctx context.Context, r *Report) error {
	c := &f.config
	f.stormBegan.Store(time.Now().UnixNano())
	// The first client comes early, so that the server has fetched everything, and is not a part of
	// the storm.
	const early = 1
	if err := f.launch(ctx, 0, early, 0); err != nil {
		return err
	}
	if err := f.awaitFull(ctx, early); err != nil {
		return err
	}
	f.storm = histogram{}
	before, err := usages(c.PIDs)
	if err != nil {
		return err
	}
	f.stormBegan.Store(time.Now().UnixNano())
	if err := f.launch(ctx, early, c.Clients, c.ConnectRate); err != nil {
		return err
	}
	if err := f.launchBad(ctx); err != nil {
		return err
	}
	if err := f.awaitFull(ctx, c.Clients); err != nil {
		return err
	}
	settled, err := usages(c.PIDs)
	if err != nil {
		return err
	}
	if err := sleep(ctx, c.Idle); err != nil {
		return err
	}
	after, err := usages(c.PIDs)
	if err != nil {
		return err
	}
	r.weather(&f.storm, c.Clients-early, before, settled, after)
	c.Say(fmt.Sprintf("%d clients have their first state after %.3f s", c.Clients, r.StormSeconds))
	return nil
}

// comeBack ends all connections, waits, and makes all clients connect again.
func (f *Fleet) comeBack(ctx context.Context, r *Report) error {
	c := &f.config
	f.clients.Wait()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.conns = nil
	c.Say("all clients are gone")
	pids, err := c.Away(ctx)
	if err != nil {
		return err
	}
	c.PIDs = pids
	before, err := usages(pids)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.full = 0
	f.mu.Unlock()
	f.storm = histogram{}
	f.resumed.Store(0)
	own := ownCPU()
	f.stormBegan.Store(time.Now().UnixNano())
	if err := f.launch(ctx, 0, c.Clients, 0); err != nil {
		return err
	}
	if err := f.awaitFull(ctx, c.Clients); err != nil {
		return err
	}
	after, err := usages(pids)
	if err != nil {
		return err
	}
	r.returned(pids, before, after)
	r.Resumed = f.resumed.Load()
	r.ReturnSeconds, r.ReturnFleetCPUSeconds = time.Duration(f.storm.most.Load()).Seconds(), ownCPU()-own
	c.Say(fmt.Sprintf("%d clients are back after %.3f s", c.Clients, r.ReturnSeconds))
	return nil
}

// window is the flow-control window of each stream and connection of a good client, as in Envoy.
const window = 16 << 20

// launch starts the well-behaved clients with numbers from (included) to to (excluded), as
// many in a second as rate says; 0: all at once.
func (f *Fleet) launch(ctx context.Context, from, to, rate int) error {
	began := time.Now()
	for i := from; i < to; i++ {
		if rate > 0 {
			due := began.Add(time.Duration(i-from) * time.Second / time.Duration(rate))
			if err := sleep(ctx, time.Until(due)); err != nil {
				return err
			}
		}
		if i%f.config.PerConnection == 0 {
			if err := f.connect(&dialer{fail: f.fail}, window); err != nil {
				return err
			}
		}
		f.start(ctx, newClient(f, i, f.conns[len(f.conns)-1], good, nil))
	}
	return nil
}

// launchBad starts the bad clients, each with a connection of its own.
func (f *Fleet) launchBad(ctx context.Context) error {
	c := &f.config
	for i := range c.Deaf + c.Mute + c.Slow {
		d := &dialer{fail: f.fail, manner: slow, rate: slowRate}
		switch {
		case i < c.Deaf:
			d = &dialer{fail: f.fail, manner: deaf, hush: make(chan struct{})}
		case i < c.Deaf+c.Mute:
			d = &dialer{fail: f.fail, manner: mute}
		}
		if err := f.connect(d, smallWindow); err != nil {
			return err
		}
		f.start(ctx, newClient(f, c.Clients+i, f.conns[len(f.conns)-1], d.manner, d.hush))
	}
	return nil
}

func (f *Fleet) start(ctx context.Context, c *client) { f.clients.Go(func() { c.run(ctx) }) }

// connect makes the next connection. With static windows the server is sent no pings to estimate
// the bandwidth.
func (f *Fleet) connect(d *dialer, window int) error {
	quick := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: time.Second}
	if i := len(f.conns); i == len(f.secured) {
		f.secured = append(f.secured, f.security())
	}
	servers := f.config.servers()
	conn, err := grpc.NewClient("passthrough:///"+servers[len(f.conns)%len(servers)],
		grpc.WithTransportCredentials(f.secured[len(f.conns)]),
		grpc.WithContextDialer(d.dial),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		grpc.WithStaticStreamWindowSize(int32(window)),
		grpc.WithStaticConnWindowSize(int32(window)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: 20 * time.Second}),
	)
	if err != nil {
		return err
	}
	f.conns = append(f.conns, conn)
	return nil
}

// arrived records that a client has its first state.
func (f *Fleet) arrived(at time.Time) {
	f.storm.add(time.Duration(at.UnixNano() - f.stormBegan.Load()))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full++
	if f.gate != nil && f.full >= f.want {
		close(f.gate)
		f.gate = nil
	}
}

// ended records the end of a stream.
func (f *Fleet) ended(err error) {
	f.ends.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastEnd = err
}

// awaitFull returns when n clients have had their first state.
func (f *Fleet) awaitFull(ctx context.Context, n int) error {
	f.mu.Lock()
	if f.full >= n {
		f.mu.Unlock()
		return nil
	}
	gate := make(chan struct{})
	f.want, f.gate = n, gate
	f.mu.Unlock()
	patience := time.NewTimer(f.config.Patience)
	defer patience.Stop()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
	}
	f.mu.Lock()
	full := f.full
	f.mu.Unlock()
	return f.explain(fmt.Errorf("after %v only %d of %d clients have their first state", f.config.Patience, full, n))
}

// checkMachine returns an error if this machine cannot have as many connections, or if the server
// does not answer.
func (f *Fleet) checkMachine(ctx context.Context) error {
	c := &f.config
	conns := (c.Clients+c.PerConnection-1)/c.PerConnection + c.Deaf + c.Mute + c.Slow
	if err := checkFiles(conns); err != nil {
		return err
	}
	servers := c.servers()
	for _, server := range servers {
		if err := checkPorts(server, (conns+len(servers)-1)/len(servers)); err != nil {
			return err
		}
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", server)
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		if err := conn.Close(); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for d. If ctx ends first, it returns the reason.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
