package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/downstream/sink"
	"github.com/weir-xds/weir/relay"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// sinkRunner is a sink and its configuration. Whoever starts it, stops it.
type sinkRunner struct {
	*sink.Sink
	// Set once.
	cfg sink.Config

	// Set by startSinks.
	stop context.CancelFunc
	done chan struct{}
}

// openSinks keeps the sinks for which nothing changes. It writes nothing.
func (pl *nextConfig) openSinks() error {
	var errs []error
	cfg := pl.next.cfg
	for i := range cfg.Sinks {
		sc := sinkConfig(cfg, &cfg.Sinks[i], pl.part)
		sc.Log, sc.Metrics = pl.process.logger(levels.Sink), pl.process.metrics
		if was := pl.before.sink(sc); was != nil && !pl.regrouped(cfg.SinkOrigin(&cfg.Sinks[i]).Name) {
			pl.next.sinks = append(pl.next.sinks, was)
			continue
		}
		opened, err := sink.New(sc)
		if err != nil {
			at := fmt.Sprintf("sinks[%d]", i)
			// The outer error names the path.
			errs = append(errs, problems(cfg, at, errors.Unwrap(err))...)
			continue
		}
		r := &sinkRunner{Sink: opened, cfg: sc}
		pl.newSinks, pl.next.sinks = append(pl.newSinks, r), append(pl.next.sinks, r)
	}
	return errors.Join(errs...)
}

// regrouped reports whether clients of an origin may belong in other groups
// (relay.Change.Regrouped).
func (pl *nextConfig) regrouped(origin string) bool {
	was, is := pl.before.cfg.OriginNamed(origin), pl.next.cfg.OriginNamed(origin)
	return was != nil && !was.Canary.Clients().Equal(is.Canary.Clients())
}

// sink returns the runner with an equal configuration; nil if there is none.
func (f *activeConfig) sink(cfg sink.Config) *sinkRunner {
	if f == nil {
		return nil
	}
	for _, r := range f.sinks {
		if sameSink(r.cfg, cfg) {
			return r
		}
	}
	return nil
}

// sameSink reports whether two sinks are equal, and of the same part of the table.
func sameSink(a, b sink.Config) bool {
	return a.Path == b.Path && a.Origin == b.Origin && proto.Equal(a.Node, b.Node) &&
		slices.Equal(a.Types, b.Types) && slices.Equal(a.Secrets, b.Secrets) &&
		a.OrderHold == b.OrderHold && a.ColdWait == b.ColdWait
}

// sinkConfig returns the configuration of a sink.
func sinkConfig(cfg *config.Config, s *config.Sink, part func(origin string) *relay.Origin) sink.Config {
	id := s.Node.ID
	if id == "" {
		id = cfg.Name
	}
	return sink.Config{
		Path: s.Path, Origin: part(cfg.SinkOrigin(s).Name), Types: s.Types, Secrets: s.Secrets,
		// the reader of the files
		Node:      &corev3.Node{Id: id, Cluster: s.Node.Cluster, UserAgentName: "envoy"},
		OrderHold: cfg.Timing.OrderHold, ColdWait: cfg.Timing.ColdWait,
	}
}

// startSinks runs sinks until ctx ends or they are stopped.
func (p *process) startSinks(ctx context.Context, parts *errgroup.Group, sinks []*sinkRunner) {
	for _, s := range sinks {
		var own context.Context
		own, s.stop = context.WithCancel(ctx)
		s.done = make(chan struct{})
		parts.Go(func() error {
			defer close(s.done)
			return s.Run(own)
		})
	}
}

// stopSinks ends the sinks that are not kept, and waits for them, so that no directory has two.
func stopSinks(before, kept []*sinkRunner) {
	for _, s := range before {
		if !slices.Contains(kept, s) {
			s.stop()
			<-s.done
		}
	}
}
