package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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
		Args:  arguments,
	}
	configFlag(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		_, cfg, err := loadConfig(cmd, args)
		if err != nil {
			return err
		}
		if err := checkRooms(cfg); err != nil {
			printWarnings(cmd.ErrOrStderr(), cfg.Warnings())
			return err
		}
		types, warnings, err := checkTypes(cfg)
		files, broken := checkFiles(cfg, types)
		secrets, unusable := checkSecrets(cfg)
		warnings, err = slices.Concat(warnings, files, secrets), errors.Join(err, broken, unusable)
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

// checkFiles reads file origins, and fallback files of others, as run does at the start. A missing
// path is only a warning: it may exist where weir will run.
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
		if errors.Is(err, fs.ErrNotExist) {
			remarks = []error{fmt.Errorf("%w; weir does not start without it", err)}
		} else if err != nil {
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
