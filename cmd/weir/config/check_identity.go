package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// identities reports origins that cannot be told whose a group is, and warns of identities that no
// listener can tell.
func (k checker) identities(c *Config) {
	for i := range c.Origins {
		o, path := &c.Origins[i], fmt.Sprintf("origins[%d]", i)
		term := slices.Index(o.GroupBy, "identity")
		at := fmt.Sprintf("%s.group_by[%d]", path, term)
		if term < 0 {
			at = path + ".identity_to"
		}
		if o.IdentityTo != "" && !k.identityTo(path, o, c.Listeners) || o.Files != nil || term < 0 && o.IdentityTo == "" {
			continue
		}
		if !slices.ContainsFunc(c.Listeners, tellsIdentities) {
			k.warnf(at, "all clients will be anonymous%s: no listener has tls.client_ca or tls.spiffe, and none is a Unix socket", oneGroup(term))
		}
	}
}

// oneGroup is what follows for groups by identity.
func oneGroup(term int) string {
	if term < 0 {
		return ""
	}
	return ", and one group"
}

// tellsIdentities reports whether clients of a listener are more than anonymous.
func tellsIdentities(l Listener) bool {
	return l.TLS.AsksClients() || strings.HasPrefix(l.Address, "unix:")
}

// identityTo reports whether an origin can be told identities.
func (k checker) identityTo(path string, o *Origin, listeners []Listener) (ok bool) {
	at, key := path+".identity_to", o.IdentityKey()
	dedicated := o.Secrets == SecretsDedicated || slices.ContainsFunc(listeners, func(l Listener) bool { return len(l.Dedicated) > 0 })
	switch {
	case key == "":
		k.addf(at, "%q is not metadata.KEY", o.IdentityTo)
	case o.Files != nil:
		k.addf(at, "is for origins of grpc or rest: files are told nothing")
	case !slices.Contains(o.GroupBy, "identity") && !dedicated:
		k.addf(at, "needs identity in %s.group_by, or dedicated streams (listeners[].dedicated, or secrets: dedicated): "+
			"a stream that several identities share is of none of them", path)
	default:
		ok = true
	}
	if i := slices.Index(o.GroupBy, o.IdentityTo); i >= 0 && key != "" {
		k.addf(fmt.Sprintf("%s.group_by[%d]", path, i), "%q has the identity (%s), whatever a client says there; write identity", o.IdentityTo, at)
		ok = false
	}
	for _, parameter := range slices.Sorted(maps.Keys(o.DynamicParameters.FromNode)) {
		field := o.DynamicParameters.FromNode[parameter]
		if key != "" && (field == o.IdentityTo || strings.HasPrefix(field, o.IdentityTo+".")) {
			k.addf(join(path+".dynamic_parameters.from_node", parameter), "%q has the identity (%s), whatever a client says there", field, at)
			ok = false
		}
	}
	return ok
}

// IdentityKey is the KEY of IdentityTo; "": none.
func (o *Origin) IdentityKey() string {
	key, _ := strings.CutPrefix(o.IdentityTo, "metadata.")
	if key == o.IdentityTo {
		return ""
	}
	return key
}
