package downstream

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime"
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
	// window is the HTTP/2 flow-control window: static, so that grpc sends no pings to estimate the
	// bandwidth. A delivery of 600 bytes costs 32.7 us of CPU with it, ACK included, and 44.9 with
	// the estimate; with windows of 1 MiB 31.4, which is the same. Requests are small; what clients
	// are sent is bounded by their windows, not by ours.
	//
	// Measured with it, and left alone since nothing is gained ("Server options" of
	// deploy/docs/performance.md): read buffers of 4 or 128 KiB, and workers for streams. Write
	// buffers are shared by all connections, which is grpc's default: 33 KB a client.
	window = 64 << 10
	// writeBuffer has room for as much as a client with such windows takes at once, with the heads
	// of its frames: it goes in one system call, where grpc's 32 KiB take three. A SotW delivery of
	// 436 KB then costs a sixth less CPU, and short ones cost what they did (the same page); 128
	// KiB are no better. A client that does not read holds one until it is cut off.
	writeBuffer = 80 << 10
	// handshake bounds how long a connection may take to become one. Stop waits for it.
	handshake = 10 * time.Second
	// flushWait is how long Drain lets the last statuses travel before connections are closed.
	flushWait = time.Second
)

// errStopped: Serve after Drain or Stop.
var errStopped = errors.New("the server is stopped")

// Server serves discovery streams on any number of listeners.
type Server struct {
	// Set once by New, but for Limits and Timing of cfg, which mu guards.
	cfg        Config
	nacks      *nackLog
	limits     *limitLog
	sizes      *sizeLog
	ends       sampler // of lines that tell of a stream's end
	intake     *intake
	writerPool *writerPool
	arrivals   *arrivals
	headers    *headerPace
	names      *namePace
	calmed     calmed
	conns      *connCount
	quit       chan struct{}  // closed by Stop
	watching   sync.WaitGroup // the watchdog
	serving    sync.WaitGroup // Serve calls
	graceful   sync.WaitGroup // GracefulStop calls
	renderer   renderer
	pollers    pollers

	mu        sync.Mutex // guards what follows; held for map work only; before no other lock
	listeners []*listener
	configs   map[net.Listener]ListenerConfig // of the last Reconfigure; nil: there was none
	streams   map[*stream]struct{}
	crowd     map[string]int // streams by identity; those without one are not in it
	loads     map[*loadStream]struct{}
	lastID    uint64
	watched   bool // the watchdog runs
	draining  bool // no new streams
	stopped   bool // no new listeners
	quitting  bool // quit is closed
}

// listener is one grpc.Server with its health service, or one http.Server.
type listener struct {
	// Set once by newListener.
	port    net.Listener
	counted *countedListener
	grpc    *grpc.Server // nil: it serves REST-JSON
	rest    *http.Server // nil: it does not
	polled  restListener // of rest
	health  *health.Server

	requests openRequests // of rest

	settings atomic.Pointer[settings] // of streams that begin; replaced by Reconfigure
}

// New makes a server that listens nowhere yet. The error joins every problem of the config.
func New(cfg Config) (*Server, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	n := &connCount{peers: map[netip.Prefix]int{}}
	n.set(cfg.Limits.Connections, cfg.Limits.ConnectionsPerPeer)
	return &Server{
		ends: sampler{every: endLogEvery},
		cfg:  cfg, nacks: newNackLog(cfg.Log), limits: newLimitLog(cfg.Log), sizes: newSizeLog(cfg.Log), quit: make(chan struct{}),
		intake: newIntake(cfg.Table), writerPool: &writerPool{places: runtime.GOMAXPROCS(0)}, conns: n,
		streams: map[*stream]struct{}{}, crowd: map[string]int{}, arrivals: &arrivals{rate: newBucket(cfg.Limits.NewStreamsPerSecond)},
		headers: newHeaderPace(cfg.Limits.NewStreamsPerSecond), names: newNamePace(cfg.Limits.NewNamesPerSecond), calmed: newCalmed(),
		loads: map[*loadStream]struct{}{}, renderer: renderer{resolver: cfg.Resolver},
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

// open takes a listener in. Its configuration may be another by now, or it may not be wanted any
// more. It locks the server.
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

// newListener makes a listener on a port that is open. It locks the server.
func (s *Server) newListener(port net.Listener, lc ListenerConfig) *listener {
	s.mu.Lock()
	l, t := s.cfg.Limits, s.cfg.Timing
	s.mu.Unlock()
	ln := &listener{port: port, health: health.NewServer(), counted: newCountedListener(s, port, t.Keepalive)}
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
		grpc.Creds(s.newHandshaker(&lc)),
		grpc.InTapHandle(s.arrive),
		grpc.UnaryInterceptor(countUnary),
		grpc.StreamInterceptor(countStream),
		grpc.MaxConcurrentStreams(uint32(l.StreamsPerConnection)),
		// Twice the limit: what is up to twice too large is refused by our words, which name the
		// key; the rest by grpc, unread.
		grpc.MaxRecvMsgSize(int(min(2*int64(l.RequestBytes), math.MaxInt32))),
		grpc.ConnectionTimeout(handshake),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepaliveParams(t, l.ConnectionIdle)),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			// Less a tenth: of pings sent at just this interval about half arrive a little early,
			// and grpc never forgets a strike while nothing is sent to the client.
			MinTime: t.Keepalive.MinClientInterval - t.Keepalive.MinClientInterval/10, PermitWithoutStream: true,
		}),
	}
	ln.grpc = grpc.NewServer(opts...)
	s.register(ln, lc.V2)
	healthpb.RegisterHealthServer(ln.grpc, ln.health)
	reflection.Register(ln.grpc)
	return ln
}

// stop closes the port and its connections, and waits for what runs.
func (ln *listener) stop() {
	ln.counted.stop()
	if ln.rest != nil {
		_ = ln.rest.Close() // its port, which may be closed already
		ln.requests.end()
		return
	}
	ln.grpc.Stop()
}

var errDraining = status.Error(codes.Unavailable, "weir is draining: connect to another replica or again in a moment")

// list is a copy of the streams, oldest first. It locks the server.
func (s *Server) list() []*stream {
	s.mu.Lock()
	streams := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		streams = append(streams, st)
	}
	s.mu.Unlock()
	sortStreams(streams)
	return streams
}

// Stop ends every stream with UNAVAILABLE, closes listeners and connections, and waits until
// nothing of the server runs. It may be called again, and beside Drain.
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

// refuse turns new streams away, here and by what load balancers ask. It locks the server.
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

// Drain ends the streams in order, spread over the time, and then stops (RELAY-58). If ctx ends
// first, the rest is ended at once.
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
