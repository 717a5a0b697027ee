package main

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
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
			return g.AggregateLoads(ctx, via, who, first)
		}
		return g.LoadReports(ctx, via)
	}
	return nil, status.Errorf(codes.Unavailable, "origin %q is no longer in the configuration", part.Name())
}
