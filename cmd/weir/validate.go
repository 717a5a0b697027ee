package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/upstream/descriptors"
	"github.com/weir-xds/weir/upstream/file"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a configuration and print every problem and warning with its line",
		Long: `Check FILE, or weir.yaml, and the files that it names: what run refuses is an
error. To check a configuration for another machine, where those files are, give
--syntax-only.`,
		Args: arguments,
	}
	configFlag(cmd)
	syntax := cmd.Flags().Bool("syntax-only", false, "do not read the files that the configuration names")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		_, cfg, err := loadConfig(cmd, args)
		if err != nil {
			return err
		}
		if err := checkRooms(cfg); err != nil {
			printWarnings(cmd.ErrOrStderr(), cfg.Warnings())
			return err
		}
		var warnings []error
		if !*syntax {
			warnings, err = checkNamed(cfg)
		}
		for _, w := range cfg.Warnings() {
			warnings = append(warnings, w)
		}
		printWarnings(cmd.ErrOrStderr(), warnings)
		if err != nil {
			return err
		}
		lines := append([]string{"ok"}, exposures(cfg)...)
		for _, n := range cfg.KeyNotes() {
			lines = append(lines, n.Error())
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\n"))
		return err
	})
	return cmd
}

// printWarnings prints a line for each. As with errors, there is nobody left to tell if it fails.
func printWarnings[W error](w io.Writer, warnings []W) {
	for _, x := range warnings {
		_, _ = fmt.Fprintln(w, x)
	}
}

// checkNamed reads the files that a configuration names, as run does at the start.
func checkNamed(cfg *config.Config) (warnings []error, err error) {
	types, err := readTypes(cfg)
	files, broken := checkFiles(cfg, types)
	secrets, unusable := checkSecrets(cfg)
	return slices.Concat(files, secrets), errors.Join(err, broken, unusable)
}

// checkFiles reads file origins, and fallback files of others.
func checkFiles(cfg *config.Config, types *descriptors.Types) (warnings []error, err error) {
	var errs []error
	for i := range cfg.Origins {
		o, path := &cfg.Origins[i], fmt.Sprintf("origins[%d].files", i)
		files := o.Files
		if o.Fallback != nil {
			files, path = o.Fallback.Files, fmt.Sprintf("origins[%d].fallback.files", i)
		}
		if files == nil {
			continue
		}
		found, remarks, err := file.Check(file.Config{
			Name: o.Name, Path: files.Path, NameBytes: int(cfg.Limits.NameBytes), NameFields: types.NameFields(o.NameFields), Types: types, TP2: o.TP2,
			Fallback: o.Fallback != nil,
		})
		if err != nil {
			found = []error{err}
		}
		for _, f := range found {
			errs = append(errs, cfg.Problemf(path, "%v", f))
		}
		for _, r := range remarks {
			p := cfg.Problemf(path, "%v", r)
			p.Warning = true
			warnings = append(warnings, p)
		}
	}
	return warnings, errors.Join(errs...)
}
