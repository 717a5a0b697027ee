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

// located is what a serving origin with TP2 knows of one stream-type. It reads locators alone, and
// answers by resource_name. Every subscribe is answered, even if the client has it already; what
// one change takes away and what it brings go in one response (DYN-10). Guarded by Origin.mu.
type located struct {
	hosts      bool                                  // of virtual hosts
	wishes     map[string]*discovery.ResourceLocator // by LocatorKey
	sent       map[string]*Resource                  // what the client has, by VariantKey
	owed       map[string]bool                       // keys of wishes to be answered even if nothing changed
	answer     bool                                  // a response is due even if empty
	unanswered string                                // nonce of the last response if neither ACKed nor NACKed
}

// locate applies a request to the stream's subscriptions.
func (s *Stream) locate(r *Request) {
	typeURL := r.TypeURL()
	sub := s.located[typeURL]
	if sub == nil {
		sub = &located{
			hosts: typeURL == VirtualHostType, wishes: map[string]*discovery.ResourceLocator{}, sent: map[string]*Resource{}, owed: map[string]bool{},
			answer: r.SotW != nil && fullState(typeURL),
		}
		s.located[typeURL] = sub
	}
	if r.Nonce() == sub.unanswered {
		sub.unanswered = ""
	}
	if r.SotW != nil {
		old := sub.wishes
		sub.wishes = map[string]*discovery.ResourceLocator{}
		for _, l := range r.SotW.ResourceLocators {
			sub.subscribe(l, old[LocatorKey(l)] != nil)
		}
	} else {
		for _, l := range r.Delta.ResourceLocatorsSubscribe {
			sub.subscribe(l, false)
		}
		for _, l := range r.Delta.ResourceLocatorsUnsubscribe {
			delete(sub.wishes, LocatorKey(l))
			delete(sub.owed, LocatorKey(l))
		}
	}
	// what no one wants any more is forgotten, so that asking again brings it again
	maps.DeleteFunc(sub.sent, func(_ string, r *Resource) bool { return !sub.wanted(r) })
}

// subscribe adds a locator, to be answered unless it was listed before.
func (sub *located) subscribe(l *discovery.ResourceLocator, before bool) {
	key := LocatorKey(l)
	sub.wishes[key] = l
	if !before {
		sub.owed[key] = true
		sub.answer = sub.answer || l.Name == "*"
	}
}

// selects reports whether a locator is for the resource.
func (sub *located) selects(l *discovery.ResourceLocator, r *Resource) bool {
	return Matches(r.Constraints, l.DynamicParameters) &&
		(l.Name == "*" || l.Name == r.Name || slices.Contains(r.Aliases, l.Name) || collects(l.Name, r.Name, sub.hosts))
}

// wanted reports whether any locator is for the resource.
func (sub *located) wanted(r *Resource) bool {
	for _, l := range sub.wishes {
		if sub.selects(l, r) {
			return true
		}
	}
	return false
}

// take returns what the client must hear, and counts it as sent. all is everything that it is to
// have: all variants that match, of which there is one for each map if the origin's author took
// care (DYN-9). What goes is named as it was sent (DYN-14).
func (sub *located) take(set map[string]*Resource, absence bool) (all, changed []*Resource, gone removal) {
	found := map[string]bool{} // by LocatorKey: there is something for it
	owed := map[string]bool{}  // by VariantKey: of what there is, whether to say it even if unchanged
	for key, l := range sub.wishes {
		for k, r := range set {
			if sub.selects(l, r) {
				found[key], owed[k] = true, owed[k] || sub.owed[key]
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(owed)) {
		r := *set[k]
		r.Located = true
		all = append(all, &r)
		if owed[k] || sub.sent[k] != set[k] {
			changed = append(changed, &r)
			sub.sent[k] = set[k]
		}
	}
	for _, k := range slices.Sorted(maps.Keys(sub.sent)) {
		if _, stays := owed[k]; !stays {
			gone.variants = append(gone.variants, VariantName(sub.sent[k].Name, sub.sent[k].Constraints))
			delete(sub.sent, k)
		}
	}
	for key := range sub.owed {
		if l := sub.wishes[key]; l != nil && l.Name != "*" && absence && !found[key] {
			gone.names = append(gone.names, l.Name)
		}
	}
	slices.Sort(gone.names)
	gone.names = slices.Compact(gone.names)
	clear(sub.owed)
	return all, changed, gone
}

func (s *Stream) answerLocated(typeURL string, sub *located) {
	board := &s.origin.board
	all, changed, gone := sub.take(board.types[typeURL], s.Dialect == Delta && !board.behaviour.NoAbsence)
	whole := fullState(typeURL)
	for _, l := range sub.wishes {
		whole = whole || l.Name == "*"
	}
	s.reply(typeURL, whole, sub.answer, all, changed, gone, &sub.unanswered)
	sub.answer = false
}
