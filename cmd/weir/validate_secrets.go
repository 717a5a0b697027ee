package main

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
)

// checkSecrets reads certificates, keys, authorities, the admin token and the key of the snapshot
// as run does at the start.
func checkSecrets(cfg *config.Config) (warnings []error, err error) {
	c := newCertificates(newWatch(zap.NewNop()), zap.NewNop()) // it is never run
	var errs []error
	found := func(problem error) {
		if problem != nil {
			errs = append(errs, problem)
		}
	}
	port := func(path, role string, t config.ServerTLS) {
		if t.SPIFFE != "" {
			return // the agent knows weir where it will run
		}
		_, err := c.port(cfg, path, role, t)
		found(err)
	}
	for i := range cfg.Listeners {
		port(fmt.Sprintf("listeners[%d].tls", i), roleListener, cfg.Listeners[i].TLS)
	}
	port("admin.tls", roleAdmin, cfg.Admin.TLS)
	if t := cfg.Cache.Seed.TLS; t.SPIFFE == "" {
		_, err := c.siblings(cfg)
		found(err)
	}
	for i := range cfg.Origins {
		client := func(kind string, t *config.ClientTLS) {
			if t.SPIFFE != "" {
				return
			}
			_, err := c.origin(cfg, fmt.Sprintf("origins[%d].%s.tls", i, kind), t)
			found(err)
		}
		o := &cfg.Origins[i]
		both := func(at string, g *config.GRPC, r *config.REST) {
			if g != nil && g.TLS != nil {
				client(at+"grpc", g.TLS)
			}
			if r != nil && r.TLS != nil {
				client(at+"rest", r.TLS)
			}
		}
		if both("", o.GRPC, o.REST); o.Fallback != nil {
			both("fallback.", o.Fallback.GRPC, o.Fallback.REST)
		}
	}
	if file := cfg.Admin.TokenFile; file != "" {
		if _, err := admin.ReadToken(file); err != nil {
			found(cfg.Problemf("admin.token_file", "%v", err))
		}
	}
	if s := &cfg.Cache.Snapshot; cfg.Cache.UsesKey() {
		_, warning, err := snapshot.ReadKeys(s.KeyFile)
		if err != nil {
			found(cfg.Problemf("cache.snapshot.key_file", "%v", err))
		}
		if warning != nil {
			w := cfg.Problemf("cache.snapshot.key_file", "%v", warning)
			w.Warning = true
			warnings = append(warnings, w)
		}
	}
	now := time.Now()
	for _, m := range c.list() {
		if ends := m.current.Load().ends; !ends.IsZero() && now.After(ends) {
			what := "a certificate has expired"
			if m.role == roleCRL {
				what = "a CRL was due for its next update"
			}
			w := cfg.Problemf(m.path, "%s at %s", what, ends.UTC().Format(time.RFC3339))
			w.Warning = true
			warnings = append(warnings, w)
		}
	}
	return warnings, errors.Join(errs...)
}
