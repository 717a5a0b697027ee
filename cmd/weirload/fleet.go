package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

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
	fs.StringVar(&c.NameFormat, "name-format", world.NameFormat, "what makes a number a name")
	fs.IntSliceVar(&c.PIDs, "server-pid", nil, "process whose CPU time and memory are reported; repeatable")
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
	fs.StringVar(&c.NodeCluster, "node-cluster", "weirload", "the clients' node.cluster")
	fs.IntVar(&c.Groups, "groups", 1, "how many node.clusters there are, in turn: that name and -1, -2 and so on behind it; 1: that name")
	fs.IntVar(&c.ConnectRate, "connect-rate", 0, "how many clients come in a second; 0: all at once")
	fs.IntVar(&c.Window, "window", 16<<20, "bytes that each stream and connection may be sent ahead; the default is Envoy's")
	fs.BoolVar(&c.Cold, "cold", false, "no client comes before the storm, so that it meets a server that has nothing yet")
	fs.DurationVar(&c.Away, "away", 0, "how long all clients are gone after the storm, before they come back at once, with the TLS sessions that they have; 0: they stay")
	fs.DurationVar(&c.Idle, "idle", 0, "how long nothing happens before memory is looked at")
	fs.DurationVar(&c.Rest, "rest", 0, "how long clients stay when all is measured, before memory is looked at once more")
	fs.IntVar(&c.Deaf, "deaf", 0, "further clients that read nothing once they have subscribed")
	fs.IntVar(&c.Mute, "mute", 0, "further clients that acknowledge nothing")
	fs.IntVar(&c.Slow, "slow", 0, "further clients that read slowly")
	fs.IntVar(&c.SlowRate, "slow-rate", 10_000, "bytes a second that these read")
	fs.IntVar(&c.Rate, "rate", 0, "open loop: how many resources change in a second")
	fs.IntVar(&c.Changes, "changes", 0, "closed loop: how many changes, each when all clients have the one before")
	fs.IntVar(&c.Batch, "batch", 1, "closed loop: how many resources change at once")
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
