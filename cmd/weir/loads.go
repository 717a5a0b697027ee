package main

import (
	"context"
	"sync/atomic"

	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"
)

// loadReports opens a stream of load reports at an origin of the configuration in force.
func (p *process) loadReports(ctx context.Context, part *relay.Origin, via []string, who string, first []byte) (downstream.LoadStream, error) {
	f := p.active.Load()
	for i, o := range f.origins {
		if o.table != part {
			continue
		}
		g, ok := o.origin.(*grpcOrigin)
		switch {
		case !ok:
			return nil, status.Errorf(codes.Unimplemented, "origin %q is not of grpc and takes no load reports", o.name)
		case f.cfg.Origins[i].LRS == config.LRSRefuse:
			return nil, status.Errorf(codes.Unimplemented, "origins[].lrs: origin %q takes no load reports", o.name)
		}
		if f.cfg.Origins[i].LRS == config.LRSAggregate {
			return g.up.AggregateLoads(ctx, via, who, first)
		}
		if f.cfg.Origins[i].IdentityTo != "" {
			return identified(ctx, g.up, part, via, who, first)
		}
		return g.up.LoadReports(ctx, via)
	}
	return nil, status.Errorf(codes.Unavailable, "origin %q is no longer in the configuration", part.Name())
}

// identifiedLoads is a client's stream of load reports at an origin that is told identities
// (origins[].identity_to). Its messages are passed on, with the identity in every node.
type identifiedLoads struct {
	*upstream.LoadStream

	// Set once.
	part *relay.Origin
	who  string
	end  context.CancelFunc

	first bool                          // no message was sent yet; owned by Send
	bad   atomic.Pointer[status.Status] // of a message that does not decode; nil: there was none
}

func identified(
	ctx context.Context, up *upstream.Origin, part *relay.Origin, via []string, who string, first []byte,
) (downstream.LoadStream, error) {
	if err := proto.Unmarshal(first, &loadstats.LoadStatsRequest{}); err != nil {
		return nil, unreadableLoads(err).Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	s, err := up.LoadReports(ctx, via)
	if err != nil {
		cancel()
		return nil, err
	}
	return &identifiedLoads{LoadStream: s, part: part, who: who, end: cancel, first: true}, nil
}

func unreadableLoads(err error) *status.Status {
	return status.Newf(codes.InvalidArgument, "a load report cannot be read: %v", err)
}

// Send implements downstream.LoadStream.
func (s *identifiedLoads) Send(report []byte) error {
	r := &loadstats.LoadStatsRequest{}
	if err := proto.Unmarshal(report, r); err != nil {
		s.bad.Store(unreadableLoads(err))
		s.end()
		return err
	}
	if !s.first && r.Node == nil {
		return s.LoadStream.Send(report)
	}
	s.first, r.Node = false, s.part.Identified(r.Node, s.who)
	named, err := proto.Marshal(r)
	if err != nil {
		return err // cannot happen: it was decoded from the wire
	}
	return s.LoadStream.Send(named)
}

// Recv implements downstream.LoadStream.
func (s *identifiedLoads) Recv() ([]byte, error) {
	m, err := s.LoadStream.Recv()
	if bad := s.bad.Load(); err != nil && bad != nil {
		return nil, bad.Err()
	}
	return m, err
}
