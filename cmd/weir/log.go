package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/levels"
)

// allPackages stands for every package on the command line.
const allPackages = "all"

func logCommand() *cobra.Command {
	o, lasts := &operator{}, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "log [PACKAGE LEVEL]",
		Short: "Say what a running weir logs, package by package, or change it",
		Long: `Say what a running weir logs, package by package, or change it: PACKAGE is one of
the list, or all; LEVEL is debug, info, warn, error, or configured for what the
configuration says.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return errors.New("log takes PACKAGE and LEVEL, or nothing")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			known := [][]string{append([]string{allPackages}, levels.Packages...), append([]string{levels.Configured}, levels.Texts...)}
			if len(args) >= len(known) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return known[len(args)], cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.register(cmd)
	o.registerAll(cmd)
	cmd.Flags().DurationVar(&lasts, "for", 0, "go back to the configured level after this `time`; 0s: at the end of the process")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return o.levels(cmd)
		}
		asked := map[string]string{"package": args[0], "level": args[1]}
		if args[0] == allPackages {
			delete(asked, "package")
		}
		if cmd.Flags().Changed("for") {
			asked["for"] = lasts.String()
		}
		body, err := json.Marshal(asked)
		if err != nil {
			return err
		}
		o.body = string(body)
		return o.act(cmd, "/log")
	})
	return cmd
}

// levels prints what is logged, of one weir.
func (o *operator) levels(cmd *cobra.Command) error {
	if o.all != "" {
		return usageError{errors.New("--all is for a change")}
	}
	var of struct {
		Packages []levels.Status `json:"packages"`
	}
	if err := o.get(cmd.Context(), "/log", &of); err != nil {
		return err
	}
	return levelsTable(cmd.OutOrStdout(), of.Packages)
}

func levelsTable(w io.Writer, all []levels.Status) error {
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, "PACKAGE", "LEVEL", "CONFIGURED", "UNTIL")
	for _, s := range all {
		until := ""
		if s.Until != nil {
			until = fmt.Sprintf("%s, in %s", s.Until.Format(time.RFC3339), time.Until(*s.Until).Round(time.Second))
		}
		row(tw, s.Package, s.Level, s.Configured, until)
	}
	return tw.Flush()
}
