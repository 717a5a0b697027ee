package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// idleFrom opens a connection from a loopback address and says nothing.
func idleFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// kubelet asks from an address of its own, on one connection.
func kubelet(t *testing.T, from string) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, network, to)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// closedOf counts those of the connections that weir has closed.
func closedOf(all []net.Conn) (n int) {
	for _, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			n++
		}
	}
	return n
}

// TestFloodOfAnOperatorPort: idle connections to the ports for probes and operators take no more
// than these ports' own places; others get in at once, and keep the connections that they have.
func TestFloodOfAnOperatorPort(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+"probes: { address: \"127.0.0.1:0\" }\n"+filesOrigin(dir))
	for name, port := range map[string]*web{"admin": w.admin, "probes": w.probes} {
		t.Run(name, func(t *testing.T) {
			address := port.listener.Addr().String()
			probe := func(c *http.Client) error {
				resp, err := c.Get("http://" + address + "/readyz")
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err == nil && resp.StatusCode != http.StatusOK {
					err = fmt.Errorf("it is %s", resp.Status)
				}
				return err
			}
			before := kubelet(t, "127.0.0.2")
			if err := probe(before); err != nil {
				t.Fatal(err)
			}
			var all []net.Conn
			begun := time.Now()
			const flood, most = 700, 256
			for range flood {
				all = append(all, idleFrom(t, "127.0.0.3", address))
			}
			await(t, "no more are open than there are places", func() bool { return flood-closedOf(all) <= most })
			if took := time.Since(begun); took >= port.server.ReadHeaderTimeout {
				t.Errorf("after %v, when they are closed for their silence", took)
			}
			for _, c := range []*http.Client{before, kubelet(t, "127.0.0.4"), kubelet(t, "127.0.0.3")} {
				if err := probe(c); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// farConn is a connection from an address.
type farConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *farConn) RemoteAddr() net.Addr {
	if c.from == "" {
		return &net.UnixAddr{Name: "@", Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
}

func (c *farConn) Close() error {
	c.closed = true
	return nil
}

// someConns accepts what it is given.
type someConns struct {
	net.Listener
	next *farConn
}

func (s *someConns) Accept() (net.Conn, error) { return s.next, nil }
func (s *someConns) Addr() net.Addr            { return &net.TCPAddr{} }

// TestWhoMakesRoom: the peer with most connections, with one that has no request before one that
// has, and with the oldest of these.
func TestWhoMakesRoom(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	s := &someConns{}
	p := newOwnPlaces(s, 4, zap.New(core))
	enter := func(from string) (*farConn, net.Conn) {
		s.next = &farConn{from: from}
		c, err := p.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return s.next, c
	}
	kubelet, kept := enter("192.0.2.1:1")
	first, busy := enter("[2001:db8::1]:1")
	second, idle := enter("[2001:db8::2]:1") // the same network
	third, _ := enter("[2001:db8::3]:1")
	p.state(busy, http.StateActive)
	p.state(kept, http.StateActive)
	p.state(kept, http.StateIdle)
	p.state(idle, http.StateActive)
	p.state(idle, http.StateIdle)
	prometheus, _ := enter("192.0.2.2:1")
	if !third.closed {
		t.Error("the oldest of those without a request, of the peer with most, stays")
	}
	socket, _ := enter("")
	if !second.closed {
		t.Error("one without a request stays")
	}
	if first.closed || kubelet.closed || prometheus.closed || socket.closed {
		t.Error("another one is closed")
	}
	_, one := enter("[2001:db8::4]:1") // two of its network are more than any other's
	if !first.closed {
		t.Error("who floods does not make room for itself")
	}
	for range 100 {
		enter("[2001:db8::5]:1")
	}
	if kubelet.closed || prometheus.closed || socket.closed || len(p.conns) != 4 {
		t.Errorf("a flood displaces others; %d are open", len(p.conns))
	}
	_ = kept.Close()
	_ = one.Close()
	if len(p.conns) != 3 {
		t.Errorf("%d are open after one was closed", len(p.conns))
	}
	if n := logs.Len(); n != 1 {
		t.Errorf("%d lines of log", n)
	}
}

// TestFilesOfClients: what the other ports may have, and what origins and reloads need, is not for
// clients.
func TestFilesOfClients(t *testing.T) {
	alone, all := &config.Config{}, &config.Config{}
	all.Probes.Address, all.Cache.Seed.Listen = "0.0.0.0:1", "0.0.0.0:2"
	for _, row := range []struct {
		limit, alone, all int // files, and how many of them are for clients
	}{
		{64, 64 - 4 - 8, 64 - 3*4 - 8},
		{1024, 1024 - 64 - 64, 1024 - 3*64 - 64},
		{1 << 20, 1<<20 - 256 - 64, 1<<20 - 256 - 256 - 64 - 64},
	} {
		for cfg, want := range map[*config.Config]int{alone: row.alone, all: row.all} {
			if n := clientFiles(row.limit, ownFiles(cfg, row.limit)); n != want {
				t.Errorf("of %d files clients may have %d, want %d", row.limit, n, want)
			}
		}
	}
}

// pipes is a listener in memory.
type pipes struct {
	next chan net.Conn
	once sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.next; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.next) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestSilentConnectionsEnd: a connection without a request, or that sends one slowly, is closed
// within seconds, and one that has been answered too.
func TestSilentConnectionsEnd(t *testing.T) {
	for name, says := range map[string]string{
		"nothing": "", "a part of a request": "GET / HTTP/1.1\r\nHost: a\r\n", "a request": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"a part of HTTP/2": "PRI * HTTP/2.0\r\n\r\n",
		"all of a preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &pipes{next: make(chan net.Conn)}
				w := newWeb("admin", l, adminPlaces, nil, zap.NewNop())
				w.server.Handler = http.NotFoundHandler()
				served := make(chan error, 1)
				go func() { served <- w.serve() }()
				ours, theirs := net.Pipe()
				l.next <- theirs
				begun, ended := time.Now(), make(chan time.Duration)
				go func() {
					_, _ = io.Copy(io.Discard, ours)
					ended <- time.Since(begun)
				}()
				if _, err := io.WriteString(ours, says); err != nil {
					t.Fatal(err)
				}
				if took := <-ended; took > idleWait+2*time.Second {
					t.Errorf("it is closed after %v", took)
				}
				w.close(t.Context())
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
