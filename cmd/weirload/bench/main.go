package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weirload/mtls"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "bench", Short: "weir beside go-control-plane and the limit of grpc-go", SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(newCompareCommand(), newScaleCommand(), newGrowthCommand(), newFarmCommand(), newEqualCommand())
	for kind, short := range kinds {
		root.AddCommand(newPlaneCommand(kind, short))
	}
	return root
}

func newPlaneCommand(kind, short string) *cobra.Command {
	var o world.Options
	var reports time.Duration
	var files mtls.Files
	c := &cobra.Command{
		Use: kind, Short: "Serve " + short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return servePlane(c.Context(), kind, o, reports, files, c.OutOrStdout())
		},
	}
	o.AddFlags(c.Flags())
	files.AddFlags(c.Flags())
	c.Flags().DurationVar(&reports, "report-interval", 10*time.Second, "of the yardstick: how often clients are to report their load")
	return c
}
