package main

import "github.com/spf13/cobra"

func drainCommand() *cobra.Command {
	o := &operator{}
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have a running weir begin an orderly end",
		Long: `Have a running weir begin an orderly end, as SIGTERM does: it is not ready any
more, tells its clients to go elsewhere, spread over timing.drain, and ends. The
command returns at once.`,
		Args: arguments,
	}
	o.register(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error { return o.act(cmd, "/drain") })
	return cmd
}
