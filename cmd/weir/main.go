// Weir is a caching xDS relay. It stands between control planes and their clients, asks for each
// resource once per group, and keeps the last known good configuration at hand.
//
// Every command is a cobra command. run maps the errors that they return to
// exit codes: 0 ok, 1 refused input or failed check, 2 usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	// for images without CA certificates; the system's are preferred
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/weir-xds/weir/cmd/weir/visible"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly shutdown; a second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit codes of the contract.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// failure marks an error of a command that was called correctly. All others
// come from reading the command line: cobra gives them no type of their own.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// usageError marks what a command itself finds wrong with its arguments.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// action marks the errors of a command's work.
func action(work func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cmd.SetContext(withProgress(cmd))
		err := work(cmd, args)
		usage := usageError{}
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &usage):
			return failure{err}
		case strings.HasPrefix(err.Error(), cmd.CommandPath()):
			return err
		}
		return usagef(cmd, "%w", err)
	}
}

// commandTree has every command with its flags.
func commandTree() *cobra.Command {
	root := &cobra.Command{
		Use:           "weir",
		Short:         "A caching xDS relay",
		Long:          rootHelp,
		Args:          subcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       builtFrom(),
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(usage)
	root.PersistentPreRunE = checkFlags
	connectionFlags(root)
	root.AddGroup(commandGroups...)
	for group, commands := range map[string][]*cobra.Command{
		"serve": {runCommand(), demoCommand()},
		"inspect": {
			statusCommand(), clientsCommand(), explainCommand(), nacksCommand(), historyCommand(), groupsCommand(),
			authzCommand(), getCommand(), diffCommand(), snapshotCommand(),
		},
		"act": {
			drainCommand(), freezeCommand(), unfreezeCommand(), rollbackCommand(), rollforwardCommand(), guardCommand(), logCommand(),
		},
		"configure": {configCommand(), validateCommand()},
		"":          {versionCommand()},
	} {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	tidy(root)
	return root
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	// Whatever a command prints has been chosen by peers in parts.
	stdout, stderr = visible.NewWriter(stdout), visible.NewWriter(stderr)
	root := commandTree()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ownDefaults(root) // cobra's write where the root writes when they are made
	hideForeign(root, args)

	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	// Each error is a line, and joined errors are several; there is nobody left
	// to tell if stderr is gone.
	if failed := (failure{}); errors.As(err, &failed) {
		_, _ = fmt.Fprintln(stderr, err)
		return exitFailed
	}
	_, _ = fmt.Fprintln(stderr, oneLine(err.Error()))
	return exitUsage
}
