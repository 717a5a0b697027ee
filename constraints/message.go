package constraints

import discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

// Message returns a constraint set in the form of the wire and of snapshots; nil for none. It is
// canonical, and compiles to an equal set.
func (s *Set) Message() *discoveryv3.DynamicParameterConstraints {
	if s == nil {
		return nil
	}
	return s.root.message()
}

func (n *node) message() *discoveryv3.DynamicParameterConstraints {
	c := &discoveryv3.DynamicParameterConstraints{}
	switch n.op {
	case opAll:
		c.Type = &discoveryv3.DynamicParameterConstraints_AndConstraints{AndConstraints: n.list()}
	case opAny:
		c.Type = &discoveryv3.DynamicParameterConstraints_OrConstraints{OrConstraints: n.list()}
	case opNot:
		c.Type = &discoveryv3.DynamicParameterConstraints_NotConstraints{NotConstraints: n.kids[0].message()}
	default:
		one := &discoveryv3.DynamicParameterConstraints_SingleConstraint{Key: n.key}
		if n.op == opEquals {
			one.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: n.value}
		} else {
			one.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{
				Exists: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists{},
			}
		}
		c.Type = &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: one}
	}
	return c
}

func (n *node) list() *discoveryv3.DynamicParameterConstraints_ConstraintList {
	l := &discoveryv3.DynamicParameterConstraints_ConstraintList{}
	for i := range n.kids {
		l.Constraints = append(l.Constraints, n.kids[i].message())
	}
	return l
}
