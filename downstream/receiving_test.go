package downstream

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"
)

// stuckConn writes so many bytes, and then nothing more before it is closed.
type stuckConn struct {
	net.Conn
	left   int
	closed chan struct{}
	once   sync.Once
}

func (c *stuckConn) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// stuck is a client whose connection takes so many bytes, and what cuts it.
func (l *live) stuck(t *testing.T, bytes int) (c *relaytest.Client, cut func()) {
	var stuck *stuckConn
	c = l.open(t, relaytest.ClientConfig{}, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := l.net.Dial(ctx, addr)
		stuck = &stuckConn{Conn: conn, left: bytes, closed: make(chan struct{})}
		return stuck, err
	}))
	return c, func() { _ = stuck.Close() }
}

// longRequestOf is a request of so many bytes.
func longRequestOf(bytes int) []byte {
	return append(relaytest.Field(2, []byte(eds)), relaytest.Field(1000, make([]byte, bytes))...)
}

// TestReceivingIsBounded: where memory is limited, requests that do not arrive whole take a part of
// it, and no more. They hold up nobody for longer than receivingPatience.
func TestReceivingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, long = 64 << 20, 3 << 20
		reg := prometheus.NewRegistry()
		l := newLive(t, relaytest.Memory(), func(c *Config, _ *ListenerConfig) { c.Metrics = metrics.New(reg) })
		l.table.Measured(0, limit)
		var cuts []func()
		for range 6 {
			c, cut := l.stuck(t, long)
			cuts = append(cuts, cut)
			defer cut()
			go c.SendRaw(longRequestOf(4 << 20))
		}
		synctest.Wait()
		held := l.server.receiving.held.Load()
		// The oldest goes on beyond the bound, and each has what is free.
		if most := int64(limit/receivingShare + long + 6*(freeReceiving+32<<10)); held > most || held < limit/receivingShare {
			t.Errorf("%d bytes are held, want at most %d", held, most)
		}
		short := l.open(t, relaytest.ClientConfig{})
		short.Subscribe(eds, "a")
		l.asked(t, 1)
		short.Cancel()
		l.asked(t, 0)
		begun := time.Now()
		honest := l.open(t, relaytest.ClientConfig{})
		honest.SubscribeWith(eds, map[string]string{strings.Repeat("n", 60_000): strings.Repeat("v", 2<<20)}, "b")
		l.asked(t, 1)
		// Two or three of those before it fill the room at a time.
		if waited := time.Since(begun); waited > 4*receivingPatience {
			t.Errorf("an honest client waited %v", waited)
		}
		for _, cut := range cuts {
			cut()
		}
		time.Sleep(time.Second) // virtual
		synctest.Wait()
		if held := l.server.receiving.held.Load(); held != 0 {
			t.Errorf("%d bytes are counted as held, and nothing is", held)
		}
	})
}

// TestReceivingGoesOn: with much more than there is room for at a time, all honest clients get
// through, and none is closed.
func TestReceivingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		l.table.Measured(0, 16<<20) // of which 2 MiB are for what arrives
		var sent sync.WaitGroup
		var clients []*relaytest.Client
		for range 20 {
			c := l.open(t, relaytest.ClientConfig{})
			clients = append(clients, c)
			sent.Go(func() { c.SendRaw(longRequestOf(1 << 20)) })
		}
		sent.Wait()
		synctest.Wait()
		for _, c := range clients {
			if err := c.Err(); err != nil {
				t.Errorf("an honest client is ended: %v", err)
			}
		}
		if held := l.server.receiving.held.Load(); held != 0 {
			t.Errorf("%d bytes are counted as held, and nothing is", held)
		}
	})
}
