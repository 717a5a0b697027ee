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
	rounds              int // 0: only profiles
	profiles            profiles
	profileFor          time.Duration
	secure              bool
	tls                 mtls.Files // if secure
}

func newCompareCommand() *cobra.Command {
	c := &comparison{}
	var names []string
	for _, sc := range scenarios() {
		names = append(names, sc.name)
	}
	cmd := c.command(&cobra.Command{Use: "compare", Short: "Run every scenario against every subject, and print the table"}, c.run)
	fs := cmd.Flags()
	fs.StringSliceVar(&c.scenarios, "scenarios", names, "which of them")
	fs.StringSliceVar(&c.subjects, "subjects", subjects, "which of them")
	fs.IntVar(&c.rounds, "rounds", 3, "how often each is measured; 0: not at all, only profiles are taken")
	fs.StringVar((*string)(&c.profiles), "profile", "", "directory for CPU and heap profiles of weir and the yardstick, for which each scenario is run once more")
	fs.BoolVar(&c.secure, "tls", false, "clients and every subject speak TLS 1.3, with certificates on both sides")
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
	if c.secure {
		if c.tls, err = mtls.Make(c.dir); err != nil {
			return nil, err
		}
	}
	rep := &report{Machine: thisMachine(), Rounds: c.rounds}
	rep.Machine.TLS = c.secure
	var failed []error
	for i := range chosen {
		rows, err := c.scenario(ctx, &chosen[i])
		rep.Rows = append(rep.Rows, rows...)
		if failed = append(failed, err); ctx.Err() != nil {
			break
		}
	}
	if c.rounds == 0 {
		return nil, errors.Join(failed...)
	}
	return rep, errors.Join(failed...)
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
		if c.secure && all[i].mode == reporting {
			continue // whose reporters speak plain text
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// scenario measures one scenario in interleaved rounds.
func (c *comparison) scenario(ctx context.Context, sc *scenario) ([]row, error) {
	rounds := c.rounds
	if sc.rounds > 0 && rounds > 0 {
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
			var got result
			err := c.timed(fmt.Sprintf("%s, round %d, %s", sc.name, round+1, subject), func() (err error) {
				got, err = c.measure(ctx, sc, subject)
				return err
			})
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
	if rounds == 0 {
		return nil, errors.Join(failed...)
	}
	return rowsOf(sc, found), errors.Join(failed...)
}
