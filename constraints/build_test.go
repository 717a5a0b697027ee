package constraints

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Short names for the messages, so that tables can be read.
type (
	cons = discoveryv3.DynamicParameterConstraints
	one  = discoveryv3.DynamicParameterConstraints_SingleConstraint
)

func unset() *cons { return &cons{} }

func eq(key, value string) *cons {
	return wrap(&one{Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: value}})
}

func has(key string) *cons {
	return wrap(&one{Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{
		Exists: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists{},
	}})
}

func neither(key string) *cons { return wrap(&one{Key: key}) }

func wrap(c *one) *cons {
	return &cons{Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: c}}
}

func not(c *cons) *cons {
	return &cons{Type: &discoveryv3.DynamicParameterConstraints_NotConstraints{NotConstraints: c}}
}

func or(cs ...*cons) *cons {
	return &cons{Type: &discoveryv3.DynamicParameterConstraints_OrConstraints{
		OrConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: cs},
	}}
}

func and(cs ...*cons) *cons {
	return &cons{Type: &discoveryv3.DynamicParameterConstraints_AndConstraints{
		AndConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: cs},
	}}
}

// nest puts c below n negations.
func nest(c *cons, n int) *cons {
	for range n {
		c = not(c)
	}
	return c
}

// naive evaluates the message as the truth table reads, sharing nothing with the compiled form.
func naive(c *cons, p map[string]string) bool {
	switch t := c.GetType().(type) {
	case *discoveryv3.DynamicParameterConstraints_Constraint:
		value, present := p[t.Constraint.GetKey()]
		return present && (t.Constraint.GetExists() != nil || value == t.Constraint.GetValue())
	case *discoveryv3.DynamicParameterConstraints_OrConstraints:
		return slices.ContainsFunc(t.OrConstraints.GetConstraints(), func(kid *cons) bool { return naive(kid, p) })
	case *discoveryv3.DynamicParameterConstraints_AndConstraints:
		return !slices.ContainsFunc(t.AndConstraints.GetConstraints(), func(kid *cons) bool { return !naive(kid, p) })
	case *discoveryv3.DynamicParameterConstraints_NotConstraints:
		return !naive(t.NotConstraints, p)
	default:
		return true
	}
}

func isNot(c *cons) bool {
	_, ok := c.GetType().(*discoveryv3.DynamicParameterConstraints_NotConstraints)
	return ok
}
