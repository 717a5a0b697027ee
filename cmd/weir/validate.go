package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a configuration and print every problem with its line",
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
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "ok")
		return err
	})
	return cmd
}
