package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/downstream/sink"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"
	"github.com/weir-xds/weir/upstream/descriptors"
	"github.com/weir-xds/weir/upstream/file"
	"github.com/weir-xds/weir/upstream/rest"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a configuration and print each problem with its line",
		Long: `Check FILE (default: weir.yaml) and the files that it names. Everything that weir run
rejects is an error.

Use --syntax-only to check a configuration for another machine, where those files
are.`,
		Example: `  weir validate
  weir validate --syntax-only /etc/weir/weir.yaml`,
	}
	configFlag(cmd)
	syntax := cmd.Flags().Bool("syntax-only", false, "skip the files that the configuration names")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		path, cfg, err := loadConfig(cmd, args)
		if err != nil {
			return err
		}
		if err := checkRooms(cfg); err != nil {
			printWarnings(cmd.ErrOrStderr(), cfg.Warnings())
			return err
		}
		var warnings []error
		if !*syntax {
			done := slow(cmd.Context(), "reading the files that %s names", path)
			warnings, err = checkNamed(cfg)
			done()
		}
		for _, w := range cfg.Warnings() {
			warnings = append(warnings, w)
		}
		printWarnings(cmd.ErrOrStderr(), warnings)
		if err != nil {
			return err
		}
		lines := append([]string{"ok"}, exposures(cfg)...)
		for _, n := range cfg.KeyNotes() {
			lines = append(lines, n.Error())
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\n"))
		return err
	})
	return cmd
}

// printWarnings prints a line for each. As with errors, there is nobody left to tell if it fails.
func printWarnings[W error](w io.Writer, warnings []W) {
	for _, x := range warnings {
		_, _ = fmt.Fprintln(w, x)
	}
}

// checkNamed reads the files that a configuration names, as run does at the start.
func checkNamed(cfg *config.Config) (warnings []error, err error) {
	types, err := readTypes(cfg)
	files, broken := checkFiles(cfg, types)
	secrets, unusable := checkSecrets(cfg)
	return slices.Concat(files, secrets), errors.Join(err, broken, unusable)
}

// checkFiles reads the files of origins and of their fallbacks.
func checkFiles(cfg *config.Config, types *descriptors.Types) (warnings []error, err error) {
	var errs []error
	for i := range cfg.Origins {
		c, key := filesConfig(cfg, types, &cfg.Origins[i])
		if key == "" {
			continue
		}
		path := fmt.Sprintf("origins[%d]%s", i, key)
		found, remarks, err := file.Check(c)
		if err != nil {
			found = []error{err}
		}
		for _, f := range found {
			errs = append(errs, cfg.Problemf(path, "%v", f))
		}
		for _, r := range remarks {
			p := cfg.Problemf(path, "%v", r)
			p.Warning = true
			warnings = append(warnings, p)
		}
	}
	return warnings, errors.Join(errs...)
}

// exposures say, for each origin with group_by, how many upstream streams its clients can cause at
// most.
func exposures(cfg *config.Config) (lines []string) {
	l := &cfg.Limits
	dedicated := slices.ContainsFunc(cfg.Listeners, func(l config.Listener) bool { return len(l.Dedicated) > 0 })
	for i := range cfg.Origins {
		o := &cfg.Origins[i]
		if o.GRPC == nil || len(o.GroupBy) == 0 && !dedicated {
			continue
		}
		streams := "a stream of its own"
		if !o.GRPC.Aggregated {
			streams = "a stream for each type"
		}
		one := l.GroupsPerPeer
		if one == 0 || l.Groups > 0 && l.Groups < one {
			one = l.Groups
		}
		lines = append(lines, fmt.Sprintf("origin %s: at worst %s groups of clients (limits.groups), each with %s; one peer can open %s of them "+
			"(limits.groups_per_peer), and all together %s a second (limits.new_groups_per_second)", o.Name, orAny(l.Groups), streams,
			orAny(one), orAny(l.NewGroupsPerSecond)))
	}
	return lines
}

func orAny(n int) string {
	if n == 0 {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

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
		if o.GRPC != nil && o.GRPC.TLS != nil {
			client("grpc", o.GRPC.TLS)
		}
		if o.REST != nil && o.REST.TLS != nil {
			client("rest", o.REST.TLS)
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
	part, err := table.Origin(o.Name), error(nil)
	notHere := func() *tls.Config { return nil } // the files may exist only where weir will run
	switch {
	case o.REST != nil:
		path += ".rest"
		c := restConfig(cfg, o)
		if o.REST.TLS != nil {
			c.TLS = notHere
		}
		_, err = rest.New(c, part)
	case o.GRPC != nil:
		path += ".grpc"
		u := upstreamConfig(cfg, o)
		if o.GRPC.TLS != nil {
			u.TLS = notHere
		}
		_, err = upstream.New(u, part)
	}
	if err != nil {
		return problems(cfg, path, errors.Unwrap(err)) // the outer error names the origin
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
