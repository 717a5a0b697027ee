package downstream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

const (
	// window is the HTTP/2 flow-control window of streams and connections. It is static, so grpc
	// sends no pings to estimate the bandwidth. A delivery of 600 bytes, its ACK included, costs
	// 32.7 us of CPU with it and 44.9 us with the estimate. Windows of 1 MiB cost the same (31.4
	// us). It limits only what clients send; what they are sent is limited by their own windows.
	//
	// Options that were measured and left at their defaults, since they gain nothing: read buffers
	// of 4 KiB (35.4 us) or 128 KiB (36.4 us), and two workers for streams (35.7 us). Write buffers
	// are shared by all connections, which is grpc's default: 33 KB per client.
	window = 64 << 10
	// writeBuffer holds what a client with grpc's default windows takes at once, frame headers
	// included. So this much takes one system call, where grpc's 32 KiB take three. A SotW delivery
	// of 436 KB then costs 200 us of CPU, with grpc's 243; short ones cost the same. 128 KiB are no
	// better (196 us). A client that does not read occupies one buffer until it is cut off.
	writeBuffer = 80 << 10
	// readBufferTLS is small, since grpc holds this buffer for as long as a TLS connection is open,
	// and TLS has one of its own: a smaller one makes no more system calls. With grpc's 32 KiB an
	// idle client is 31 KiB larger (TestIdleTLSConnectionBytes).
	readBufferTLS = 1 << 10
	// handshake bounds how long TLS and HTTP/2 handshakes may take. Stop waits for them.
	handshake = 10 * time.Second
	// flushWait is how long Drain waits for the last statuses to be sent before it closes
	// connections.
	flushWait = time.Second
)

// errStopped is returned by Serve after Drain or Stop.
var errStopped = errors.New("the server is stopped")

// Server serves discovery streams on any number of listeners.
type Server struct {
	// Set once by New, but for Limits and Timing of cfg, which mu guards.
	cfg        Config
	began      time.Time
	nacks      *nackLog
	book       *nackBook
	denials    *denialBook
	denialLog  *denialLog
	limits     *limitLog
	sizes      *sizeLog
	ends       sampler // rate limit of the log lines about ended streams
	intake     *intake
	receiving  *receiving
	writerPool *writerPool
	longSends  *longSends
	arrivals   *arrivals
	headers    *headerPace
	names      *namePace
	calmed     calmed
	greeting   atomic.Int32 // connections that wait because of calmed
	conns      *connCount
	quit       chan struct{}  // closed by Stop
	watching   sync.WaitGroup // the watchdog
	serving    sync.WaitGroup // running Serve calls
	graceful   sync.WaitGroup // running GracefulStop calls
	renderer   *renderer
	pollers    pollers

	mu        sync.Mutex // guards what follows; held for map work only, and never while another lock is taken
	listeners []*listener
	configs   map[net.Listener]ListenerConfig // of the last Reconfigure; nil: there was none
	streams   map[*stream]struct{}
	ruled     inForce
	crowd     map[string]int // streams by client identity; streams without an identity are not counted
	loads     map[*loadStream]struct{}
	lastID    uint64
	watched   bool // the watchdog runs
	draining  bool // new streams are refused
	stopped   bool // new listeners are refused
	quitting  bool // quit is closed
}

// listener is one port: a grpc.Server with its health service, or an http.Server.
type listener struct {
	// Set once by newListener.
	port    net.Listener
	counted *countedListener
	grpc    *grpc.Server // nil if it serves REST-JSON
	rest    *http.Server // nil if it serves gRPC
	polled  restListener // what rest accepts from
	health  *health.Server

	requests openRequests // of rest, in flight

	settings atomic.Pointer[settings] // for new streams; replaced by Reconfigure
}

// New makes a server without listeners. The error joins every problem of the config.
func New(cfg Config) (*Server, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	n := &connCount{peers: map[netip.Prefix]int{}}
	n.set(cfg.Limits.Connections, cfg.Limits.ConnectionsPerPeer)
	cfg.watchers = &watchers{log: cfg.Log, traces: cfg.Traces}
	ruled := inForce{}
	ruled.put(cfg.Rules, time.Now())
	limits := newLimitLog(cfg.Log)
	return &Server{
		ends: sampler{every: endLogEvery}, denials: newDenialBook(), denialLog: newDenialLog(cfg.Log), ruled: ruled,
		cfg: cfg, began: time.Now(), nacks: newNackLog(cfg.Log), book: newNackBook(), limits: limits, sizes: newSizeLog(cfg.Log), quit: make(chan struct{}),
		intake: newIntake(cfg.Table), receiving: newReceiving(cfg.Table, limits, func() { cfg.Metrics.LimitRejection("memory") }), writerPool: &writerPool{places: runtime.GOMAXPROCS(0)}, longSends: newLongSends(), conns: n,
		streams: map[*stream]struct{}{}, crowd: map[string]int{}, arrivals: &arrivals{rate: newBucket(cfg.Limits.NewStreamsPerSecond)},
		headers: newHeaderPace(cfg.Limits.NewStreamsPerSecond), names: newNamePace(cfg.Limits.NewNamesPerSecond), calmed: newCalmed(),
		loads: map[*loadStream]struct{}{}, renderer: newRenderer(cfg.Resolver),
	}, nil
}

