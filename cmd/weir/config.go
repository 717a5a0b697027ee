package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/deploy/examples"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Help with the configuration file: a sample, a schema, what it comes to",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("weir config: say example, schema or show")}
		},
	}
	cmd.AddCommand(exampleCommand(), schemaCommand(), showCommand())
	return cmd
}

func exampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print a configuration that has every key, at its default and explained",
		Args:  arguments,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(examples.Full)
			return err
		}),
	}
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON schema of the configuration, for editors",
		Long: `Print a JSON schema of the configuration, for editors: each key with what it
does and its default. weir validate finds more than a schema can.`,
		Args: arguments,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			text, err := config.Schema()
			if err == nil {
				_, err = cmd.OutOrStdout().Write(append(text, '\n'))
			}
			return err
		}),
	}
}

func showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Print what a configuration comes to: variables, paths and defaults filled in, secrets masked",
		Args:  arguments,
	}
	configFlag(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		_, cfg, err := loadConfig(cmd, args)
		if err != nil {
			return err
		}
		text, err := cfg.YAML()
		if err == nil {
			_, err = cmd.OutOrStdout().Write(text)
		}
		return err
	})
	return cmd
}
