package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weirload/mtls"
)

// comparison has the options of the command.
type comparison struct {
	study
	scenarios, subjects []string
	rounds              int           // 0: only profiles
	within              time.Duration // see newCompareCommand; 0: however long it takes
	profiles            profiles
	profileFor          time.Duration
	tls                 mtls.Files // of scenarios with TLS
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
		if sc.mode != reporting { // it takes minutes, and has a table of its own
			names = append(names, sc.name)
		}
	}
	cmd := c.command(&cobra.Command{Use: "compare", Short: "Run every scenario against every subject, and print the table"}, c.run)
	fs := cmd.Flags()
	fs.StringSliceVar(&c.scenarios, "scenarios", names, "which of them; there is also "+reportsName)
	fs.StringSliceVar(&c.subjects, "subjects", subjects, "which of them")
	fs.IntVar(&c.rounds, "rounds", 3, "how often each is measured, if there is time; 0: not at all, only profiles are taken")
	fs.DurationVar(&c.within, "within", 12*time.Minute, "after the first round, what would not end within this time is left out; 0: nothing is")
	fs.StringVar((*string)(&c.profiles), "profile", "", "directory for CPU and heap profiles of weir and the yardstick, for which each scenario is run once more")
	fs.DurationVar(&c.profileFor, "profile-for", 4*time.Second, "how long CPU profiles last")
	return cmd
}

func (c *comparison) run(ctx context.Context, out io.Writer) error {
	return c.study.run(ctx, out, readReports, c.compare)
}

func (c *comparison) compare(ctx context.Context) (findings, error) {
	chosen, err := c.choose()
	if err != nil {
		return nil, err
	}
	if c.tls, err = mtls.Make(c.dir); err != nil {
		return nil, err
	}
	rep := &report{Machine: thisMachine(), Rounds: c.rounds}
	if rep.Rows, err = c.measureAll(ctx, chosen); c.rounds == 0 {
		return nil, err
	}
	return rep, err
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
		if c.rounds > 0 {
			rows = append(rows, rowsOf(&chosen[i], jobs[i].found)...)
		}
		if c.profiles != "" {
			failed = append(failed, c.profile(ctx, &chosen[i]))
		}
	}
	return rows, errors.Join(failed...)
}

func (c *comparison) choose() ([]scenario, error) {
	switch {
	case c.rounds < 0:
		return nil, fmt.Errorf("rounds: %d is less than none", c.rounds)
	case c.rounds == 0 && c.profiles == "":
		return nil, errors.New("rounds: without any there are only profiles, and no directory is given for them")
	case c.profiles != "" && (c.profileFor < time.Second || c.profileFor > longestProfile):
		return nil, fmt.Errorf("profile-for: %v is not between 1s and %v", c.profileFor, longestProfile)
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
