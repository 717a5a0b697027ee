package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// client is one stream, which is reopened when it ends. It has one goroutine.
type client struct {
	// Set once by newClient.
	fleet  *Fleet
	conn   *grpc.ClientConn
	manner manner
	hush   chan struct{} // closed to become deaf
	first  []byte        // request
	ack    []byte        // beginning of each further request
	expect int           // resources in the first state; 0: those of the first response

	// Owned by run.
	in      received
	got     int  // resources on this stream, until full
	full    bool // the first state is complete on this stream
	hadFull bool // it was complete on some stream
}

const (
	deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	sotwMethod  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
)

// requestFields are the field numbers of a dialect's request.
type requestFields struct{ version, node, names, typeURL, nonce protowire.Number }

var (
	sotwRequest  = requestFields{version: 1, node: 2, names: 3, typeURL: 4, nonce: 5}
	deltaRequest = requestFields{node: 1, typeURL: 2, names: 3, nonce: 6}
)

func newClient(f *Fleet, i int, conn *grpc.ClientConn, m manner, hush chan struct{}) *client {
	c := &client{fleet: f, conn: conn, manner: m, hush: hush, expect: f.config.Resources}
	n := f.numbers
	cluster := "weirload"
	if g := f.config.Groups; g > 1 {
		cluster = fmt.Sprintf("%s-%d", cluster, i%g)
	}
	node := appendString(appendString(nil, 1, fmt.Sprintf("weirload-%06d", i)), 2, cluster)
	c.ack = appendString(nil, n.typeURL, f.config.TypeURL)
	var names []byte
	if k := f.config.Names; k > 0 {
		c.expect = k
		for j := range k {
			names = appendString(names, n.names, world.Name((i*k+j)%f.config.Resources))
		}
	} else if !f.legacyWildcard() {
		names = appendString(names, n.names, "*")
	}
	c.first = append(c.first, c.ack...)
	c.first = protowire.AppendBytes(protowire.AppendTag(c.first, n.node, protowire.BytesType), node)
	c.first = append(c.first, names...)
	if f.config.Dialect == SotW { // each SotW request repeats the subscription
		c.ack = append(c.ack, names...)
	}
	c.in.delta, c.in.fleet = f.config.Dialect == Delta, f
	return c
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// run keeps a stream open until ctx ends. Like real clients it reconnects after a growing pause, at
// random so that clients are spread. It then presents no versions: a client that only counts does
// not know what it has.
func (c *client) run(ctx context.Context) {
	const least, most = 100 * time.Millisecond, 2 * time.Second
	for pause := least; ; pause = min(2*pause, most) {
		err := c.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.manner == good {
			c.fleet.ended(err)
		}
		if c.full {
			pause = least
		}
		wait := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
	}
}

// stream opens a stream and reads it to its end.
func (c *client) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.got, c.full, c.in.counting = 0, false, false
	desc := grpc.StreamDesc{StreamName: "weirload", ServerStreams: true, ClientStreams: true}
	method := deltaMethod
	if c.fleet.config.Dialect == SotW {
		method = sotwMethod
	}
	s, err := c.conn.NewStream(ctx, &desc, method, grpc.ForceCodecV2(codec{}))
	if err != nil {
		return err
	}
	// RecvMsg returns the reason of an EOF
	if err := s.SendMsg(&request{shared: c.first}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if c.manner == deaf {
		close(c.hush)
		<-ctx.Done() // nothing is read any more
		return ctx.Err()
	}
	for first := true; ; {
		if err := s.RecvMsg(&c.in); err != nil {
			return err
		}
		if first {
			first = false
			if p, ok := peer.FromContext(s.Context()); ok {
				if security, ok := p.AuthInfo.(credentials.TLSInfo); ok && security.State.DidResume {
					c.fleet.resumed.Add(1)
				}
			}
		}
		if c.manner == mute {
			continue
		}
		if c.manner == good {
			c.took()
		}
		if err := s.SendMsg(&request{shared: c.ack, own: c.answer()}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
}

// answer returns the part of an ACK that is not shared.
func (c *client) answer() []byte {
	n := c.fleet.numbers
	b := make([]byte, 0, 4+len(c.in.nonce)+4+len(c.in.version))
	b = protowire.AppendBytes(protowire.AppendTag(b, n.nonce, protowire.BytesType), c.in.nonce)
	if n.version != 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, n.version, protowire.BytesType), c.in.version)
	}
	return b
}

// took counts a response.
func (c *client) took() {
	f := c.fleet
	f.responses.Add(1)
	f.resources.Add(int64(c.in.resources))
	f.bytes.Add(int64(c.in.bytes))
	if c.full {
		f.board.note(c.in.stamps, c.in.at)
		return
	}
	c.got += c.in.resources + c.in.removed // a missing resource is an answer, too
	if c.got < c.expect {
		return
	}
	c.full, c.in.counting = true, true
	if !c.hadFull {
		c.hadFull = true
		f.arrived(c.in.at)
	}
}

// manner is how a client behaves.
type manner int

const (
	good manner = iota
	deaf        // reads nothing once it has subscribed
	mute        // reads, and acknowledges nothing
	slow        // reads at a fixed rate
)

// slowRate is how many bytes a second a slow client reads.
const slowRate = 10_000

// smallWindow is the flow-control window of a bad client: the usual one, so that it soon blocks its
// server.
const smallWindow = 64 << 10

// errNoPorts is a limit of this machine, not a failure of the server.
var errNoPorts = errors.New("no local port is left for another connection: one address can have about as many as " +
	"net.ipv4.ip_local_port_range holds; use --per-connection, or fewer clients")

// dialer opens connections. It ends the run if there are no local ports left.
type dialer struct {
	manner manner
	rate   int // bytes a second, for slow
	fail   context.CancelCauseFunc
	hush   chan struct{} // for deaf: the client closes it when it reads no more
}

func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			d.fail(errNoPorts)
		}
		return nil, err
	}
	if d.manner != deaf && d.manner != slow {
		return conn, nil
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(smallWindow) // otherwise the system would buffer megabytes
	}
	return &hinderedConn{Conn: conn, hush: d.hush, rate: d.rate, closed: make(chan struct{})}, nil
}

// hinderedConn is a connection that is read slowly, or no more.
type hinderedConn struct {
	net.Conn
	hush   chan struct{}
	rate   int // bytes a second; 0: unlimited
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
func (c *hinderedConn) Read(b []byte) (int, error) {
	if c.rate > 0 {
		b = b[:min(len(b), max(c.rate/10, 1))]
	}
	n, err := c.Conn.Read(b)
	select {
	case <-c.hush:
		<-c.closed
		return 0, net.ErrClosed
	default:
	}
	if c.rate > 0 && n > 0 {
		pause := time.NewTimer(time.Duration(n) * time.Second / time.Duration(c.rate))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-c.closed:
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *hinderedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
