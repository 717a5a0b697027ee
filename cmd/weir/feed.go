package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"
)

// feed gives the tiers of an origin what the newest tier has (origins[].canary; package relay,
// tier.go). It is a relay in front of a relay, in one process: what speaks to origins runs the
// lanes of the tiers, over a listener in memory, against a server that serves the newest tier. So
// what holds between two weirs holds between tiers, whatever the kind of the origin.
//
// It counts nothing and logs nothing, since nothing of it is a client or an origin.
type feed struct {
	// Set once by openFeed.
	server *downstream.Server
	lanes  *upstream.Origin
	port   *bufconn.Listener
	lc     downstream.ListenerConfig

	// Set by start.
	stop context.CancelFunc
	done chan struct{}
}

const (
	// feedBuffer is how much the two sides may have under way, in bytes for each direction.
	feedBuffer = 256 << 10
	// feedAddress stands for the listener in memory.
	feedAddress = "tiers:1"
	// Nothing but this process ends a stream of a feed, so the next may follow at once; but not if
	// that is over and over again.
	feedPause, feedBackoff, feedBackoffMost = 10 * time.Millisecond, 50 * time.Millisecond, time.Second
	// feedKeepalive is longer than any silence matters: there is no network.
	feedKeepalive = 24 * time.Hour
)

// openFeed makes the feed of an origin. via is the name of this process for other relays.
func openFeed(table *relay.Table, part *relay.Origin, via string) (*feed, error) {
	// All who are behind the feed were admitted and counted.
	unlimited := downstream.Limits{
		ConnectionIdle: -1, Streams: -1, NewStreamsPerSecond: -1, RequestsPerSecond: -1, NACKsPerSecond: -1, NamesPerStream: -1,
		NewNamesPerSecond: -1, ParameterSets: -1, NameBytes: -1, RequestBytes: -1,
	}
	server, err := downstream.New(downstream.Config{
		Table: table, Instance: via, Tiers: true, Limits: unlimited,
		Timing: downstream.Timing{Keepalive: downstream.Keepalive{Time: feedKeepalive}},
	})
	if err != nil {
		return nil, err
	}
	port := bufconn.Listen(feedBuffer)
	lanes, err := upstream.New(upstream.Config{
		Name: part.Name(), Tiers: true, Addresses: []string{feedAddress}, WildcardExplicit: true, TP2: part.TP2(),
		MaxMessage: math.MaxInt32, Pause: feedPause, Backoff: upstream.Backoff{Base: feedBackoff, Max: feedBackoffMost},
		Batch: -1, Keepalive: upstream.Keepalive{Time: feedKeepalive},
		Dial: func(ctx context.Context, _ string) (net.Conn, error) { return port.DialContext(ctx) },
	}, part)
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	return &feed{server: server, lanes: lanes, port: port, lc: downstream.ListenerConfig{Origin: part}}, nil
}

// run feeds the tiers until ctx ends, and returns when everything that it started has ended.
func (f *feed) run(ctx context.Context) error {
	var parts errgroup.Group
	parts.Go(func() error { return f.server.Serve(f.port, f.lc) })
	err := f.lanes.Run(ctx)
	f.server.Stop()
	return errors.Join(err, parts.Wait())
}

// feeds are those that run, by the part of the table. Owned by whoever starts and stops origins.
type feeds map[*relay.Origin]*feed

// start runs the feeds that the origins in force need and that do not run yet, until ctx ends or
// they are stopped.
func (fs feeds) start(ctx context.Context, parts *errgroup.Group, table *relay.Table, via string) {
	for _, part := range table.Origins() {
		if !part.Canaries() || fs[part] != nil {
			continue
		}
		f, err := openFeed(table, part, via)
		if err != nil {
			panic(fmt.Sprintf("the feed of the tiers of %q: %v", part.Name(), err)) // our own bug: all of it is fixed
		}
		var own context.Context
		own, f.stop = context.WithCancel(ctx)
		f.done = make(chan struct{})
		fs[part] = f
		parts.Go(func() error {
			defer close(f.done)
			return f.run(own)
		})
	}
}

// end stops the feeds of the parts of the table that need none any more, and waits for them.
func (fs feeds) end(unneeded func(*relay.Origin) bool) {
	for part, f := range fs {
		if unneeded(part) {
			f.stop()
			<-f.done
			delete(fs, part)
		}
	}
}
