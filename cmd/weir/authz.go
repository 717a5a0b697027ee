package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
)

func authzCommand() *cobra.Command {
	return family("authz", "Explain and test authorization rules, and list denials",
		"  weir authz explain --identity spiffe://corp/web cds backend\n  weir authz denials", authzExplainCommand(), authzTestCommand(), authzDenialsCommand())
}

func authzExplainCommand() *cobra.Command {
	q := config.Question{}
	var metadata, params []string
	cmd := &cobra.Command{
		Use:   "explain TYPE NAME",
		Short: "Show which rule allows a client a resource, or why none does",
		Long: `Show which rule of the configuration allows a client a resource. If none does, show
the rule that comes nearest and the points on which it fails. The exit code is 0 if
the client may have the resource, and 1 if not.

TYPE is cds, eds, lds, rds, srds, vhds, sds, rtds, ecds, leds or a full type URL.
NAME is the name of a resource. For '*', an xdstp glob or the namespace of a virtual
host, the output lists the patterns that the client may have.`,
		Example: `  weir authz explain -c weir.yaml --identity spiffe://corp/web cds backend
  weir authz explain --identity uid:1000 --node-cluster edge eds '*'`,
		ValidArgsFunction: completeArgs(anyType),
	}
	f := cmd.Flags()
	f.StringP("config", "c", "weir.yaml", "configuration `file`")
	_ = cmd.MarkFlagFilename("config", yamlFiles...) // fails only for flags that do not exist
	f.StringVar(&q.Identity, "identity", "", "`identity` of the client, as weir clients shows it")
	f.StringVar(&q.Listener, "listener", "", "`address` of the listener (default: the first)")
	f.StringVar(&q.Origin, "origin", "", "`name` of the origin (default: by the authority in NAME, or by the listener)")
	f.StringVar(&q.Node.ID, "node-id", "", "node `id` of the client")
	f.StringVar(&q.Node.Cluster, "node-cluster", "", "node `cluster` of the client")
	f.StringArrayVar(&metadata, "metadata", nil, "string field of its node metadata, `KEY=VALUE`; may be repeated")
	f.StringArrayVar(&params, "param", nil, "dynamic parameter of its request, `KEY=VALUE`; may be repeated")
	_ = cmd.MarkFlagRequired("identity") // the same
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		var err error
		if q.Type, err = typeOf(args[0]); err != nil {
			return err
		}
		q.Name = args[1]
		if q.Node.Metadata, err = pairs("metadata", metadata); err != nil {
			return err
		}
		if q.Parameters, err = pairs("param", params); err != nil {
			return err
		}
		_, cfg, err := loadConfig(cmd, nil)
		if err != nil {
			return err
		}
		e, err := explain(cfg, q)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), e.text()); err != nil {
			return err
		}
		if e.answer() != config.AnswerAllowed {
			return fmt.Errorf("%s: %s %q to %s", e.answer(), metrics.ShortName(q.Type), q.Name, q.Identity)
		}
		return nil
	})
	return cmd
}

// explanation is the answer of a configuration's rules to a question.
type explanation struct {
	authz.Answer
	cfg      *config.Config
	question authz.Question
}

// explain asks the rules of a configuration.
func explain(cfg *config.Config, q config.Question) (*explanation, error) {
	name, err := xds.CanonicalName(q.Name)
	if err != nil {
		return nil, fmt.Errorf("%q %w", q.Name, err)
	}
	l, err := listenerOf(cfg, q.Listener)
	if err != nil {
		return nil, err
	}
	o, err := originOf(cfg, l, q.Origin, name)
	if err != nil {
		return nil, err
	}
	asked := authz.Question{
		Identity: q.Identity, Listener: l.Address, Origin: o.Name, TypeURL: q.Type, Name: name, Part: standsForMany(q.Type, name),
	}
	if o.Secrets == config.SecretsByIdentity && xds.IsSecret(q.Type) {
		asked.Own = o.MixesIdentities() || q.Identity == "anonymous"
	}
	rules := cmp.Or(cfg.Rules(), &authz.Rules{})
	if asked.Said, err = said(rules, asked, q, o); err != nil {
		return nil, err
	}
	return &explanation{rules.Explain(asked), cfg, asked}, nil
}

// listenerOf returns the listener with an address; "": the first.
func listenerOf(cfg *config.Config, address string) (*config.Listener, error) {
	for i := range cfg.Listeners {
		if l := &cfg.Listeners[i]; address == "" || l.Address == address {
			return l, nil
		}
	}
	return nil, fmt.Errorf("the configuration has no listener %q", address)
}

