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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weirload/mtls"
)

// comparison has the options of the command.
type comparison struct {
	programs            programs
	scenarios, subjects []string
	rounds              int
	within              time.Duration // see newCompareCommand; 0: however long it takes
	pause               time.Duration // at whose end memory is read
	json                string        // file to write
	dir                 string        // for certificates, and built programs
	tls                 mtls.Files    // of scenarios with TLS
	log                 io.Writer     // progress
}

// job is a scenario of a run, and what was found so far.
type job struct {
	scenario
	took  time.Duration       // its last round
	found map[string][]result // by subject
}

func newCompareCommand() *cobra.Command {
	c := &comparison{}
	var names []string
	for _, sc := range scenarios() {
		names = append(names, sc.name)
	}
	cmd := &cobra.Command{
		Use: "compare", Short: "Run every scenario against every subject, and print the table", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.log = cmd.ErrOrStderr()
			return c.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&c.json, "json", "", "file to write the figures of all runs to")
	fs.StringVar(&c.programs.weir, "weir", "", "weir's program; empty: built from this tree")
	fs.StringVar(&c.programs.weirload, "weirload", "", "weirload's program; empty: built from this tree")
	// The runtime returns memory that it does not need by and by: its scavenger takes 1 % of a core.
	fs.DurationVar(&c.pause, "pause", 12*time.Second, "how long nothing happens at the end of a run, for memory to be read")
	fs.StringSliceVar(&c.scenarios, "scenarios", names, "which of them")
	fs.StringSliceVar(&c.subjects, "subjects", subjects, "which of them")
	fs.IntVar(&c.rounds, "rounds", 3, "how often each is measured, if there is time")
	fs.DurationVar(&c.within, "within", 12*time.Minute, "after the first round, what would not end within this time is left out; 0: nothing is")
	return cmd
}

// run measures, and writes the table. What fails is missing in it, and is an error.
func (c *comparison) run(ctx context.Context, out io.Writer) (err error) {
	chosen, err := c.choose()
	if err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	if err := c.programs.build(ctx, c.dir); err != nil {
		return err
	}
	if c.tls, err = mtls.Make(c.dir); err != nil {
		return err
	}
	rep := &report{Machine: thisMachine(), Rounds: c.rounds}
	err = c.timed("all of it", func() (err error) {
		rep.Rows, err = c.measureAll(ctx, chosen)
		return err
	})
	if rep.Rows == nil {
		return err
	}
	if c.json != "" {
		text, failed := json.MarshalIndent(rep, "", "  ")
		err = errors.Join(err, failed, os.WriteFile(c.json, append(text, '\n'), 0o600))
	}
	_, failed := io.WriteString(out, rep.markdown())
	return errors.Join(err, failed)
}

// timed logs how long something took.
func (c *comparison) timed(what string, do func() error) error {
	began := time.Now()
	err := do()
	fmt.Fprintf(c.log, "%s took %.0f s\n", what, time.Since(began).Seconds())
	return err
}

// measureAll measures scenarios in rounds: each once, then each again. What fails is left out, and
// is an error.
func (c *comparison) measureAll(ctx context.Context, chosen []scenario) (rows []row, err error) {
	var failed []error
	jobs := make([]job, len(chosen))
	began := time.Now()
	for round := range c.rounds {
		for i := range jobs {
			j := &jobs[i]
			if round == 0 {
				j.scenario, j.found = chosen[i], map[string][]result{}
			} else if c.within > 0 && time.Since(began)+j.took > c.within {
				continue
			}
			start := time.Now()
			failed = append(failed, c.round(ctx, j, round))
			j.took = time.Since(start)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
	}
	for i := range chosen {
		rows = append(rows, rowsOf(&chosen[i], jobs[i].found)...)
	}
	return rows, errors.Join(failed...)
}

func (c *comparison) choose() ([]scenario, error) {
	if c.rounds < 1 {
		return nil, fmt.Errorf("rounds: %d is less than one", c.rounds)
	}
	for _, s := range c.subjects {
		if !slices.Contains(subjects, s) {
			return nil, fmt.Errorf("subjects: there is no %q, only %s", s, strings.Join(subjects, ", "))
		}
	}
	var chosen []scenario
	for _, name := range c.scenarios {
		all := scenarios()
		i := slices.IndexFunc(all, func(sc scenario) bool { return sc.name == name })
		if i < 0 {
			return nil, fmt.Errorf("scenarios: there is no %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// round measures a scenario once, the subjects in turn.
func (c *comparison) round(ctx context.Context, j *job, round int) error {
	var failed []error
	for _, subject := range c.subjects {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !j.measures(subject, round) {
			continue
		}
		var got result
		err := c.timed(fmt.Sprintf("%s, round %d, %s", j.name, round+1, subject), func() (err error) {
			got, err = c.measure(ctx, &j.scenario, subject)
			return err
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s, %s, round %d: %w", j.name, subject, round+1, err))
			continue
		}
		for _, f := range j.figures {
			if _, ok := got[f.key]; !ok {
				return fmt.Errorf("%s: no measurement finds %s", j.name, f.key)
			}
			fmt.Fprintf(c.log, "%s, round %d, %s: %s %.*f %s\n", j.name, round+1, subject, f.title, f.digits, got[f.key], f.unit)
		}
		j.found[subject] = append(j.found[subject], got)
	}
	return errors.Join(failed...)
}

// programs are the binaries used; empty: built from this tree.
type programs struct{ weir, weirload string }

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
