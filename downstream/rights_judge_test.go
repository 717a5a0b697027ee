package downstream

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay/xds"
)

// This file judges by the text of rules who may have what. It calls nothing of package authz, and
// reads patterns in another way (expression).

// claimant is a client as the rules see it: who it is by its connection, and what it claims.
type claimant struct {
	who, listener string
	fields        map[string]string // of the node: node.cluster, node.metadata.KEY
}

// bound is a rule with the parts of an identity put in.
type bound struct {
	*authz.Rule
	parts map[string]string
	set   map[string]string
}

// rulesFor are the rules for who the client is, in their order, once for each pattern that fits.
func rulesFor(rules []authz.Rule, c *claimant) (list []bound) {
	for i := range rules {
		r := &rules[i]
		if len(r.Listeners) > 0 && !slices.Contains(r.Listeners, c.listener) {
			continue
		}
		for _, pattern := range r.Who {
			x := expression(pattern, nil, true)
			found := x.FindStringSubmatch(c.who)
			if found == nil {
				continue
			}
			b := bound{r, map[string]string{}, map[string]string{}}
			for i, part := range x.SubexpNames() {
				b.parts[part] = found[i]
			}
			whole := true
			for field, value := range r.Set {
				for _, part := range regexp.MustCompile(`\{[a-z]+\}`).FindAllString(value, -1) {
					stands := b.parts[strings.Trim(part, "{}")]
					whole, value = whole && stands != "", strings.ReplaceAll(value, part, stands)
				}
				b.set[field] = value
			}
			if whole {
				list = append(list, b)
			}
		}
	}
	return list
}

// replaced are fields with what the rules set in them that are concerned.
func replaced(list []bound, fields map[string]string, prefix string, concerned func(bound) bool) map[string]string {
	out, done := maps.Clone(fields), map[string]bool{}
	if out == nil {
		out = map[string]string{}
	}
	for _, b := range list {
		for field, value := range b.set {
			if strings.HasPrefix(field, prefix) && concerned(b) && !done[field] {
				out[field], done[field] = value, true
			}
		}
	}
	return out
}

// holds reports whether what the rule claims and sets of fields with a prefix is so.
func (b *bound) holds(fields map[string]string, prefix string) bool {
	for field, patterns := range b.Claims {
		value, is := fields[field]
		if strings.HasPrefix(field, prefix) && !(is && slices.ContainsFunc(patterns, func(p string) bool { return expression(p, b.parts, false).MatchString(value) })) {
			return false
		}
	}
	for field, value := range b.set {
		if got, is := fields[field]; strings.HasPrefix(field, prefix) && (!is || got != value) {
			return false
		}
	}
	return true
}

// ruledNode are the fields of the client's node by the rules, and whether a rule fits it.
func ruledNode(rules []authz.Rule, c *claimant) (node map[string]string, fits bool) {
	list := rulesFor(rules, c)
	node = replaced(list, c.fields, "node.", func(bound) bool { return true })
	return node, slices.ContainsFunc(list, func(b bound) bool { return b.holds(node, "node.") })
}

// ruledParams are the parameters of the client's plain names at an origin that takes some, of which
// env is that of the node's metadata.
func ruledParams(rules []authz.Rule, c *claimant, origin, typeURL string) map[string]string {
	node, _ := ruledNode(rules, c)
	params := map[string]string{}
	if env := node["node.metadata.env"]; env != "" {
		params["parameters.env"] = env
	}
	return replaced(rulesFor(rules, c), params, "parameters.", func(b bound) bool {
		return (len(b.Origins) == 0 || slices.Contains(b.Origins, origin)) && (len(b.Types) == 0 || slices.Contains(b.Types, typeURL))
	})
}

// allowed reports whether a rule allows the client a name of an origin, with these parameters.
func allowed(rules []authz.Rule, c *claimant, origin, typeURL, name string, params map[string]string) bool {
	node, _ := ruledNode(rules, c)
	return slices.ContainsFunc(rulesFor(rules, c), func(b bound) bool {
		return b.holds(node, "node.") && b.holds(params, "parameters.") &&
			(len(b.Origins) == 0 || slices.Contains(b.Origins, origin)) && (len(b.Types) == 0 || slices.Contains(b.Types, typeURL)) &&
			(len(b.Names) == 0 || slices.ContainsFunc(b.Names, func(p string) bool { return expression(p, b.parts, false).MatchString(name) }))
	})
}

// markedBody is a body that says whose it is. marks finds such bodies in what is sent.
func markedBody(origin, typeURL, name, version string) string {
	return "<" + origin + " " + typeURL[strings.LastIndexByte(typeURL, '.')+1:] + " " + name + " " + version + ">"
}

var marks = regexp.MustCompile(`<(\w+) (\w+) ([^ <>]+) (\d+)>`)

// includes reports whether a subscription selects a name by the rules of the protocol.
func includes(typeURL, ask, name string) bool {
	prefix, glob := strings.CutSuffix(ask, "/*")
	within := strings.HasPrefix(name, prefix+"/") && !strings.Contains(name[len(prefix)+1:], "/")
	return ask == name || ask == xds.Wildcard || (glob || typeURL == vhd && !strings.Contains(ask, "/")) && within
}
