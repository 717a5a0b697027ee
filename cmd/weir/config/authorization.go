package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/downstream/authz"
)

// Rule allows identities to subscribe. deploy/docs/authorization.md explains it.
type Rule struct {
	// Who are patterns of identities; one must match: `spiffe://`, `uri:`, `dns:`, `subject:`,
	// `uid:` or `anonymous`.
	//
	// {part} captures one segment or part of one, * matches anything in one segment, and ** at the
	// end matches one or more segments. Required.
	Who []string `yaml:"who" required:"true"`
	// Listeners are addresses of listeners where the rule applies, as written there. Default:
	// empty, all.
	Listeners []string `yaml:"listeners"`
	// Origins are names of origins that the rule allows. Default: empty, all.
	Origins []string `yaml:"origins"`
	// Types are allowed types, short names or full type URLs.
	//
	// Full type URLs after Parse. Default: empty, all.
	Types []string `yaml:"types"`
	// Names are patterns of allowed resource names.
	//
	// {part} is the captured part of the identity, * matches anything but slashes, and ** at the
	// end matches anything. xdstp names are matched in canonical form. Default: empty, all.
	Names []string `yaml:"names"`
	// Claims are values that the client must send: `node.id`, `node.cluster`, `node.metadata.KEY`
	// or `parameters.KEY`.
	//
	// A field has one pattern, or a list of which one must match. Default: none.
	Claims map[string]Patterns `yaml:"claims"`
	// Set are values that overwrite these fields, whatever the client sends.
	//
	// Values may have parts, but no stars. The first rule for a client that names a field sets it;
	// a rule that sets it differently does not apply. Default: none.
	Set map[string]string `yaml:"set"`
}

// Patterns are one pattern, or a list of them.
type Patterns []string

// Rules returns the rules of authorization, compiled; nil: there are none.
func (c *Config) Rules() *authz.Rules { return c.rules }

// authorization compiles the rules, and reports what is wrong with them, and those that never
// match.
func (k checker) authorization(c *Config) {
	if len(c.Authorization) == 0 {
		return
	}
	rules := make([]authz.Rule, len(c.Authorization))
	for i := range c.Authorization {
		r, path := &c.Authorization[i], fmt.Sprintf("authorization[%d]", i)
		rules[i] = authz.Rule{
			Who: r.Who, Listeners: r.Listeners, Origins: r.Origins, Types: r.Types, Names: r.Names,
			Claims: make(map[string][]string, len(r.Claims)), Set: r.Set,
		}
		for field, patterns := range r.Claims {
			rules[i].Claims[field] = patterns
		}
		k.types(path+".types", r.Types)
		k.known(path+".listeners", "listener's address", r.Listeners, addresses(c))
		k.known(path+".origins", "origin", r.Origins, names(c))
		k.unseen(path, r, c.Listeners)
		k.unasked(path, r, c.Origins)
	}
	var problems []authz.Problem
	c.rules, problems = authz.Compile(rules)
	for _, p := range problems {
		at := k.pointOf(p.Rule, p.Path)
		if p.Warning {
			k.warnf(at, "%s", p.Text)
		} else {
			k.addf(at, "%s", p.Text)
		}
	}
}

// RulePoint makes a problem at a point of a rule, as package authz writes its path; "": the rule.
func (c *Config) RulePoint(rule int, path, text string) *Problem {
	src := c.report()
	return src.problem(src.pointOf(rule, path), text)
}

// pointOf returns the path of a point of a rule. A pattern of claims has an index only if it was
// written in a list.
func (r *report) pointOf(rule int, path string) string {
	at := fmt.Sprintf("authorization[%d]", rule)
	list, field, _ := strings.Cut(path, ".")
	switch {
	case path == "":
		return at
	case field == "":
		return at + "." + path
	}
	key, index := field, ""
	if begin := strings.LastIndexByte(field, '['); begin >= 0 && strings.HasSuffix(field, "]") {
		key, index = field[:begin], field[begin:]
	}
	at = join(at+"."+list, key)
	if _, many := r.at[at+index]; many {
		at += index
	}
	return at
}

