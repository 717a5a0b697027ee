package main

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// reach finds out whether an origin can be reached before any client asks for something. Otherwise
// a deployment that waits for readiness before it sends clients would wait for ever.
type reach struct {
	// Set once by newReach.
	addresses []string
	every     time.Duration
	until     time.Time

	touched atomic.Bool // an address has accepted a connection
}

func newReach(cfg *config.Config, addresses []string) *reach {
	return &reach{addresses: addresses, every: cfg.Timing.Backoff.Max, until: time.Now().Add(cfg.Timing.ReadyWait)}
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
			if accepts(ctx, address) {
				r.touched.Store(true)
				return
			}
		}
		wait.Reset(pause)
	}
}

func accepts(ctx context.Context, address string) bool {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was written
	return true
}
