package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help of commands: in groups, with examples, and the connection flags apart from the others.

// commandGroups are the groups of commands, in the order of the help.
var commandGroups = []*cobra.Group{
	{ID: "serve", Title: "Serve:"},
	{ID: "inspect", Title: "Inspect:"},
	{ID: "act", Title: "Act on a running weir:"},
	{ID: "configure", Title: "Configure:"},
}

// rootHelp is what the help begins with.
const rootHelp = `weir is a caching xDS relay between control planes and their clients.

Start it with weir run. Commands that inspect a running weir, or act on it, use its
admin port: see the connection flags.`

// helpWidth is the longest line of the help.
const helpWidth = 100

// placeholder is the annotation of a flag that has the name of its value.
const placeholder = "weir_placeholder"

// tidy takes the backquotes from the descriptions of all flags, since shells show them as they are
// when they complete a flag. Values that are not files complete no files. Arguments are checked by
// the Use line unless the command says otherwise.
func tidy(cmd *cobra.Command) {
	if cmd.Args == nil {
		cmd.Args = arguments
	}
	each := func(f *pflag.Flag) {
		name, usage := pflag.UnquoteUsage(f)
		f.Usage = usage
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[placeholder] = []string{name}
		if _, completed := cmd.GetFlagCompletionFunc(f.Name); !completed && name != "file" && name != "directory" {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // fails only for flags that do not exist
		}
	}
	cmd.LocalFlags().VisitAll(each)
	if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		tidy(sub)
	}
}

// named is a flag's value whose type is the word that stands for it in the help.
type named struct {
	pflag.Value
	name string
}

// Type implements pflag.Value.
func (n named) Type() string { return n.name }

// flagLines are the lines of flags in the help; "" if there are none.
func flagLines(all *pflag.FlagSet, which func(*pflag.Flag) bool) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.VisitAll(func(f *pflag.Flag) {
		if !which(f) {
			return
		}
		x := *f
		if name := f.Annotations[placeholder]; len(name) > 0 && name[0] != "" {
			x.Value = named{f.Value, name[0]}
			if x.NoOptDefVal != "" {
				x.Name, x.Value, x.NoOptDefVal = x.Name+"[="+name[0]+"]", named{f.Value, ""}, ""
			}
			if x.DefValue == "0s" || x.DefValue == "[]" {
				x.DefValue = ""
			}
		}
		shown.AddFlag(&x)
	})
	return strings.TrimRight(shown.FlagUsagesWrapped(helpWidth), "\n")
}

// usage prints how a command is used.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " <command> [flags]"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	section := func(title, lines string) {
		if lines != "" {
			fmt.Fprintf(&b, "\n%s\n%s\n", title, lines)
		}
	}
	section("Examples:", strings.TrimRight(cmd.Example, "\n"))
	for _, g := range cmd.Groups() {
		section(g.Title, commandLines(cmd, g.ID))
	}
	title := "Commands:"
	if len(cmd.Groups()) > 0 {
		title = "Other:"
	}
	section(title, commandLines(cmd, ""))
	section("Flags:", flagLines(cmd.LocalFlags(), func(f *pflag.Flag) bool { return !isConnection(f) }))
	switch {
	case !cmd.HasParent():
		section("Connection flags, for commands that talk to a running weir:", flagLines(cmd.PersistentFlags(), isConnection))
	case talks(cmd):
		section("Connection flags:", flagLines(cmd.InheritedFlags(), isConnection))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nSee %s <command> --help for more about a command.\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// commandLines are the lines of the subcommands of one group in the help.
func commandLines(of *cobra.Command, group string) string {
	var lines []string
	for _, cmd := range of.Commands() {
		if cmd.GroupID == group && (cmd.IsAvailableCommand() || cmd.Name() == "help") {
			lines = append(lines, fmt.Sprintf("  %-*s %s", max(cmd.NamePadding(), 11), cmd.Name(), cmd.Short))
		}
	}
	return strings.Join(lines, "\n")
}

// family makes a command that has subcommands and does nothing by itself.
func family(use, short, example string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: subcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(subs...)
	return cmd
}

// subcommand is the error of a command line without a subcommand, or with one that does not exist.
// The root without one shows its help.
func subcommand(cmd *cobra.Command, args []string) error {
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	switch {
	case len(args) > 0:
		return usagef(cmd, "unknown command %q%s", args[0], didYouMean("", args[0], known, "; see "+cmd.CommandPath()+" --help"))
	case cmd.HasParent():
		return usagef(cmd, "COMMAND is missing; it is one of %s", strings.Join(known, ", "))
	}
	return nil
}

// ownDefaults gives the commands that cobra adds the errors of ours.
func ownDefaults(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Short = "Print a completion script for a shell"
			cmd.Long = "Print a completion script. Origins, clients, groups and types complete from the running weir."
			cmd.Example = "  source <(weir completion bash)\n  weir completion zsh > \"${fpath[1]}/_weir\""
			cmd.Args, cmd.RunE = subcommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			for _, shell := range cmd.Commands() {
				shell.Args = arguments
			}
		case "help":
			cmd.Run, cmd.RunE = nil, func(cmd *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 {
					return subcommand(of, rest)
				}
				if err != nil {
					return err
				}
				of.InitDefaultHelpFlag()
				return of.Help()
			}
		}
	}
}
