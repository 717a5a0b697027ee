package downstream

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// In tests a locator, and a variant, is written as NAME{KEY=VALUE;KEY=VALUE}. In constraints KEY
// stands for one that exists, and !KEY for one that does not.

// cutLocator reads NAME{WORDS}.
func cutLocator(word string) (name string, words []string, is bool) {
	name, rest, is := strings.Cut(word, "{")
	if rest = strings.TrimSuffix(rest, "}"); rest != "" {
		words = strings.Split(rest, ";")
	}
	return name, words, is
}

// cutBody reads NAME=BODY and NAME{WORDS}=BODY.
func cutBody(word string) (name, body string) {
	if i := strings.Index(word, "}="); i >= 0 {
		return word[:i+1], word[i+2:]
	}
	if strings.HasSuffix(word, "}") {
		return word, ""
	}
	name, body, _ = strings.Cut(word, "=")
	return name, body
}

func locator(word string) *discoveryv3.ResourceLocator {
	name, words, _ := cutLocator(word)
	l := &discoveryv3.ResourceLocator{Name: name}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if l.DynamicParameters == nil {
			l.DynamicParameters = map[string]string{}
		}
		l.DynamicParameters[key] = value
	}
	return l
}

// divide tells locators from names.
func divide(words []string) (names []string, locators []*discoveryv3.ResourceLocator) {
	for _, w := range words {
		if strings.Contains(w, "{") {
			locators = append(locators, locator(w))
		} else {
			names = append(names, w)
		}
	}
	return names, locators
}

// resourceName is a name with constraints: all of the words.
func resourceName(word string) *discoveryv3.ResourceName {
	name, words, _ := cutLocator(word)
	n := &discoveryv3.ResourceName{Name: name}
	var all []*discoveryv3.DynamicParameterConstraints
	for _, w := range words {
		w, not := strings.CutPrefix(w, "!")
		key, value, equals := strings.Cut(w, "=")
		one := &discoveryv3.DynamicParameterConstraints_SingleConstraint{
			Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{
				Exists: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists{},
			},
		}
		if equals {
			one.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: value}
		}
		c := &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: one}}
		if not {
			c = &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_NotConstraints{NotConstraints: c}}
		}
		all = append(all, c)
	}
	if len(all) > 0 {
		n.DynamicParameterConstraints = &discoveryv3.DynamicParameterConstraints{
			Type: &discoveryv3.DynamicParameterConstraints_AndConstraints{
				AndConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: all},
			},
		}
	}
	return n
}

// dividedNames tells plain names from those with constraints.
func dividedNames(words []string) (plain []string, located []*discoveryv3.ResourceName) {
	for _, w := range words {
		switch absent, is := strings.CutPrefix(w, "?"); {
		case is:
			name, _, _ := cutLocator(absent)
			if !slices.Contains(plain, name) {
				plain = append(plain, name)
			}
		case strings.Contains(w, "{"):
			located = append(located, resourceName(w))
		default:
			plain = append(plain, w)
		}
	}
	return plain, located
}

// located is the word for what has constraints.
func located(n *discoveryv3.ResourceName) string {
	set, err := constraints.Compile(n.GetDynamicParameterConstraints())
	if err != nil {
		return n.GetName() + "{" + err.Error() + "}"
	}
	key, and := strings.CutPrefix(set.Key(), "and(")
	if and {
		key = strings.TrimSuffix(key, ")")
	}
	key = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(key, `"`, ""), ",", ";"), "?", "")
	return n.GetName() + "{" + key + "}"
}

// locatedWord is the word for a resource in located form.
func locatedWord(tb testing.TB, r *discoveryv3.Resource) string {
	tb.Helper()
	if r.Name != "" {
		tb.Fatalf("name %q beside resource_name %v (DYN-16)", r.Name, r.ResourceName)
	}
	if r.Resource == nil {
		return "?" + located(r.ResourceName)
	}
	_, body, _ := strings.Cut(nameAndBody(r.Resource), "=")
	return located(r.ResourceName) + "=" + body
}

// askedWord is a name as an origin is asked it.
func askedWord(n relay.Name) string {
	if n.Params.Len() == 0 && n.Name != xds.Wildcard {
		return n.Name
	}
	var words []string
	for key, value := range n.Params.All() {
		words = append(words, key+"="+value)
	}
	return n.Name + "{" + strings.Join(words, ";") + "}"
}

// matching are the variants of a name, or of all for `*`, that a locator selects.
func (c *control) matching(of map[string]string, asked string) (variants []string) {
	name, words, _ := cutLocator(asked)
	params := constraints.NewParams(locator("x{" + strings.Join(words, ";") + "}").DynamicParameters)
	for key := range of {
		base, _, _ := cutLocator(key)
		prefix, glob := strings.CutSuffix(name, "/*")
		member, in := strings.CutPrefix(base, prefix+"/")
		// a namespace (ALIAS-6)
		glob = glob || !strings.Contains(name, "/")
		selected := base == name || name == xds.Wildcard && !c.hidden(base) || glob && in && !strings.Contains(member, "/")
		if strings.HasPrefix(key, "?") || !selected {
			continue
		}
		set, err := constraints.Compile(resourceName(key).DynamicParameterConstraints)
		if err != nil {
			c.tb.Fatal(err)
		}
		if set.Match(params) {
			variants = append(variants, key)
		}
	}
	return variants
}

// hasVariants reports whether variants decides what an origin says of something it was asked.
func (c *control) hasVariants(typeURL string, ty *askedType, asked string) bool {
	if strings.Contains(asked, "{") {
		return true
	}
	if !c.varied {
		return false
	}
	for _, of := range []map[string]string{c.state[typeURL], ty.known} {
		for key := range of {
			if strings.HasPrefix(key, asked+"{") {
				return true
			}
		}
	}
	return false
}

// variants are what there is to say of what has, or may have, constraints: ?NAME{..} is what does
// not exist for those parameters.
func (c *control) variants(typeURL string, ty *askedType) map[string]bool {
	names := map[string]bool{}
	asked := make([]string, 0, len(ty.names))
	for name := range ty.names {
		if c.hasVariants(typeURL, ty, name) {
			asked = append(asked, name)
		}
	}
	for _, word := range asked {
		there := c.matching(c.state[typeURL], word)
		for _, v := range append(there, c.matching(ty.known, word)...) {
			names[v] = true
		}
		if base, _, _ := cutLocator(word); base != xds.Wildcard {
			if len(there) == 0 {
				names["?"+word] = true
			} else {
				delete(ty.known, "?"+word)
			}
		}
	}
	return names
}

// repeatVariants has all be told again that a locator may select.
func (ty *askedType) repeatVariants(n relay.Name) {
	delete(ty.known, "?"+askedWord(n))
	for key := range ty.known {
		if base, _, is := cutLocator(key); !strings.HasPrefix(key, "?") && (is && base == n.Name || n.Name == xds.Wildcard) {
			ty.known[key] = "told, and to be told again"
		}
	}
}
