package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
)

// What a shell completes from the running weir: origins, clients, groups, names and states. Without
// an answer it completes nothing, and prints no error.

const (
	// completionWait bounds the wait of shell completion for a weir that does not answer.
	completionWait = time.Second
	// completionMost is how many values are offered at most.
	completionMost = "200"
)

// completer completes an argument, or the value of a flag.
type completer = cobra.CompletionFunc

// completes decodes the answer of the running weir, or of the first replica that answers.
func (o *operator) completes(cmd *cobra.Command, path string, into any) bool {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
	defer cancel()
	asked := []*operator{o}
	if o.all != "" {
		asked, _ = o.replicas(ctx) // of none nothing is known
	}
	return slices.ContainsFunc(asked, func(o *operator) bool { return o.get(ctx, path, into) == nil })
}

// completeFlags adds completers of flags.
func completeFlags(cmd *cobra.Command, flags map[string]completer) {
	for name, complete := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(err) // our own bug: the flag does not exist
		}
	}
}

// completeArgs completes each argument by its own completer.
func completeArgs(each ...completer) completer {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(each) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return each[len(args)](cmd, args, word)
	}
}

// anyOrigin completes an origin.
func (o *operator) anyOrigin(cmd *cobra.Command, _ []string, _ string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
	var known struct {
		Origins []admin.Origin `json:"origins"`
	}
	o.completes(cmd, "/origins", &known)
	for i := range known.Origins {
		all = append(all, oneLine(known.Origins[i].Name))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// originOfLine is the origin that the command line names, as an argument or by --origin.
func originOfLine(cmd *cobra.Command, args []string) string {
	if f := cmd.Flags().Lookup("origin"); f != nil {
		return f.Value.String()
	}
	if len(args) > 0 {
		return args[0]
	}
	return ""
}

// completeGroup completes a group, of the origin that is given if one is.
func (o *operator) completeGroup(cmd *cobra.Command, args []string, _ string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
	var known struct {
		Groups []admin.Group `json:"groups"`
	}
	if o.completes(cmd, "/groups?origin="+url.QueryEscape(originOfLine(cmd, args)), &known) {
		for i := range known.Groups {
			g := &known.Groups[i]
			all = append(all, cobra.CompletionWithDesc(oneLine(admin.ShortKey(g.Key)), oneLine(g.NodeID+" "+g.Cluster)))
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeNode completes the node id of a client.
func (o *operator) completeNode(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.completeClients(cmd, "node", word, func(c *admin.Client) (string, string) { return c.NodeID, c.NodeCluster })
}

// completeIdentity completes the identity of a client.
func (o *operator) completeIdentity(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.completeClients(cmd, "identity", word, func(c *admin.Client) (string, string) { return c.Identity, "" })
}

// completeClients completes what clients have of a filter of /clients, once each.
func (o *operator) completeClients(cmd *cobra.Command, filter, word string, of func(*admin.Client) (value, description string)) (all []cobra.Completion, _ cobra.ShellCompDirective) {
	var known clientList
	found := map[string]string{}
	if o.completes(cmd, "/clients?"+url.Values{filter: {word + "*"}, "limit": {completionMost}}.Encode(), &known) {
		for i := range known.Clients {
			if value, description := of(&known.Clients[i]); value != "" {
				found[oneLine(value)] = oneLine(description)
			}
		}
	}
	for _, value := range slices.Sorted(maps.Keys(found)) {
		all = append(all, cobra.CompletionWithDesc(value, found[value]))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeName completes the name of a resource that weir has. The type is that of the argument
// before it, or of --type.
func (o *operator) completeName(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	q := url.Values{"match": {word + "*"}, "limit": {completionMost}}
	if f := cmd.Flags().Lookup("type"); f != nil {
		q.Set("type", f.Value.String())
		q.Set("origin", originOfLine(cmd, args))
	} else {
		q.Set("type", args[len(args)-1])
	}
	var known struct {
		Resources []struct {
			Name string `json:"name"`
		} `json:"resources"`
	}
	found := map[string]bool{}
	if o.completes(cmd, "/resources?"+q.Encode(), &known) {
		for i := range known.Resources {
			found[oneLine(known.Resources[i].Name)] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), cobra.ShellCompDirectiveNoFileComp
}

// completeState completes the state of an origin to which its groups can return.
func (o *operator) completeState(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, seen := []cobra.Completion{toLastGood}, map[string]bool{}
	var known stateList
	if o.completes(cmd, "/history?"+url.Values{"states": {"true"}, "origin": {originOfLine(cmd, args)}, "limit": {completionMost}}.Encode(), &known) {
		for i := range known.States {
			x := &known.States[i]
			if id := admin.ShortState(x.ID); x.Whole && !x.Present && !seen[id] {
				seen[id] = true
				all = append(all, cobra.CompletionWithDesc(id, x.At.UTC().Format(time.RFC3339)))
			}
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// anyType completes a type.
func anyType(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return config.ShortNames(), cobra.ShellCompDirectiveNoFileComp
}

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
		return usagef(cmd, "%s is missing; see %s --help", missing, path)
	case len(args) < len(needed):
		return usagef(cmd, "%s is missing; write %s", needed[len(args)], strings.TrimSuffix(cmd.UseLine(), " [flags]"))
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

// configFlag adds --config to commands with [FILE] in their Use line.
func configFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("config", "c", "weir.yaml", "configuration `file`; the same as FILE")
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
	choiceFlag(cmd, format, "output", "o", "output `format`: table, wide (a table that is not cut to the terminal), yaml, json",
		append(slices.Clone(formats), uncut)...)
}

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
