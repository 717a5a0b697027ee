package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/visible"
)

// The exit codes of the contract.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// failure marks an error of a command that was called correctly. All others
// come from reading the command line: cobra gives them no type of their own.
type failure struct{ error }

// Unwrap gives the error that was marked.
func (f failure) Unwrap() error { return f.error }

// usageError marks what a command itself finds wrong with its arguments.
type usageError struct{ error }

// Unwrap gives the error that was marked.
func (u usageError) Unwrap() error { return u.error }

// action marks the errors of a command's work.
func action(work func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := work(cmd, args)
		if usage := (usageError{}); err == nil || errors.As(err, &usage) {
			return err
		}
		return failure{err}
	}
}

// commandTree has every command with its flags.
func commandTree() *cobra.Command {
	root := &cobra.Command{
		Use:           "weir",
		Short:         "A caching xDS relay",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       builtFrom(),
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		runCommand(), validateCommand(), getCommand(), diffCommand(), statusCommand(), clientsCommand(), explainCommand(), nacksCommand(), historyCommand(),
		groupsCommand(), authzCommand(), drainCommand(),
		freezeCommand(), unfreezeCommand(), rollbackCommand(), rollforwardCommand(), guardCommand(), logCommand(), snapshotCommand(), demoCommand(), configCommand(), versionCommand(),
	)
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
	// Cobra spreads its suggestions over lines.
	_, _ = fmt.Fprintln(stderr, strings.Join(strings.Fields(err.Error()), " "))
	return exitUsage
}
