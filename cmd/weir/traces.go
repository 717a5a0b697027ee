package main

import (
	"context"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/cmd/weir/tracing"
	"github.com/weir-xds/weir/relay"
)

// openTracing begins to draw updates, if the configuration has an endpoint.
func (p *process) openTracing(ctx context.Context, cfg *config.Config) error {
	c := &cfg.Tracing
	if c.Endpoint == "" || c.Sample == 0 {
		return nil
	}
	name, err := instance(cfg)
	if err != nil {
		return err
	}
	tc := tracing.Config{
		Endpoint: c.Endpoint, Headers: c.Headers, Service: cfg.Name, Instance: name, Log: p.logger(levels.Tracing),
		Traces: relay.NewTraces(c.Sample, tracing.MostOpen),
		Unsent: func(all []*relay.Traced) []int { return p.server.Unsent(all) },
	}
	tc.Version, _ = buildVersion()
	if !c.Insecure {
		secured, err := p.tls.origin(cfg, "tracing.tls", &config.ClientTLS{CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key})
		if err != nil {
			return err
		}
		tc.TLS = secured.client()
		secured.close() // they are read once
	}
	if p.tracing, err = tracing.New(ctx, tc); err != nil {
		return cfg.Problemf("tracing.endpoint", "%v", err)
	}
	p.draws = tc.Traces
	return nil
}
