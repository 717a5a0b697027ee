// Weirload is weir's load tool: a cheap origin (origin), a fleet of clients that count instead of
// decoding (fleet), and both with a weir between them (run).
//
// Exit codes are those of weir: 0 ok, 1 refused input or failed work, 2 usage.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly shutdown; a second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// failure marks an error of a command that was called correctly. All others come from the command
// line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// action marks the errors of a command's work.
func action(work func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		err := work(cmd)
		switch {
		case err == nil:
			return nil
		case cmd.Context().Err() != nil: // whatever failed then failed because of it
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
	// If stderr is gone nobody can be told. Each error is a line, and joined errors are several.
	if failed := (failure{}); errors.As(err, &failed) {
		_, _ = fmt.Fprintln(stderr, err)
		return exitFailed
	}
	// cobra puts its suggestions on several lines
	_, _ = fmt.Fprintln(stderr, strings.Join(strings.Fields(err.Error()), " "))
	return exitUsage
}