// known reports names that the file has nothing for, and repeated ones.
func (k checker) known(path, what string, given, known []string) {
	for i, name := range given {
		at := fmt.Sprintf("%s[%d]", path, i)
		if slices.Contains(given[:i], name) {
			k.addf(at, "%q is listed twice", name)
		} else if near, ok := Nearest(name, known); !slices.Contains(known, name) && ok {
			k.addf(at, "%q is no %s; did you mean %q?", name, what, near)
		} else if !slices.Contains(known, name) {
			k.addf(at, "%q is no %s of this file", name, what)
		}
	}
}

func addresses(c *Config) (out []string) {
	for i := range c.Listeners {
		out = append(out, c.Listeners[i].Address)
	}
	return out
}

func names(c *Config) (out []string) {
	for i := range c.Origins {
		out = append(out, c.Origins[i].Name)
	}
	return out
}

// unseen warns of identities that no client has at the rule's listeners.
func (k checker) unseen(path string, r *Rule, listeners []Listener) {
	k.shown(path+".who", r.Who, slices.DeleteFunc(slices.Clone(listeners), func(l Listener) bool {
		return len(r.Listeners) > 0 && !slices.Contains(r.Listeners, l.Address)
	}), "the rule is for")
}

// shown warns of patterns that no client of the listeners fits. Of no listeners at all it says
// nothing: that is reported. which says, after "that", which listeners these are.
func (k checker) shown(path string, patterns []string, listeners []Listener, which string) {
	if len(listeners) == 0 {
		return
	}
	var certificate, user, stranger bool // that clients of some listener show
	for i := range listeners {
		l := &listeners[i]
		certificate = certificate || l.TLS.AsksClients()
		stranger = stranger || !l.TLS.AsksClients()
		user = user || !l.TLS.AsksClients() && strings.HasPrefix(l.Address, "unix:")
	}
	for i, pattern := range patterns {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch scheme, _, _ := strings.Cut(pattern, ":"); {
		case slices.Contains([]string{"spiffe", "uri", "dns", "subject"}, scheme) && !certificate:
			k.warnf(at, "%q never matches: no listener that %s has tls.client_ca or tls.spiffe, without which no client shows a certificate", pattern, which)
		case scheme == "uid" && !user:
			k.warnf(at, "%q never matches: no listener that %s is a Unix socket without tls.client_ca and tls.spiffe", pattern, which)
		case pattern == "anonymous" && !stranger:
			k.warnf(at, "%q never matches: each listener that %s has tls.client_ca or tls.spiffe, so that every client shows a certificate", pattern, which)
		}
	}
}

// unasked warns of parameters where no origin of the rule is asked with any: there a client has
// none. It reports those that are set where the node is presented with what the client says of
// them.
func (k checker) unasked(path string, r *Rule, origins []Origin) {
	for i := range origins {
		o := &origins[i]
		if !o.TP2 || len(r.Origins) > 0 && !slices.Contains(r.Origins, o.Name) || !slices.Contains(o.GroupBy, dynamicParameters) {
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(r.Set)) {
			if strings.HasPrefix(field, "parameters.") {
				k.addf(join(path+".set", field), "origin %q has %s in group_by, so it receives the client's own values and not these", o.Name, dynamicParameters)
			}
		}
	}
	for i := range origins {
		if o := &origins[i]; o.TP2 && (len(r.Origins) == 0 || slices.Contains(r.Origins, o.Name)) {
			return
		}
	}
	for list, fields := range map[string][]string{"claims": slices.Sorted(maps.Keys(r.Claims)), "set": slices.Sorted(maps.Keys(r.Set))} {
		for _, field := range fields {
			if strings.HasPrefix(field, "parameters.") {
				k.warnf(join(path+"."+list, field), "never matches: no origin that the rule is for has tp2, without which no parameter reaches it")
			}
		}
	}
}
