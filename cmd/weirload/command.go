package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// failure marks an error of a command that was called correctly. All others come from reading the
// command line.
type failure struct{ error }

// Unwrap gives the error that was marked.
func (f failure) Unwrap() error { return f.error }

// action marks the errors of a command's work.
func action(work func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		err := work(cmd)
		switch {
		case err == nil:
			return nil
		case cmd.Context().Err() != nil: // whatever broke then broke by it
			return failure{errors.New("interrupted")}
		default:
			return failure{err}
		}
	}
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "weirload",
		Short:         "Load for xDS servers: an origin, a fleet of clients, and figures",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(originCommand(), fleetCommand(), runCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)

	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	// There is nobody left to tell if stderr is gone. Each error is a line, and joined errors are
	// several.
	if failed := (failure{}); errors.As(err, &failed) {
		_, _ = fmt.Fprintln(stderr, err)
		return exitFailed
	}
	// cobra spreads its suggestions over lines
	_, _ = fmt.Fprintln(stderr, strings.Join(strings.Fields(err.Error()), " "))
	return exitUsage
}
