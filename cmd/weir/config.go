package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/configdump"
	"github.com/weir-xds/weir/cmd/weir/csds"
	"github.com/weir-xds/weir/deploy/examples"
)

func configCommand() *cobra.Command {
	return family("config", "Print a sample configuration, its schema, the effective one, or what a client has",
		"  weir config example > weir.yaml\n  weir config show weir.yaml\n  weir config of web-7f9c", exampleCommand(), schemaCommand(), showCommand(), configOfCommand())
}

func exampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "Print a configuration with every key, its default and an explanation",
		Example: "  weir config example > weir.yaml",
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(examples.Full)
			return err
		}),
	}
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON schema of the configuration, for editors",
		Long: `Print a JSON schema of the configuration, for editors: each key with its effect and
its default. weir validate finds more problems than a schema can.`,
		Example: "  weir config schema > weir.schema.json",
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema())
			return err
		}),
	}
}

func showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show [FILE]",
		Short:   "Print the effective configuration: with variables and defaults, secrets masked",
		Example: "  weir config show /etc/weir/weir.yaml",
	}
	configFlag(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		_, cfg, err := loadConfig(cmd, args)
		if err != nil {
			return err
		}
		text, err := cfg.YAML()
		if err == nil {
			_, err = cmd.OutOrStdout().Write(text)
		}
		return err
	})
	return cmd
}

func configOfCommand() *cobra.Command {
	o, x, output, differences := &operator{}, &configOf{}, "", false
	cmd := &cobra.Command{
		Use:   "of NODE",
		Short: "Print what one client has, as Envoy's config dump, and what its origin has now",
		Long: `Print the resources that the client with the node id NODE has from weir, in the form
of Envoy's own config dump (GET /config_dump): an envoy.admin.v3.ConfigDump as JSON.
Each resource that differs from the origin's present one has a line on stderr. With
--diff only these lines are printed, on stdout.

Sensitive fields are blanked. Secrets have a name and no contents. -o table lists
names, states and versions. If clients of several clusters have the same node id,
choose one with --cluster.`,
		Example: `  weir config of web-7f9c | jq '.configs[] | select(."@type" | contains("Clusters"))'
  weir config of web-7f9c --diff`,
		ValidArgsFunction: completeArgs(o.completeNode),
	}
	o.registerAll(cmd)
	choiceFlag(cmd, &output, "output", "o", "output `format`: json, yaml, table, wide", "json", "yaml", "table", uncut)
	cmd.Flags().StringVar(&x.cluster, "cluster", "", "the client of this `cluster`, if clients of several have the node id")
	cmd.Flags().BoolVar(&differences, "diff", false, "print only the differences from the origin, a line for each resource")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if differences && cmd.Flags().Changed("output") {
			return usageError{errors.New("--diff prints lines, and --output is for the dump")}
		}
		var err error
		if x, err = o.configOf(cmd.Context(), *x, args[0]); err != nil {
			return err
		}
		lines := x.differences()
		if differences {
			if len(lines) == 0 {
				lines = []string{"the client has what its origin has"}
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\n"))
			return err
		}
		for _, line := range append(x.notes, lines...) {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), line) // as with errors
		}
		dump, err := configdump.Of(x.client)
		if err != nil {
			return err
		}
		text, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(dump)
		if err != nil {
			return err
		}
		return shower(output, func(w io.Writer, _ []byte) error { return x.table(w) })(cmd.OutOrStdout(), text)
	})
	return cmd
}

// configOf is what is known of one client.
type configOf struct {
	cluster string // of its node; "": any

	client *statusv3.ClientConfig
	// origin has what its origins have, by type and name.
	origin map[resourceKey]*configdump.Item
	// types are those of which the origins are asked for something on behalf of its groups.
	types map[string]bool
	notes []string
	waits []string // why it has not got something
}

// resourceKey identifies a resource of a client.
type resourceKey struct{ typeURL, name string }

// configOf looks a client up at one weir, or with --all at the replica that has it.
func (o *operator) configOf(ctx context.Context, asked configOf, node string) (*configOf, error) {
	if o.all == "" {
		return &asked, asked.ask(ctx, o, node)
	}
	all, err := askAll(ctx, o, func(ctx context.Context, r *operator) (*configOf, error) {
		x := configOf{cluster: asked.cluster}
		return &x, x.ask(ctx, r, node)
	})
	if err != nil {
		return nil, err
	}
	var found []*configOf
	var replicas, errs []string
	for i := range all {
		if all[i].err == nil {
			found, replicas = append(found, all[i].said), append(replicas, all[i].replica)
		} else {
			errs = append(errs, all[i].failure())
		}
	}
	switch len(found) {
	case 0:
		return nil, errors.New(strings.Join(distinct(errs), "\n"))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("clients of %d replicas have the node id %q; choose one: --admin %s", len(found), node, strings.Join(replicas, ", --admin "))
}

// ask looks the client up.
func (x *configOf) ask(ctx context.Context, o *operator, node string) error {
	members, err := x.members(ctx, o, node)
	if err != nil {
		return err
	}
	ids, err := groupIDs(ctx, o, members)
	if err != nil {
		return err
	}
	var all statusv3.ClientStatusResponse
	if err := o.clientStatus(ctx, append(ids, node), &all); err != nil {
		return err
	}
	x.origin, x.types = map[resourceKey]*configdump.Item{}, map[string]bool{}
	for _, c := range all.Config {
		scope := c.GetClientScope()
		switch {
		case scope == "" && c.GetNode().GetId() == node && (x.cluster == "" || c.GetNode().GetCluster() == x.cluster):
			x.client = c
		case scope != "" && slices.ContainsFunc(members, func(m membership) bool { return m.is(scope) }):
			for _, it := range c.GetGenericXdsConfigs() {
				x.origin[resourceKey{it.GetTypeUrl(), it.GetName()}] = it
				x.types[it.GetTypeUrl()] = true
			}
		}
	}
	if x.client == nil {
		return fmt.Errorf("the client %q has just disconnected", node)
	}
	var why admin.Explanation
	if err := o.get(ctx, "/explain?"+url.Values{"node": {node}}.Encode(), &why); err != nil {
		return err
	}
	x.waits = waitsOf(&why)
	return nil
}

// clientStatus returns the client status of nodes, by their ids.
func (o *operator) clientStatus(ctx context.Context, ids []string, into *statusv3.ClientStatusResponse) error {
	req := &statusv3.ClientStatusRequest{}
	for _, id := range ids {
		exact := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: id}}
		req.NodeMatchers = append(req.NodeMatchers, &matcherv3.NodeMatcher{NodeId: exact})
	}
	text, err := protojson.Marshal(req)
	if err != nil {
		return err
	}
	asks := *o
	asks.body = string(text)
	body, err := asks.order(ctx, csds.Path)
	if err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, into); err != nil {
		return notUnderstood(err)
	}
	return nil
}

// table lists the resources of the client.
func (x *configOf) table(w io.Writer) error {
	if len(x.client.GetGenericXdsConfigs()) == 0 {
		_, err := fmt.Fprintln(w, "the client has asked for no resource")
		return err
	}
	return x.rows(newTable(w))
}
