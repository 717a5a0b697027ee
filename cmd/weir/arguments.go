package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// arguments demands what the command's Use line names: NAME is needed, [NAME] may be left out,
// and [NAME...] may come any number of times. The error names what is missing, or too much.
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
	switch path := cmd.CommandPath(); {
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

// configFlag says which file a command is about, for those that have [FILE] in their Use line.
func configFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("config", "c", "weir.yaml", "the configuration `file`; FILE is the same")
	_ = cmd.MarkFlagFilename("config", yamlFiles...) // fails only for flags that do not exist
	cmd.ValidArgsFunction = completeFile
}

// loadConfig reads the file that the argument or the flag names.
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

// outputFlag says in which form a command prints.
func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", formats[0], "`table, yaml or json`")
	complete(cmd, "output", formats...)
}

// formats are the forms of output, the default first.
var formats = []string{"table", "yaml", "json"}

// complete offers the values of a flag to a shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	offer := cobra.FixedCompletions(slices.Clone(values), cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic(err) // a flag that does not exist: our own bug, which any command line meets
	}
}

// yamlFiles are the endings of configuration files.
var yamlFiles = []string{"yaml", "yml"}

// completeFile offers configuration files, for one argument.
func completeFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return yamlFiles, cobra.ShellCompDirectiveFilterFileExt
}

// completeType offers types, for the first argument.
func completeType(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return config.ShortNames(), cobra.ShellCompDirectiveNoFileComp
}