// Serve accepts connections on l until Drain or Stop, and then returns nil. It closes l.
func (s *Server) Serve(l net.Listener, lc ListenerConfig) error {
	ln := s.newListener(l, lc)
	if err := s.open(ln, lc); err != nil {
		ln.stop()
		return errors.Join(err, l.Close())
	}
	defer s.serving.Done()
	if ln.rest != nil {
		return ln.serveREST()
	}
	return ln.grpc.Serve(ln.counted)
}

// open registers a listener, with the configuration of the last Reconfigure if there was one. It
// fails if the server is stopped or the listener is configured no more. It locks the server.
func (s *Server) open(ln *listener, lc ListenerConfig) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := true
	if s.configs != nil {
		lc, wanted = s.configs[ln.port]
	}
	if s.stopped || s.draining || !wanted {
		return errStopped
	}
	if err := lc.normalize(s.cfg.Table); err != nil {
		return err
	}
	ln.settings.Store(newSettings(s.cfg, lc))
	s.listeners = append(s.listeners, ln)
	s.serving.Add(1)
	if !s.watched {
		s.watched = true
		s.watching.Add(1)
		go s.watch()
	}
	return nil
}

// newListener makes a listener on an open port. It locks the server.
func (s *Server) newListener(port net.Listener, lc ListenerConfig) *listener {
	s.mu.Lock()
	l, t := s.cfg.Limits, s.cfg.Timing
	s.mu.Unlock()
	ln := &listener{port: port, health: health.NewServer(), counted: newCountedListener(s, port, t.Keepalive)}
	ln.counted.trust.judge = lc.Trusts
	if lc.REST {
		ln.rest, ln.polled = s.newREST(ln, &lc, l, t), newRESTListener(s, ln.counted, lc.TLS)
		return ln
	}
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{s.intake}),
		grpc.RPCDecompressor(laterGzip{}), //nolint:staticcheck // see there
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.WriteBufferSize(writeBuffer),
		grpc.MaxHeaderListSize(headerList),
		grpc.Creds(s.newHandshaker(&lc, t.MaxStreamAge)),
		grpc.InTapHandle(s.arrive),
		grpc.UnaryInterceptor(countUnary),
		grpc.StreamInterceptor(countStream),
		grpc.MaxConcurrentStreams(uint32(l.StreamsPerConnection)),
		// Twice the limit: messages up to there are decoded and refused with our own error, which
		// names the config key. Larger ones are refused by grpc, unread.
		grpc.MaxRecvMsgSize(int(min(2*int64(l.RequestBytes), math.MaxInt32))),
		grpc.ConnectionTimeout(handshake),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: t.Keepalive.Time, Timeout: t.Keepalive.Timeout, MaxConnectionIdle: l.ConnectionIdle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			// A tenth less than configured: of pings sent at exactly this interval about half
			// arrive a little early, and grpc forgets no strike while nothing is sent to the
			// client.
			MinTime: t.Keepalive.MinClientInterval - t.Keepalive.MinClientInterval/10, PermitWithoutStream: true,
		}),
	}
	if lc.TLS != nil {
		opts = append(opts, grpc.ReadBufferSize(readBufferTLS))
	}
	ln.grpc = grpc.NewServer(opts...)
	s.register(ln, lc.V2)
	healthpb.RegisterHealthServer(ln.grpc, ln.health)
	reflection.Register(ln.grpc)
	return ln
}

// stop closes the port and its connections, and waits for their handlers.
func (ln *listener) stop() {
	ln.counted.stop()
	if ln.rest != nil {
		_ = ln.rest.Close() // its port may be closed already
		ln.requests.end()
		return
	}
	ln.grpc.Stop()
}

var errDraining = status.Error(codes.Unavailable, "weir is draining: connect to another replica or again in a moment")

// list returns the streams, oldest first. It locks the server.
func (s *Server) list() []*stream {
	s.mu.Lock()
	streams := slices.AppendSeq(make([]*stream, 0, len(s.streams)), maps.Keys(s.streams))
	s.mu.Unlock()
	slices.SortFunc(streams, func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	return streams
}

// Stop ends every stream with UNAVAILABLE, closes listeners and connections, and returns when no
// goroutine of the server runs. It may be called more than once, and during a Drain.
func (s *Server) Stop() {
	s.refuse()
	s.mu.Lock()
	s.stopped = true
	listeners := s.listeners
	if !s.quitting {
		s.quitting = true
		close(s.quit)
	}
	s.mu.Unlock()
	for _, st := range s.list() {
		st.end(errDraining)
	}
	s.endLoads()
	for _, ln := range listeners {
		ln.stop()
	}
	s.serving.Wait()
	s.graceful.Wait()
	s.writerPool.writers.Wait()
	s.watching.Wait()
}

// refuse makes the server refuse new streams, and its health services say NOT_SERVING. It locks the
// server.
func (s *Server) refuse() (listeners []*listener, first bool) {
	s.mu.Lock()
	first = !s.draining
	s.draining = true
	listeners = s.listeners
	s.mu.Unlock()
	for _, ln := range listeners {
		ln.health.Shutdown()
	}
	return listeners, first
}

// Drain ends the streams in order, spread over the given time, and then stops (RELAY-58). If ctx
// ends first, the remaining streams are ended at once.
func (s *Server) Drain(ctx context.Context, over time.Duration) {
	listeners, first := s.refuse()
	if first {
		for _, ln := range listeners {
			s.graceful.Add(1)
			go s.sayGoodbye(ln)
		}
	}
	s.endLoads()
	s.endSlowly(ctx, s.list(), over, errDraining)
	s.Stop()
}
