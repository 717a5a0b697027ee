package relaytest

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// staticWindow is the HTTP/2 flow-control window of connections made by Connect, in bytes: the
// least grpc-go accepts, and fixed, so that a client that does not read blocks its server after
// this much.
const staticWindow = 64 << 10

// Net is one address: it can be listened on, closed, listened on again, and dialled. It knows the
// connections it accepted, so that a test can cut or black-hole them. The connections are wrapped,
// which costs grpc-go its pooled read buffer: do not measure memory over a Net. Safe for concurrent
// use.
type Net struct {
	// Set once by the constructor.
	open  func(addr string) (net.Listener, error)
	reach func(ctx context.Context, addr string) (net.Conn, error)

	mu       sync.Mutex // guards all below
	addr     string     // empty until the first Listen where the system chooses
	conns    map[*netConn]struct{}
	accepted int
	holed    bool
}

// TCP returns a Net on a loopback port that the system chooses at the first Listen and that stays
// the same afterwards.
func TCP() *Net {
	var d net.Dialer
	return &Net{
		addr:  loopback() + ":0",
		open:  listenTCP,
		reach: func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) },
		conns: map[*netConn]struct{}{},
	}
}

// listenTCP waits for a port that is taken: a listener closed just now lives on in a process that
// is being started, until that has become another program.
func listenTCP(addr string) (net.Listener, error) {
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(begin) > 5*time.Second {
			return l, err
		}
	}
}

var loopbacks atomic.Uint32

// loopback is an address of this host that no other Net of any test has, so that nobody takes a
// port while its Net is closed; 127.0.0.1 where the system has only that.
func loopback() string {
	n := loopbacks.Add(1)
	ip := net.IPv4(127, byte(1+os.Getpid()%250), byte(n>>8), byte(n)).String()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		return "127.0.0.1"
	}
	_ = l.Close() // it was only a question
	return ip
}

// Unix returns a Net on the socket file path.
func Unix(path string) *Net {
	var d net.Dialer
	return &Net{
		addr:  path,
		open:  func(addr string) (net.Listener, error) { return net.Listen("unix", addr) },
		reach: func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "unix", addr) },
		conns: map[*netConn]struct{}{},
	}
}

// Memory returns a Net without sockets, for use inside a synctest bubble: reads and writes that
// wait count as idle there. It must be made inside the bubble, and everything that uses it closed
// inside.
func Memory() *Net {
	var mu sync.Mutex
	var current *bufconn.Listener
	n := &Net{addr: "memory", conns: map[*netConn]struct{}{}}
	n.open = func(string) (net.Listener, error) {
		mu.Lock()
		defer mu.Unlock()
		current = bufconn.Listen(staticWindow)
		return current, nil
	}
	n.reach = func(ctx context.Context, _ string) (net.Conn, error) {
		mu.Lock()
		l := current
		mu.Unlock()
		if l == nil {
			return nil, errors.New("connection refused: nobody has listened yet")
		}
		return l.DialContext(ctx)
	}
	return n
}

// Listen opens the address. Listening again after the listener was closed gives the same address.
func (n *Net) Listen() (net.Listener, error) {
	l, err := n.open(n.Addr())
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.Addr().Network() == "tcp" {
		n.addr = l.Addr().String()
	}
	return &netListener{Listener: l, net: n}, nil
}

// Addr is host:port for TCP (valid after the first Listen), the path for Unix, and a word for
// Memory.
func (n *Net) Addr() string {
	return locked(&n.mu, func() string { return n.addr })
}

// Dial connects to the Net whatever address it is given: the form grpc.WithContextDialer wants.
func (n *Net) Dial(ctx context.Context, _ string) (net.Conn, error) { return n.reach(ctx, n.Addr()) }

// Connect is the function Connect to the Net.
func (n *Net) Connect(tb testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	return Connect(tb, n.Addr(), append([]grpc.DialOption{grpc.WithContextDialer(n.Dial)}, opts...)...)
}

// Connect returns a connection to an xDS server with a small fixed flow-control window, so that a
// client that does not read soon blocks its server, quick reconnects and a large message limit;
// opts come after these and win. tb closes it at its end.
func Connect(tb testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	quick := backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.6, MaxDelay: 100 * time.Millisecond}
	conn, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(staticWindow),
		grpc.WithStaticConnWindowSize(staticWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: 5 * time.Second}),
		grpc.WithNoProxy(),
	}, opts...)...)
	if err != nil {
		tb.Fatalf("dial %s: %v", addr, err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// locked returns what get finds under a mutex.
func locked[T any](mu *sync.Mutex, get func() T) T {
	mu.Lock()
	defer mu.Unlock()
	return get()
}

// Accepted counts the connections accepted so far.
func (n *Net) Accepted() int {
	return locked(&n.mu, func() int { return n.accepted })
}

// CloseConns cuts every accepted connection; whoever listens goes on listening.
func (n *Net) CloseConns() {
	for _, c := range n.live() {
		_ = c.Close() // it may be gone already
	}
}

// Blackhole makes every present connection swallow what is sent either way from now on, without an
// error to anybody, as a dead router does. It lasts as long as the connection lives. While on is
// true, new connections are swallowed too.
func (n *Net) Blackhole(on bool) {
	n.mu.Lock()
	n.holed = on
	n.mu.Unlock()
	if !on {
		return
	}
	for _, c := range n.live() {
		c.holed.Store(true)
	}
}

func (n *Net) live() []*netConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.conns))
}

// netConn is the accepted half of a connection, known to its Net until closed.
type netConn struct {
	net.Conn
	net   *Net
	holed atomic.Bool // once true, stays true: bytes are missing from the stream
}

// Read passes on what the peer sent, or discards it for ever once the connection is black-holed;
// then only Close ends it.
func (c *netConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.holed.Load() {
			return n, err
		}
	}
}

func (c *netConn) Write(b []byte) (int, error) {
	if c.holed.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *netConn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.net.mu.Unlock()
	return c.Conn.Close()
}

// netListener registers what it accepts with its Net.
type netListener struct {
	net.Listener
	net *Net
}

func (l *netListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := l.net
	c := &netConn{Conn: raw, net: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	c.holed.Store(n.holed)
	n.conns[c] = struct{}{}
	n.accepted++
	return c, nil
}
