package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/visible"
)

// clearScreen empties a terminal, and goes to its beginning.
const clearScreen = "\x1b[H\x1b[2J"

// shortestRedraw bounds --interval from below: each time costs weir a look at all clients.
const shortestRedraw = 100 * time.Millisecond

// redraw holds the flags of a command that shows the same again and again.
type redraw struct {
	on       bool
	interval time.Duration
}

func (r *redraw) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&r.on, "watch", false, "show it again and again, until ^C")
	f.DurationVar(&r.interval, "interval", 2*time.Second, "with --watch: the time from one to the next")
}

// run shows something once, or with --watch until the context ends. Then an error is shown as well,
// and the next time may be better: a weir that restarts is back soon.
func (r *redraw) run(cmd *cobra.Command, output string, show func(context.Context, io.Writer) error) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	switch {
	case !r.on && cmd.Flags().Changed("interval"):
		return usageError{errors.New("--interval goes with --watch")}
	case !r.on:
		return show(ctx, out)
	case output != formats[0]:
		return usageError{fmt.Errorf("--watch shows a %s, not --output %s", formats[0], output)}
	case r.interval < shortestRedraw:
		return usageError{fmt.Errorf("--interval %s is shorter than %s", r.interval, shortestRedraw)}
	}
	to := visible.Plain(out) // it is sent codes of a terminal
	screen := isTerminal(to)
	next := time.NewTimer(r.interval)
	defer next.Stop()
	for {
		var text bytes.Buffer
		text.WriteString(time.Now().Format(time.RFC3339) + "\n")
		err := show(ctx, &text)
		if usage := (usageError{}); errors.As(err, &usage) {
			return err
		}
		if ctx.Err() != nil {
			return nil // it was interrupted, and what is there may be a part
		}
		if err != nil {
			text.WriteString("error: " + oneLine(err.Error()) + "\n")
		}
		if !screen {
			text.WriteString("\n") // between two blocks
		}
		all := visible.Lines(text.String())
		if screen {
			all = clearScreen + all
		}
		if _, err := io.WriteString(to, all); err != nil { // at once, so that a terminal does not flicker
			return err
		}
		next.Reset(r.interval)
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// isTerminal reports whether what is written is seen on a terminal, which acts on its codes.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
