package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// study is what compare and scale have in common: programs, and where results come from and go.
type study struct {
	programs programs
	json     string        // file to write
	from     []string      // files to read instead of measuring
	pause    time.Duration // in which memory is read, see fleetAndMemory
	most     int           // deliveries of the closed loop of a point; 0: 100,000
	short    bool          // points take less time than good figures need
	dir      string        // for files of processes, and built programs
	log      io.Writer     // progress
}

// programs are the binaries used; empty: built from this tree.
type programs struct{ weir, weirload string }

// pause is long enough for the runtime to return memory that it does not need: its scavenger takes
// 1 % of a core.
const pause = 12 * time.Second

// findings are the results of a study.
type findings interface {
	markdown(out io.Writer) error
}

// command completes a command that runs a study.
func (s *study) command(cmd *cobra.Command, run func(ctx context.Context, out io.Writer) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s.log = cmd.ErrOrStderr()
		return run(cmd.Context(), cmd.OutOrStdout())
	}
	fs := cmd.Flags()
	fs.StringVar(&s.json, "json", "", "file to write the figures of all runs to")
	fs.StringSliceVar(&s.from, "from", nil, "files that --json wrote, to make the tables of instead of measuring")
	fs.StringVar(&s.programs.weir, "weir", "", "weir's program; empty: built from this tree")
	fs.StringVar(&s.programs.weirload, "weirload", "", "weirload's program; empty: built from this tree")
	fs.DurationVar(&s.pause, "pause", pause, "how long nothing happens at the end of a run, for memory to be read")
	return cmd
}

// run measures, or reads results, and writes the tables. What fails is missing in them, and is an
// error.
func (s *study) run(ctx context.Context, out io.Writer, read func([]string) (findings, error), measure func(context.Context) (findings, error)) error {
	var found findings
	var err error
	if len(s.from) > 0 {
		found, err = read(s.from)
	} else {
		found, err = s.measured(ctx, measure)
	}
	if found == nil {
		return err
	}
	if s.json != "" {
		err = errors.Join(err, writeJSON(s.json, found))
	}
	return errors.Join(err, found.markdown(out))
}

// measured runs measure with programs and a directory.
func (s *study) measured(ctx context.Context, measure func(context.Context) (findings, error)) (found findings, err error) {
	if s.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if err := s.programs.build(ctx, s.dir); err != nil {
		return nil, err
	}
	err = s.timed("all of it", func() (err error) {
		found, err = measure(ctx)
		return err
	})
	return found, err
}

// timed logs how long something took.
func (s *study) timed(what string, do func() error) error {
	began := time.Now()
	err := do()
	fmt.Fprintf(s.log, "%s took %.0f s\n", what, time.Since(began).Seconds())
	return err
}

// build builds the programs that were not given, from the tree of this module.
func (p *programs) build(ctx context.Context, dir string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/weir-xds/weir").Output()
	if err != nil {
		return fmt.Errorf("where weir's module is: %w (run this in its own module)", err)
	}
	for name, program := range map[string]*string{"weir": &p.weir, "weirload": &p.weirload} {
		if *program != "" {
			continue
		}
		*program = filepath.Join(dir, name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", *program, "./cmd/"+name)
		cmd.Dir = strings.TrimSpace(string(root))
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build ./cmd/%s: %w\n%s", name, err, said)
		}
	}
	return nil
}

func writeJSON(file string, found any) error {
	b, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o600)
}

// readJSON passes the content of each file to take.
func readJSON[T any](files []string, take func(*T)) error {
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		one := new(T)
		if err := json.Unmarshal(b, one); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		take(one)
	}
	return nil
}
