package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// comparison is what the command was asked for, and what it needs for that.
type comparison struct {
	scenarios, subjects []string
	rounds              int
	programs            programs
	json                string
	from                []string
	profiles            profiles
	dir                 string    // for files of processes, and what is built
	log                 io.Writer // what is being done
}

// programs are the binaries to measure and to measure with; empty: built from this tree.
type programs struct{ weir, weirload string }

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
	fs.StringSliceVar(&c.scenarios, "scenarios", names, "which of them")
	fs.StringSliceVar(&c.subjects, "subjects", subjects, "which of them")
	fs.IntVar(&c.rounds, "rounds", 3, "how often each is measured")
	fs.StringVar(&c.json, "json", "", "file to write the figures of all runs to")
	fs.StringSliceVar(&c.from, "from", nil, "files that --json wrote, to make the table of instead of measuring")
	fs.StringVar((*string)(&c.profiles), "profile", "", "directory for CPU and heap profiles of weir, which then costs a little more")
	c.programs.addFlags(fs)
	return cmd
}

// run measures, and writes the table. A measurement that fails is missing in the table, and an error.
func (c *comparison) run(ctx context.Context, out io.Writer) error {
	var rep *report
	var err error
	if len(c.from) > 0 {
		rep, err = readReports(c.from)
	} else {
		rep, err = c.compare(ctx)
	}
	if rep == nil {
		return err
	}
	if c.json != "" {
		err = errors.Join(err, rep.write(c.json))
	}
	return errors.Join(err, rep.markdown(out))
}

func (c *comparison) compare(ctx context.Context) (*report, error) {
	chosen, err := c.choose()
	if err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(c.dir) }()
	if err := c.programs.build(ctx, c.dir); err != nil {
		return nil, err
	}
	rep := &report{Machine: thisMachine(), Rounds: c.rounds}
	var failed []error
	for i := range chosen {
		rows, err := c.scenario(ctx, &chosen[i])
		rep.Rows = append(rep.Rows, rows...)
		if failed = append(failed, err); ctx.Err() != nil {
			break
		}
	}
	return rep, errors.Join(failed...)
}

func (c *comparison) choose() ([]scenario, error) {
	if c.rounds < 1 {
		return nil, fmt.Errorf("rounds: %d is none", c.rounds)
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

// scenario measures one scenario in interleaved rounds.
func (c *comparison) scenario(ctx context.Context, sc *scenario) ([]row, error) {
	rounds := c.rounds
	if sc.rounds > 0 {
		rounds = sc.rounds
	}
	found := map[string][]result{} // by subject
	var failed []error
	for round := range rounds {
		for _, subject := range c.subjects {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if !sc.measures(subject, round) {
				continue
			}
			got, err := c.measure(ctx, sc, subject)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s, %s, round %d: %w", sc.name, subject, round+1, err))
				continue
			}
			found[subject] = append(found[subject], got)
			for _, f := range sc.figures {
				if _, ok := got[f.key]; !ok {
					return nil, fmt.Errorf("%s: no measurement finds %s", sc.name, f.key)
				}
				fmt.Fprintf(c.log, "%s, round %d, %s: %s %.*f %s\n", sc.name, round+1, subject, f.title, f.digits, got[f.key], f.unit)
			}
		}
	}
	if c.profiles != "" {
		failed = append(failed, c.profile(ctx, sc))
	}
	return rowsOf(sc, found), errors.Join(failed...)
}

// build makes the programs that were not given, of the tree that this module is in.
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

func (p *programs) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.weir, "weir", "", "weir's program; empty: built from this tree")
	fs.StringVar(&p.weirload, "weirload", "", "weirload's program; empty: built from this tree")
}