// originOf returns the origin that is asked for a name at a listener: the named one, or that of the
// name's authority, or that of the listener, or the default.
func originOf(cfg *config.Config, l *config.Listener, named, name string) (*config.Origin, error) {
	if named != "" {
		if o := cfg.OriginNamed(named); o != nil {
			return o, nil
		}
		return nil, fmt.Errorf("the configuration has no origin %q", named)
	}
	if u, err := xds.ParseURN(name); err == nil {
		for i := range cfg.Origins {
			if slices.Contains(cfg.Origins[i].Authorities, u.Authority) {
				return &cfg.Origins[i], nil
			}
		}
		return nil, fmt.Errorf("no origin has the authority %q of %q", u.Authority, name)
	}
	if o := cfg.OriginNamed(l.Origin); o != nil {
		return o, nil
	}
	return &cfg.Origins[slices.IndexFunc(cfg.Origins, func(o config.Origin) bool { return o.Default })], nil
}

// standsForMany reports whether a name is a wildcard, a glob or a namespace of virtual hosts.
func standsForMany(typeURL, name string) bool {
	if u, err := xds.ParseURN(name); err == nil {
		return u.Glob()
	}
	return name == xds.Wildcard || xds.IsVirtualHost(typeURL) && !strings.Contains(name, "/")
}

// said returns the fields as the client says them. Parameters that it does not name are those that
// the origin takes from the node, after what the rules set in it.
func said(rules *authz.Rules, asked authz.Question, q config.Question, o *config.Origin) (authz.Fields, error) {
	fields := map[string]string{}
	for field, value := range map[string]string{"node.id": q.Node.ID, "node.cluster": q.Node.Cluster} {
		if value != "" {
			fields[field] = value
		}
	}
	for key, value := range q.Node.Metadata {
		fields["node.metadata."+key] = value
	}
	params := q.Parameters
	switch {
	case o.TP2 && len(params) == 0:
		params = map[string]string{}
		n := &corev3.Node{}
		for key, value := range q.Node.Metadata {
			node.Put(n, "metadata."+key, value)
		}
		for _, s := range rules.For(asked.Identity, asked.Listener).SetNode() {
			node.Put(n, strings.TrimPrefix(s.Field, "node."), s.Value)
		}
		maps.Insert(params, node.Rules{Mapped: o.DynamicParameters.FromNode}.Params(n, q.Type).All())
	case !o.TP2 && len(params) > 0 && o.DynamicParameters.Otherwise == config.OtherwiseRefuse:
		return nil, fmt.Errorf("origin %s has no tp2, so a name that is asked with parameters is refused, whatever the rules say", o.Name)
	case !o.TP2:
		params = nil
	}
	for key, value := range params {
		fields["parameters."+key] = value
	}
	return func(field string) (string, bool) { value, ok := fields[field]; return value, ok }, nil
}

// answer is the word for the answer in a file of questions.
func (e *explanation) answer() string {
	switch {
	case e.Allowed:
		return config.AnswerAllowed
	case e.Fits:
		return config.AnswerDenied
	}
	return config.AnswerEnded
}

// text explains the answer to people, in a few lines.
func (e *explanation) text() string {
	var b strings.Builder
	if e.Rule < 0 {
		fmt.Fprintf(&b, "%s: there are no rules\n", e.answer())
		return b.String()
	}
	at := func(rule int, path, text string) string { return e.cfg.RulePoint(rule, path, text).Error() }
	switch e.answer() {
	case config.AnswerAllowed:
		fmt.Fprintln(&b, at(e.Rule, "", "allows it"))
	case config.AnswerDenied:
		fmt.Fprintln(&b, at(e.Rule, "", "is nearest, and does not allow it"))
	default:
		fmt.Fprintln(&b, at(e.Rule, "", "is nearest; no rule fits what the client is and says of its node, so its stream ends"))
	}
	for _, p := range e.Points {
		fmt.Fprintln(&b, at(e.Rule, p.Path, p.Text))
	}
	for i, s := range e.Set {
		fmt.Fprintln(&b, at(e.SetBy[i], "set."+s.Field, fmt.Sprintf("sets it to %q", s.Value)))
	}
	if e.question.Part && e.Allowed {
		what := "all"
		if e.Names != nil {
			what = strings.Join(e.Names, " ")
		}
		fmt.Fprintf(&b, "of %q the client gets what fits: %s\n", e.question.Name, what)
	}
	fmt.Fprintf(&b, "asked at listener %s, of origin %s\n", e.question.Listener, e.question.Origin)
	return b.String()
}

func authzTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Test authorization rules against the answers that a file expects",
		Long: `Ask the rules of a configuration the questions in FILE, and compare the answers with
those that FILE expects. The exit code is 1 if one differs.

The configuration is the file that FILE names as config, or weir.yaml beside it,
unless --config is set.`,
		Example: `  weir authz test rules-test.yaml
  weir authz test rules-test.yaml -c /etc/weir/weir.yaml`,
		ValidArgsFunction: completeFile,
	}
	f := cmd.Flags()
	f.StringP("config", "c", "", "configuration `file` (default: the one that FILE names)")
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
