package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"reflect"
	"slices"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream/rest"
)

// restOrigin is a REST-JSON server.
type restOrigin struct {
	*rest.Origin
	fallback lastResort
	secured  *secured
}

func (p *process) openREST(f *activeConfig, o *config.Origin, origin string, part *relay.Origin) (origin, error) {
	path := origin + ".rest"
	secured, err := p.tls.origin(f.cfg, path+".tls", o.REST.TLS)
	if err != nil {
		return nil, err
	}
	c := restConfig(f.cfg, o)
	c.NameFields, c.Types = f.types.NameFields(o.NameFields), f.types
	c.Log, c.Metrics, c.Instance = p.logger(levels.Upstream), p.metrics, p.via
	c.Version, _ = buildVersion()
	if secured != nil {
		c.TLS, c.Trusts = secured.client, secured.judge(x509.ExtKeyUsageServerAuth)
	}
	up, err := rest.New(c, part)
	if err != nil {
		secured.close()
		// The outer error names the origin.
		return nil, errors.Join(problems(f.cfg, path, errors.Unwrap(err))...)
	}
	secured.whenTrustChanges(up.Recheck)
	last, err := p.openFallback(f, o, origin+".fallback", part)
	if err != nil {
		secured.close()
		return nil, err
	}
	return &restOrigin{Origin: up, secured: secured, fallback: last}, nil
}

func (o *restOrigin) run(ctx context.Context) error {
	return beside(ctx, o.fallback, o.Run)
}

func (o *restOrigin) succeed(before origin) {
	if was, ok := before.(*restOrigin); ok {
		o.Succeed(was.Origin)
	}
}

func (o *restOrigin) close() {
	o.secured.close()
	closeResort(o.fallback)
}

func (o *restOrigin) status() admin.Origin {
	s := o.Status()
	return statusBeside(statusOf("rest", &s), o.fallback)
}

// restConfig returns the configuration of a REST origin.
func restConfig(cfg *config.Config, o *config.Origin) rest.Config {
	r, b := o.REST, cfg.Timing.Backoff
	c := rest.Config{
		Name: o.Name, URLs: r.URLs, Poll: r.Poll, Headers: r.Headers, TokenFile: r.TokenFile,
		MaxMessage: int(r.MaxMessage), NameBytes: int(cfg.Limits.NameBytes), Batch: cfg.Timing.UpstreamBatch,
		Reach: reachTypes(cfg, o), Backoff: upstreamBackoff(b),
	}
	if c.Batch == 0 {
		c.Batch = -1
	}
	return c
}

// restTypes returns the types that a REST origin is asked for: those with a path (REST-8).
func restTypes(o *config.Origin) []string {
	return slices.DeleteFunc(rest.Types(), func(typeURL string) bool {
		return len(o.Types) > 0 && !slices.Contains(o.Types, typeURL)
	})
}

// sameREST reports whether a REST origin is polled as before.
func sameREST(before, next *config.Config, was, o *config.Origin) bool {
	return reflect.DeepEqual(was.REST.TLS, o.REST.TLS) && reflect.DeepEqual(was.NameFields, o.NameFields) &&
		reflect.DeepEqual(restConfig(before, was), restConfig(next, o)) //nolint:govet // deepequalerrors sees the error of a func, nil in both
}

// checkREST returns the package's problems with a configuration that parses.
func checkREST(cfg *config.Config, o *config.Origin, path string, part *relay.Origin) []error {
	c := restConfig(cfg, o)
	if o.REST.TLS != nil {
		c.TLS = func() *tls.Config { return nil } // the files may exist only where weir will run
	}
	if _, err := rest.New(c, part); err != nil {
		return problems(cfg, path, errors.Unwrap(err)) // the outer error names the origin
	}
	return nil
}
