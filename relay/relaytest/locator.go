package relaytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// Locator is a subscription with dynamic parameters, given as key, value, key, value. It panics on
// an odd number of them.
func Locator(name string, params ...string) *discovery.ResourceLocator {
	l := &discovery.ResourceLocator{Name: name}
	if len(params)%2 != 0 {
		panic("relaytest: a parameter without a value") // a test that is written wrong
	}
	for i := 0; i < len(params); i += 2 {
		if l.DynamicParameters == nil {
			l.DynamicParameters = map[string]string{}
		}
		l.DynamicParameters[params[i]] = params[i+1]
	}
	return l
}

// LocatorKey is one text for locators that mean the same subscription (DYN-2): the name and the
// sorted parameters, as in a{env=prod}. Asked counts by it.
func LocatorKey(l *discovery.ResourceLocator) string {
	var b strings.Builder
	b.WriteString(l.GetName() + "{")
	for i, key := range slices.Sorted(maps.Keys(l.GetDynamicParameters())) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(key + "=" + l.GetDynamicParameters()[key])
	}
	return b.String() + "}"
}

// locatorKeys are the keys of locators, sorted.
func locatorKeys(ls []*discovery.ResourceLocator) []string {
	keys := make([]string, len(ls))
	for i, l := range ls {
		keys[i] = LocatorKey(l)
	}
	slices.Sort(keys)
	return keys
}

// Constraints are short for the message.
type Constraints = discovery.DynamicParameterConstraints

// Is asks that the parameter is there and has the value.
func Is(key, value string) *Constraints {
	return single(&discovery.DynamicParameterConstraints_SingleConstraint{
		Key: key, ConstraintType: &discovery.DynamicParameterConstraints_SingleConstraint_Value{Value: value},
	})
}

// Has asks that the parameter is there.
func Has(key string) *Constraints {
	return single(&discovery.DynamicParameterConstraints_SingleConstraint{
		Key: key, ConstraintType: &discovery.DynamicParameterConstraints_SingleConstraint_Exists_{
			Exists: &discovery.DynamicParameterConstraints_SingleConstraint_Exists{},
		},
	})
}

func single(c *discovery.DynamicParameterConstraints_SingleConstraint) *Constraints {
	return &Constraints{Type: &discovery.DynamicParameterConstraints_Constraint{Constraint: c}}
}

// Not is the opposite of c.
func Not(c *Constraints) *Constraints {
	return &Constraints{Type: &discovery.DynamicParameterConstraints_NotConstraints{NotConstraints: c}}
}

// And holds if all of cs do.
func And(cs ...*Constraints) *Constraints {
	return &Constraints{Type: &discovery.DynamicParameterConstraints_AndConstraints{AndConstraints: list(cs)}}
}

// Or holds if one of cs does.
func Or(cs ...*Constraints) *Constraints {
	return &Constraints{Type: &discovery.DynamicParameterConstraints_OrConstraints{OrConstraints: list(cs)}}
}

func list(cs []*Constraints) *discovery.DynamicParameterConstraints_ConstraintList {
	return &discovery.DynamicParameterConstraints_ConstraintList{Constraints: cs}
}

// Matches evaluates constraints by the truth table of section 12, with nothing of the product's
// code: what a relay chooses is judged by it.
func Matches(c *Constraints, params map[string]string) bool {
	switch t := c.GetType().(type) {
	case *discovery.DynamicParameterConstraints_Constraint:
		value, there := params[t.Constraint.GetKey()]
		if want, ok := t.Constraint.GetConstraintType().(*discovery.DynamicParameterConstraints_SingleConstraint_Value); ok {
			return there && value == want.Value
		}
		return there
	case *discovery.DynamicParameterConstraints_OrConstraints:
		return slices.ContainsFunc(t.OrConstraints.GetConstraints(), func(c *Constraints) bool { return Matches(c, params) })
	case *discovery.DynamicParameterConstraints_AndConstraints:
		return !slices.ContainsFunc(t.AndConstraints.GetConstraints(), func(c *Constraints) bool { return !Matches(c, params) })
	case *discovery.DynamicParameterConstraints_NotConstraints:
		return !Matches(t.NotConstraints, params)
	}
	return true
}

// unconstrained reports whether constraints say nothing.
func unconstrained(c *Constraints) bool { return c == nil || proto.Size(c) == 0 }

// VariantKey is what State.Held and Origin.Remove know a variant by: the name alone if nothing
// constrains it.
func VariantKey(name string, c *Constraints) string {
	if unconstrained(c) {
		return name
	}
	return fmt.Sprintf("%s{%x}", name, Marshal(c))
}
