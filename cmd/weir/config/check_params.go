package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// dynamicParameters is the term of group_by that presents the parameters which clients state.
const dynamicParameters = "dynamic_parameters"

// parameters reports parameters for an origin that does not understand them (DYN-17), and fields
// that cannot be mapped (RELAY-64, RELAY-65).
func (k checker) parameters(path string, o *Origin) {
	p, at := &o.DynamicParameters, path+".dynamic_parameters"
	k.choice(at+".otherwise", p.Otherwise)
	if o.TP2 && p.Otherwise == OtherwiseIgnored {
		k.addf(at+".otherwise", "is for origins that do not understand parameters, and tp2: true says that this one does")
	}
	if o.GRPC != nil && o.GRPC.V2 && o.TP2 {
		k.addf(path+".tp2", "needs locators, which v2 does not have (V2-3): grpc.v2 is true")
	}
	if o.Share && !o.TP2 {
		k.addf(path+".share", "needs tp2: true, without which the origin is asked without parameters")
	}
	if i := slices.Index(o.GroupBy, dynamicParameters); o.TP2 && i >= 0 && o.Files == nil {
		k.warnf(fmt.Sprintf("%s.group_by[%d]", path, i), "clients of different parameters will be groups of their own, with their own streams "+
			"to the origin, although tp2: true has it asked by parameters within one; leave it out")
	}
	if len(p.FromNode) == 0 {
		return
	}
	if !o.TP2 {
		k.addf(at+".from_node", "needs tp2: true, without which the origin is sent no parameters (DYN-17)")
	}
	mapped := slices.Compact(slices.Sorted(maps.Values(p.FromNode)))
	for _, parameter := range slices.Sorted(maps.Keys(p.FromNode)) {
		k.mapped(join(at+".from_node", parameter), parameter, p.FromNode[parameter], mapped)
	}
	for i, term := range o.GroupBy {
		if strings.HasPrefix(term, "metadata.") && slices.Contains(mapped, term) {
			k.addf(fmt.Sprintf("%s.group_by[%d]", path, i), "%q is mapped to a parameter by dynamic_parameters.from_node, and what is mapped is no "+
				"part of a group's key; leave out one of the two (RELAY-64)", term)
		}
	}
}

// mapped checks one parameter. A field that contains another mapped one is a struct in nodes with
// both, and a struct cannot be a parameter.
func (k checker) mapped(at, parameter, field string, all []string) {
	keys, ok := strings.CutPrefix(field, "metadata.")
	switch {
	case parameter == "":
		k.addf(at, "the parameter has no name")
	case !ok || slices.Contains(strings.Split(keys, "."), ""):
		k.addf(at, "%q is not metadata.PATH, with dots between the keys of structs", field)
	}
	for _, other := range all {
		if ok && strings.HasPrefix(other, field+".") {
			k.addf(at, "%q would be a struct, since %q is mapped as well, and only text, truth values and numbers can be (RELAY-65)", field, other)
			return
		}
	}
}
