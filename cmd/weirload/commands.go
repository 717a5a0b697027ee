package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-xds/weir/cmd/weirload/bed"
	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/mtls"
	"github.com/weir-xds/weir/cmd/weirload/origin"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// measurement has the options of the command run.
type measurement struct {
	fleet         fleet.Config
	world         world.Options
	weir          string // path
	direct        bool
	originDialect string
}

func runCommand() *cobra.Command {
	var m measurement
	var output string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Start an origin, a weir before it and a fleet, and tell what it costs",
		Long: `Start an origin and a weir as processes of their own, with ports that the system chooses, and a fleet that measures them; end
them all. Without a number of changes or a rate only the storm is measured. The flags are those of origin and fleet.`,
		Example: `  weirload run --clients 1000 --changes 50
  weirload run --clients 500 --dialect sotw --rate 10 --for 10s
  weirload run --clients 500 --type eds --resources 5000 --names 50 --rate 100 --for 10s -o json`,
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	addFleetFlags(fs, &m.fleet)
	fs.StringVar((*string)(&m.world.Kind), "type", string(world.Clusters), "type of the resources: cds or eds")
	fs.IntVar(&m.world.Resources, "resources", 1000, "how many resources there are")
	fs.IntVar(&m.world.Bytes, "bytes", 436, "about how many bytes an encoded resource has")
	fs.StringVar(&m.weir, "weir", "", "the weir to start (default: the one beside this program, or in PATH)")
	fs.StringVar(&m.originDialect, "origin-dialect", "delta", "what weir speaks to the origin: delta or sotw")
	fs.BoolVar(&m.direct, "direct", false, "no weir: the fleet asks the origin itself")
	addOutputFlag(fs, &output)
	cmd.PreRunE = checkOutput(&output)
	cmd.RunE = action(func(cmd *cobra.Command) error {
		m.fleet.Say = sayTo(cmd.ErrOrStderr())
		report, err := m.run(cmd.Context())
		if err != nil {
			return err
		}
		return write(report, output, cmd.OutOrStdout())
	})
	return cmd
}

// run starts everything, measures, and stops everything.
func (m *measurement) run(ctx context.Context) (report *fleet.Report, err error) {
	m.fleet.TypeURL, m.fleet.Resources = m.world.Kind.TypeURL(), m.world.Resources
	if _, err := world.New(m.world); err != nil {
		return nil, err
	}
	program := ""
	if !m.direct {
		if program, err = findWeir(m.weir); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := bed.Start(ctx, "origin", exec.Command(self, append([]string{"origin"}, m.world.Arguments()...)...))
	if err != nil {
		return nil, err
	}
	err = b.Run(func(ctx context.Context) error {
		if !m.direct {
			if err := b.Before(program, m.config(b)); err != nil {
				return err
			}
		}
		m.fleet.Server, m.fleet.Control, m.fleet.PIDs, m.fleet.Heap = b.XDS, b.Control, b.PIDs, b.Pprof
		f, err := fleet.New(m.fleet)
		if err != nil {
			return err
		}
		m.fleet.Say("profiles are at http://" + b.Pprof + "/debug/pprof/")
		report, err = f.Run(ctx)
		return err
	})
	return report, err
}

// config returns weir's configuration: the defaults, without limits that clients and groups would
// wait for.
func (m *measurement) config(b *bed.Bed) map[string]any {
	const many = 1_000_000
	config := b.Config()
	config["origins"].([]any)[0].(map[string]any)["grpc"].(map[string]any)["dialect"] = m.originDialect
	config["limits"] = map[string]any{
		"streams": 0, "streams_per_connection": max(100, m.fleet.PerConnection+1), "groups": many, "new_groups_per_second": many,
	}
	return config
}

// findWeir returns the given path, or else the weir that was built with this program.
func findWeir(path string) (string, error) {
	if path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("--weir: %w", err)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "weir")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("weir")
	if err != nil {
		return "", errors.New("no weir beside this program, and none in PATH: say where one is with --weir, or leave it out with --direct")
	}
	return path, nil
}

func originCommand() *cobra.Command {
	var o world.Options
	var files mtls.Files
	cmd := &cobra.Command{
		Use:   "origin",
		Short: "Serve resources that change when the control endpoint is asked to change them",
		Long: `Serve resources of one type, in delta and state of the world, until interrupted. When it serves, it prints one line of JSON:
the address of the xDS port, that of the control endpoint, and its process id. The control endpoint is HTTP:

  POST /change?count=K           change the next K resources, as one transaction
  POST /churn?rate=R&for=10s     change R resources a second, one at a time
  GET  /counts                   what clients have cost: streams, requests, names, bytes
  GET  /debug/pprof/             profiles of this process`,
		Args: cobra.NoArgs,
	}
	o.AddFlags(cmd.Flags())
	files.AddFlags(cmd.Flags())
	cmd.RunE = action(func(cmd *cobra.Command) error {
		security, err := files.Server()
		if err != nil {
			return err
		}
		w, err := world.New(o)
		if err != nil {
			return err
		}
		served := origin.New(w)
		return world.Serve(cmd.Context(), w, served, served.Server(security), o.Listen, cmd.OutOrStdout())
	})
	return cmd
}

