package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a configuration and print every problem and warning with its line",
		Args:  cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(*path)
		if err != nil {
			return err
		}
		if err := checkRooms(cfg); err != nil {
			return err
		}
		for _, w := range cfg.Warnings() {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), w) // as with errors, there is nobody left to tell
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "ok")
		return err
	})
	return cmd
}
