package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/downstream/sink"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"
)

// checkRooms returns the packages' own problems with a configuration that parses. Everything is
// built, and nothing is opened or started, so that validate refuses what run would refuse.
func checkRooms(cfg *config.Config) error {
	table, err := relay.New(tableConfig(cfg))
	if err != nil {
		return cfg.Problemf("origins", "%v", err)
	}
	var errs []error
	for i := range cfg.Origins {
		o, path := &cfg.Origins[i], fmt.Sprintf("origins[%d]", i)
		errs = append(errs, checkOrigin(cfg, o, path, table)...)
		if f := o.Fallback; f != nil && f.Files == nil {
			second, err := relay.New(secondTable(cfg, o))
			if err != nil {
				errs = append(errs, cfg.Problemf(path+".fallback", "%v", err))
				continue
			}
			errs = append(errs, checkOrigin(cfg, secondOrigin(o), path+".fallback", second)...)
		}
	}
	for i := range cfg.Sinks {
		if _, err := sink.New(sinkConfig(cfg, &cfg.Sinks[i], table.Origin)); err != nil {
			// The outer error names the path.
			errs = append(errs, problems(cfg, fmt.Sprintf("sinks[%d]", i), errors.Unwrap(err))...)
		}
	}
	server, err := serverConfig(cfg)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	server.Table = table
	if _, err := downstream.New(server); err != nil {
		errs = append(errs, problems(cfg, "", err)...)
	}
	return errors.Join(errs...)
}

// checkOrigin returns the problems of the package of an origin's kind.
func checkOrigin(cfg *config.Config, o *config.Origin, path string, table *relay.Table) []error {
	part := table.Origin(o.Name)
	switch {
	case o.REST != nil:
		return checkREST(cfg, o, path+".rest", part)
	case o.GRPC == nil:
		return nil
	}
	u := upstreamConfig(cfg, o)
	if o.GRPC.TLS != nil {
		u.TLS = func() *tls.Config { return nil } // the files may exist only where weir will run
	}
	if _, err := upstream.New(u, part); err != nil {
		return problems(cfg, path+".grpc", errors.Unwrap(err)) // the outer error names the origin
	}
	return nil
}

// problems makes a problem of each of several joined errors, at the field that it begins with,
// below path.
func problems(cfg *config.Config, path string, err error) []error {
	list := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		list = many.Unwrap()
	}
	for i := range list {
		at, text := path, list[i].Error()
		if key, rest, ok := strings.Cut(text, ": "); ok && !strings.ContainsAny(key, " \"") {
			at, text = strings.TrimPrefix(path+"."+key, "."), rest
		}
		list[i] = cfg.Problemf(at, "%s", text)
	}
	return list
}
