package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// arguments checks args against the command's Use line: NAME is required, [NAME] is optional, and
// [NAME...] may occur any number of times. The error names what is missing or too much.
func arguments(cmd *cobra.Command, args []string) error {
	var needed, most []string
	open := false
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "-") {
			break
		}
		name, optional := strings.CutPrefix(strings.TrimSuffix(word, "]"), "[")
		name, repeated := strings.CutSuffix(name, "...")
		open = open || repeated
		most = append(most, name)
		if !optional {
			needed = append(needed, name)
		}
	}
	missing := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			missing = "--" + f.Name
		}
	})
	switch path := cmd.CommandPath(); {
	case len(args) >= len(needed) && missing != "":
		return usageError{fmt.Errorf("%s: %s is missing; see %s --help", path, missing, path)}
	case len(args) < len(needed):
		return usageError{fmt.Errorf("%s: %s is missing; write %s", path, needed[len(args)], cmd.UseLine())}
	case open || len(args) <= len(most):
		return nil
	case len(most) == 0:
		return usageError{fmt.Errorf("%s takes no arguments; %q is too much", path, args[0])}
	case len(needed) == len(most):
		return usageError{fmt.Errorf("%s takes %s and nothing else; %q is too much", path, strings.Join(most, " "), args[len(most)])}
	default:
		return usageError{fmt.Errorf("%s takes at most %s; %q is too much", path, strings.Join(most, " "), args[len(most)])}
	}
}

// flagError names the command, and the flag that was meant.
func flagError(cmd *cobra.Command, err error) error {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return usageError{fmt.Errorf("%s: %w", cmd.CommandPath(), err)}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	text := fmt.Sprintf("%s: unknown flag --%s", cmd.CommandPath(), unknown.GetSpecifiedName())
	if near, ok := config.Nearest(unknown.GetSpecifiedName(), known); ok {
		return usageError{fmt.Errorf("%s; did you mean --%s?", text, near)}
	}
	return usageError{fmt.Errorf("%s; see %s --help", text, cmd.CommandPath())}
}

// configFlag adds --config to commands with [FILE] in their Use line.
func configFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("config", "c", "weir.yaml", "the configuration `file`; FILE is the same")
	_ = cmd.MarkFlagFilename("config", yamlFiles...) // fails only for flags that do not exist
	cmd.ValidArgsFunction = completeFile
}

// loadConfig reads the file named by the argument or the flag.
func loadConfig(cmd *cobra.Command, args []string) (path string, _ *config.Config, _ error) {
	flag := cmd.Flags().Lookup("config")
	path = flag.Value.String()
	if len(args) > 0 {
		if flag.Changed && args[0] != path {
			return "", nil, usageError{fmt.Errorf("%q and --config %q are two files; name one", args[0], path)}
		}
		path = args[0]
	}
	cfg, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) && len(args) == 0 && !flag.Changed {
		err = fmt.Errorf("%w; name another file, or begin one with: weir config example > %s", err, path)
	}
	return path, cfg, err
}

// outputFlag adds the flag for the output format.
func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", formats[0], "`table, yaml or json`")
	complete(cmd, "output", formats...)
}

// formats are the output formats, the default first.
var formats = []string{"table", "yaml", "json"}

// complete sets the completions of a flag's value.
func complete(cmd *cobra.Command, flag string, values ...string) {
	offer := cobra.FixedCompletions(slices.Clone(values), cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic(err) // our own bug: the flag does not exist
	}
}

// yamlFiles are the suffixes of configuration files.
var yamlFiles = []string{"yaml", "yml"}

// completeFile completes one configuration file.
func completeFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return yamlFiles, cobra.ShellCompDirectiveFilterFileExt
}

// completeType completes a type as the first argument.
func completeType(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return config.ShortNames(), cobra.ShellCompDirectiveNoFileComp
}
