package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

func authzTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Ask the rules what a file asks, and check the answers that it expects",
		Long: `Ask the rules of a configuration the questions of FILE, and compare the answers
with those that it expects. The exit code is 1 if one differs.

The configuration is the file that FILE names as config, or weir.yaml beside it,
unless --config is given.`,
		Args:              arguments,
		ValidArgsFunction: completeFile,
	}
	f := cmd.Flags()
	f.StringP("config", "c", "", "the configuration `file`; without it, the one that FILE names")
	_ = cmd.MarkFlagFilename("config", yamlFiles...) // fails only for flags that do not exist
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		all, err := config.LoadQuestions(args[0])
		if err != nil {
			return err
		}
		if given, _ := f.GetString("config"); given != "" {
			all.Config = given
		}
		cfg, err := config.Load(all.Config)
		if err != nil {
			return err
		}
		var errs []error
		for i := range all.Questions {
			errs = append(errs, ask(cfg, all, i))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok: %d questions\n", len(all.Questions))
		return err
	})
	return cmd
}

// ask returns an error if the rules answer a question otherwise than it expects.
func ask(cfg *config.Config, all *config.Questions, i int) error {
	e, err := explain(cfg, all.Questions[i])
	if err != nil {
		return all.Problemf(i, "%v", err)
	}
	want, got := all.Questions[i].Answer, e.answer()
	if got == want {
		return nil
	}
	why := "there are no rules"
	switch {
	case len(e.Points) > 0:
		why = e.cfg.RulePoint(e.Rule, e.Points[0].Path, e.Points[0].Text).Error()
	case e.Rule >= 0:
		why = e.cfg.RulePoint(e.Rule, "", "allows it").Error()
	}
	return all.Problemf(i, "is %s, and expected to be %s: %s", got, want, why)
}
