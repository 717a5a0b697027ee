package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/cmd/weir/config"
)

const (
	// reachWithin bounds one attempt to connect, the TLS handshake included.
	reachWithin = 5 * time.Second
	// reachHold is how long a connection has to stay open: a balancer before a
	// dead server takes it, and closes it at once.
	reachHold = 200 * time.Millisecond
)

// reach finds out whether an origin can be reached before any client asks for something, where weir
// asks nothing by itself (ready.types). Otherwise a deployment that waits for readiness before it
// sends clients would wait for ever. The connection is closed without a word of HTTP, so an origin
// counts no client.
type reach struct {
	// Set once by newReach.
	addresses []string
	secured   *secured // nil: plain text
	every     time.Duration
	until     time.Time

	touched atomic.Bool // a connection was opened, and stayed
}

func newReach(cfg *config.Config, addresses []string, secured *secured) *reach {
	if len(cfg.Ready.Types) > 0 {
		addresses = nil // it is asked, which tells more
	}
	return &reach{addresses: addresses, secured: secured, every: cfg.Timing.Backoff.Max, until: time.Now().Add(cfg.Timing.ReadyWait)}
}

// while probes the addresses while run runs, until the origin has responded.
func (r *reach) while(ctx context.Context, proved func() bool, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looked := make(chan struct{})
	go r.look(ctx, proved, looked)
	defer func() { <-looked }()
	defer cancel() // before waiting for look
	return run(ctx)
}

// look ends when the result is known, or not needed any more.
func (r *reach) look(ctx context.Context, proved func() bool, done chan<- struct{}) {
	defer close(done)
	if len(r.addresses) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, r.until)
	defer cancel()
	wait := time.NewTimer(0)
	defer wait.Stop()
	for pause := time.Second / 4; ; pause = min(2*pause, r.every) {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		if proved() {
			return
		}
		for _, address := range r.addresses {
			if r.stays(ctx, address) {
				r.touched.Store(true)
				return
			}
		}
		wait.Reset(pause)
	}
}

// stays opens a connection and reports whether it is open a moment later.
func (r *reach) stays(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // nothing was written
	if r.secured != nil {
		t := r.secured.client()
		t.NextProtos = []string{"h2", "http/1.1"}
		if host, _, err := net.SplitHostPort(address); err == nil && t.ServerName == "" {
			t.ServerName = host
		}
		secured := tls.Client(conn, t)
		if secured.HandshakeContext(ctx) != nil {
			return false
		}
		conn = secured
	}
	if conn.SetReadDeadline(time.Now().Add(reachHold)) != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 1)) // a gRPC server speaks first, others wait
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}
