package config

import (
	"fmt"
	"slices"
	"strings"
)

// Checks of who would be given secrets.

// secrets reports secrets that would be asked for in plaintext (RELAY-77).
func (k checker) secrets(path string, o *Origin) {
	k.choice(path+".secrets", o.Secrets)
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
			k.addf(at, "by_identity needs authorization: without rules it would be for nobody")
		case slices.ContainsFunc(c.Authorization, func(r Rule) bool { return r.allowsSecrets(o) }):
		case o.MixesIdentities():
			k.warnf(at, "nobody will be given a secret: no rule allows any by a pattern of names with a part of the identity, or to one "+
				"identity alone, and group_by has no identity")
		default:
			k.warnf(at, "nobody will be given a secret: no rule allows any")
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
