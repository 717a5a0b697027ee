package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
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
	root.AddCommand(newCompareCommand(), newPlaneCommand(snapshot, "go-control-plane's snapshot cache, one snapshot for all nodes"),
		newPlaneCommand(linear, "go-control-plane's linear cache"))
	return root
}