func fleetCommand() *cobra.Command {
	var c fleet.Config
	var typeName, output string
	cmd := &cobra.Command{
		Use:   "fleet --server ADDRESS",
		Short: "Be many clients of an xDS server, and tell what came and how fast",
		Long: `Be many clients of an xDS server, on the aggregated service. All come at once (the storm); then, if asked for, changes are
measured: made one after the other when all clients have the one before (--changes N, or --for D), made at a rate (--rate R --for D),
or only observed (no --control). Latencies are taken from the stamps that weirload's own resources carry, and are of one machine's
clock; of another server's resources responses and bytes are counted.`,
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	addFleetFlags(fs, &c)
	fs.StringVar(&c.Server, "server", "", "address of the server, host:port; with commas several, which connections take in turn")
	fs.StringVar(&c.Control, "control", "", "address of the control endpoint of the plane that has the resources")
	fs.StringVar(&typeName, "type", "cds", "type to ask for: cds, eds, or a type URL")
	fs.IntVar(&c.Resources, "resources", 0, "how many resources the server has; with it, a first state is complete when they are all there")
	fs.IntSliceVar(&c.PIDs, "server-pid", nil, "process whose CPU time and memory are reported; repeatable")
	fs.StringVar(&c.Heap, "server-pprof", "", "address with the /debug/pprof/ of the first of these; its garbage is collected before --rest")
	c.TLS.AddFlags(fs)
	addOutputFlag(fs, &output)
	_ = cmd.MarkFlagRequired("server")
	cmd.PreRunE = checkOutput(&output)
	cmd.RunE = action(func(cmd *cobra.Command) error {
		c.TypeURL = typeURL(typeName)
		c.Say = sayTo(cmd.ErrOrStderr())
		f, err := fleet.New(c)
		if err != nil {
			return err
		}
		report, err := f.Run(cmd.Context())
		if err != nil {
			return err
		}
		return write(report, output, cmd.OutOrStdout())
	})
	return cmd
}

// addFleetFlags adds the fleet's flags that do not depend on where its server comes from.
func addFleetFlags(fs *pflag.FlagSet, c *fleet.Config) {
	fs.StringVar((*string)(&c.Dialect), "dialect", string(fleet.Delta), "delta or sotw")
	fs.IntVar(&c.Clients, "clients", 100, "how many clients")
	fs.IntVar(&c.PerConnection, "per-connection", 1, "how many clients share a connection")
	fs.IntVar(&c.Names, "names", 0, "how many names a client asks for; 0: it asks for everything")
	fs.IntVar(&c.Groups, "groups", 1, "how many node.clusters there are, in turn: weirload-0, weirload-1 and so on; 1: weirload")
	fs.IntVar(&c.ConnectRate, "connect-rate", 0, "how many clients come in a second; 0: all at once")
	fs.DurationVar(&c.Idle, "idle", 0, "how long nothing happens before memory is looked at")
	fs.DurationVar(&c.Rest, "rest", 0, "how long clients stay when all is measured, before memory is looked at once more")
	fs.IntVar(&c.Deaf, "deaf", 0, "further clients that read nothing once they have subscribed")
	fs.IntVar(&c.Mute, "mute", 0, "further clients that acknowledge nothing")
	fs.IntVar(&c.Slow, "slow", 0, "further clients that read 10 KB a second")
	fs.IntVar(&c.Rate, "rate", 0, "open loop: how many resources change in a second")
	fs.IntVar(&c.Changes, "changes", 0, "closed loop: how many changes, each when all clients have the one before")
	fs.DurationVar(&c.For, "for", 0, "how long changes are made, or observed")
	fs.DurationVar(&c.Patience, "patience", time.Minute, "how long clients may take to have their first state")
}

func addOutputFlag(fs *pflag.FlagSet, output *string) {
	fs.StringVarP(output, "output", "o", "table", "table or json")
}

func checkOutput(output *string) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error {
		if *output != "table" && *output != "json" {
			return fmt.Errorf("--output %q is neither table nor json", *output)
		}
		return nil
	}
}

// typeURL returns the type URL of a kind, or name itself.
func typeURL(name string) string {
	if kind := world.Kind(name); kind == world.Clusters || kind == world.Endpoints {
		return kind.TypeURL()
	}
	if !strings.Contains(name, "/") {
		return "type.googleapis.com/" + name
	}
	return name
}

func sayTo(w io.Writer) func(string) { return func(line string) { _, _ = fmt.Fprintln(w, line) } }

func write(r *fleet.Report, output string, w io.Writer) error {
	if output == "json" {
		return r.JSON(w)
	}
	return r.Table(w)
}
