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
		k.addf(at, "is for origins of grpc or rest: an origin of files receives no node")
	case !slices.Contains(o.GroupBy, "identity") && !dedicated:
		k.addf(at, "needs identity in %s.group_by, or dedicated streams (listeners[].dedicated, or secrets: dedicated): a shared stream has no single identity", path)
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

// Checks of who would be given secrets.

// secrets reports secrets that would be asked for in plaintext (RELAY-77).
func (k checker) secrets(path string, o *Origin) {
	if o.Secrets == SecretsRefuse || o.GRPC == nil || o.GRPC.TLS != nil {
		return
	}
	for i, address := range o.GRPC.Addresses {
		if !isLocal(address) {
			k.addf(fmt.Sprintf("%s.grpc.addresses[%d]", path, i), "%q is neither loopback nor a Unix socket: with secrets: %s it needs "+
				"grpc.tls, or secrets would travel in plain text (RELAY-77)", address, o.Secrets)
		}
	}
}

// secretsHere warns of a listener whose clients will not get the secrets that an origin has
// enabled.
func (k checker) secretsHere(path string, l *Listener, origins []Origin) {
	i := slices.IndexFunc(origins, func(o Origin) bool { return o.Secrets == SecretsDedicated })
	switch {
	case i < 0 || isLocal(l.Address):
		i = slices.IndexFunc(origins, func(o Origin) bool { return o.Secrets == SecretsByIdentity })
		if i >= 0 && !tellsIdentities(*l) {
			k.warnf(path+".address", "clients will be refused the secrets of origin %q here: the listener has no tls.client_ca, and is no "+
				"Unix socket, so none has an identity (RELAY-74)", origins[i].Name)
		}
	case !l.TLS.Enabled():
		k.warnf(path+".address", "clients of other hosts will be refused the secrets of origin %q here: the listener has no tls (RELAY-77)",
			origins[i].Name)
	case l.TLS.ClientCA == "":
		k.warnf(path+".tls", "clients of other hosts will be refused the secrets of origin %q here: without client_ca none has an "+
			"authenticated identity (RELAY-74)", origins[i].Name)
	}
}

// secretsByIdentity reports origins whose secrets nobody may have for want of rules, and warns of
// those of which no rule allows any.
func (k checker) secretsByIdentity(c *Config) {
	for i := range c.Origins {
		o, at := &c.Origins[i], fmt.Sprintf("origins[%d].secrets", i)
		switch {
		case o.Secrets != SecretsByIdentity:
		case len(c.Authorization) == 0:
			k.addf(at, "by_identity needs authorization: without rules no client could get a secret")
		case slices.ContainsFunc(c.Authorization, func(r Rule) bool { return r.allowsSecrets(o) }):
		case o.MixesIdentities():
			k.warnf(at, "no client will get a secret: no rule allows any by a pattern of names with a part of the identity, or to one identity alone, and group_by has no identity")
		default:
			k.warnf(at, "no client will get a secret: no rule allows any")
		}
	}
}

// allowsSecrets reports whether a rule may allow secrets by identity of an origin to somebody.
func (r *Rule) allowsSecrets(o *Origin) bool {
	secret := func(typeURL string) bool { return strings.HasSuffix(typeURL, ".Secret") } // in either spelling
	if len(r.Origins) > 0 && !slices.Contains(r.Origins, o.Name) || len(r.Types) > 0 && !slices.ContainsFunc(r.Types, secret) {
		return false
	}
	who := slices.DeleteFunc(slices.Clone(r.Who), func(who string) bool { return who == "anonymous" })
	return len(who) > 0 && (!o.MixesIdentities() ||
		slices.ContainsFunc(r.Names, func(name string) bool { return strings.Contains(name, "{") }) ||
		slices.ContainsFunc(who, func(who string) bool { return !strings.ContainsAny(who, "*{") }))
}

// MixesIdentities reports whether clients of several identities may be in one group of the origin.
func (o *Origin) MixesIdentities() bool {
	return o.Files != nil || !slices.Contains(o.GroupBy, "identity")
}

// Checks of what clients may be given, and how much of an origin they share.

// groupsEqualClients warns of group keys that leave nothing to share (RELAY-61).
func (k checker) groupsEqualClients(path string, o *Origin) {
	i := slices.Index(o.GroupBy, "id")
	switch {
	case o.Files != nil:
		return
	case i < 0:
		k.onePartOfIstio(path, o)
		return
	}
	at := fmt.Sprintf("%s.group_by[%d]", path, i)
	if o.Node.ID != "" {
		k.warnf(at, "each client will have its own group, but the origin sees node.id %q for all of them; remove one of the two (RELAY-61)", o.Node.ID)
		return
	}
	k.warnf(at, "each client will have its own group and its own upstream streams, and nothing will be shared; if the origin tailors only some types to each client, remove id and list them in listeners[].dedicated (RELAY-61)")
}

// KeyNotes are about keys that have all metadata, as by default, sorted by line: they say what is
// warned of where id is in the key. Such a key is right for many fleets, so it is for validate
// alone to say (RELAY-61).
func (c *Config) KeyNotes() (notes []*Problem) {
	for i := range c.Origins {
		o, at, by := &c.Origins[i], fmt.Sprintf("origins[%d].group_by", i), ""
		term := slices.Index(o.GroupBy, "metadata")
		if term < 0 || o.Files != nil || slices.Contains(o.GroupBy, "id") || c.source == nil {
			continue
		}
		if _, written := c.source.at[at]; written {
			at = fmt.Sprintf("%s[%d]", at, term)
		} else {
			by = "is not set, so all metadata counts: "
		}
		n := c.source.problem(at, by+"clients with unique metadata, such as an address (istio's INSTANCE_IPS), will each have their own "+
			"group and upstream streams; list the metadata.KEY that the origin uses (weir groups suggest finds them) (RELAY-61)")
		n.Warning = true
		notes = append(notes, n)
	}
	return slices.SortedStableFunc(slices.Values(notes), byPlace)
}

// onePartOfIstio warns of a fixed node id in istio's form where the key could tell proxies apart:
// istio reads kind, address and namespace of a proxy in it, so that all clients are this one.
func (k checker) onePartOfIstio(path string, o *Origin) {
	if strings.Count(o.Node.ID, "~") == 3 {
		k.warnf(path+".node.id", "istio treats all clients as this one proxy, and sends its configuration to clients of other namespaces, kinds and addresses; remove it and set group_by: [id, cluster, metadata], unless all are gateways of one namespace")
	}
}

func (k checker) features(path string, features []string) {
	for i, f := range features {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case f == "":
			k.addf(at, "is empty")
		case slices.Index(features, f) < i:
			k.addf(at, "%q is listed twice", f)
		}
	}
}
