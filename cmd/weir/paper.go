package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weir-xds/weir/cmd/weir/tabular"
	"github.com/weir-xds/weir/cmd/weir/visible"
)

// paper is where a command prints tables. Text goes through package visible. Tables are written to
// raw: they show what is hidden themselves, and their colours have to reach the terminal.
type paper struct {
	io.Writer
	raw   io.Writer
	style tabular.Style
}

// paperOf returns the paper that w is, or that of the terminal or file behind it.
func paperOf(w io.Writer) *paper {
	if p, is := w.(*paper); is {
		return p
	}
	raw := unshown(w)
	return &paper{w, raw, styleOf(raw)}
}

// newTable begins a table on w.
func newTable(w io.Writer) *tabular.Writer {
	p := paperOf(w)
	return tabular.New(p.raw, p.style)
}

// wide is w without a limit to its width.
func wide(w io.Writer) io.Writer {
	p := *paperOf(w)
	p.style.Width = 0
	return &p
}

// styleOf returns what a terminal can show. On all else nothing is cut and nothing has a colour.
func styleOf(raw io.Writer) (s tabular.Style) {
	f, is := raw.(*os.File)
	if !is || !isTerminal(f) {
		return s
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = width
	}
	s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// isTerminal reports whether what is written is seen on a terminal, which acts on its codes.
func isTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}

// formats are the output formats, the default first.
var formats = []string{"table", "yaml", "json"}

// uncut is the output format of a table that is not cut to the terminal.
const uncut = "wide"

// shower returns how an answer in JSON is printed in a format.
func shower(output string, table func(io.Writer, []byte) error) func(io.Writer, []byte) error {
	switch output {
	case uncut:
		return func(w io.Writer, body []byte) error { return table(wide(w), body) }
	case "json":
		return statusJSON
	case "yaml":
		return writeYAML
	}
	return table
}

// printAs prints a value in a format.
func printAs(w io.Writer, output string, v any, table func(io.Writer) error) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return shower(output, func(w io.Writer, _ []byte) error { return table(w) })(w, text)
}

// colored is a value that is red where something is broken, and else as it is.
func colored(value any, broken bool, color tabular.Color) any {
	if !broken {
		return value
	}
	return tabular.Cell{Value: value, Color: color}
}

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
	f.BoolVar(&r.on, "watch", false, "refresh until ^C")
	f.DurationVar(&r.interval, "interval", 2*time.Second, "with --watch, the time between refreshes")
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
	case output != formats[0] && output != uncut:
		return usageError{fmt.Errorf("--watch shows a %s, not --output %s", formats[0], output)}
	case r.interval < shortestRedraw:
		return usageError{fmt.Errorf("--interval %s is shorter than %s", r.interval, shortestRedraw)}
	}
	to := unshown(out)
	screen := isTerminal(to)
	next := time.NewTimer(r.interval)
	defer next.Stop()
	for {
		var text bytes.Buffer
		text.WriteString(time.Now().Format(time.RFC3339) + "\n")
		err := show(ctx, &paper{visible.NewWriter(&text), &text, styleOf(to)})
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
		all := text.String()
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

// unshown is where a command prints what is not text, or meant for the terminal.
func unshown(out io.Writer) io.Writer {
	if w, is := out.(*visible.Writer); is {
		return w.Unwrap()
	}
	return out
}

// slowAfter is how long a command may be silent on a terminal.
const slowAfter = 2 * time.Second

// progress prints what a command waits for, each line once. It prints on a terminal alone: scripts
// read stderr for errors.
type progress struct {
	mu   sync.Mutex // guards to and said
	to   io.Writer
	said map[string]bool
}

type progressKey struct{}

// withProgress returns the context of a command that reports what it waits for.
func withProgress(cmd *cobra.Command) context.Context {
	p := &progress{to: cmd.ErrOrStderr(), said: map[string]bool{}}
	if !isTerminal(unshown(p.to)) {
		p = nil
	}
	return context.WithValue(cmd.Context(), progressKey{}, p)
}

// withoutProgress returns a context for the parts of a work that reports as a whole.
func withoutProgress(ctx context.Context) context.Context {
	return context.WithValue(ctx, progressKey{}, (*progress)(nil))
}

// slow prints what a command waits for, if that takes longer than slowAfter. The caller calls done
// at its end.
func slow(ctx context.Context, format string, args ...any) (done func()) {
	p, _ := ctx.Value(progressKey{}).(*progress)
	if p == nil {
		return func() {}
	}
	timer := time.AfterFunc(slowAfter, func() { p.say(fmt.Sprintf(format, args...)) })
	return func() { timer.Stop() }
}

// say prints a line that was not printed before. It locks.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.said[line] {
		_, _ = fmt.Fprintln(p.to, line, "...") // as with errors
	}
	p.said[line] = true
}
