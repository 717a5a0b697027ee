package config

import (
	"fmt"
	"slices"
	"strings"
)

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
		k.warnf(at, "each client will be a group of its own although the origin cannot tell them apart: "+
			"node.id %q is presented for all; leave out one of the two (RELAY-61)", o.Node.ID)
		return
	}
	k.warnf(at, "each client will be a group of its own, with its own streams to the origin, and nothing will be shared; "+
		"if the origin tailors single types only, leave id out and list them in listeners[].dedicated (RELAY-61)")
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
			by = "is not written, and has all metadata by default: "
		}
		n := c.source.problem(at, by+"each client whose metadata has something of its own, such as an address (istio's INSTANCE_IPS), will be "+
			"a group of its own, with its own streams to the origin; list the metadata.KEY that the origin goes by, which weir groups suggest "+
			"tells (RELAY-61)")
		n.Warning = true
		notes = append(notes, n)
	}
	return slices.SortedStableFunc(slices.Values(notes), byPlace)
}

// onePartOfIstio warns of a fixed node id in istio's form where the key could tell proxies apart:
// istio reads kind, address and namespace of a proxy in it, so that all clients are this one.
func (k checker) onePartOfIstio(path string, o *Origin) {
	if strings.Count(o.Node.ID, "~") == 3 {
		k.warnf(path+".node.id", "istio takes all clients for this one proxy, and gives clients of other namespaces, kinds and addresses "+
			"what is its; leave it out and write group_by: [id, cluster, metadata], unless all are gateways of one namespace")
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

// secrets reports secrets that would be asked for in plaintext (RELAY-77).
func (k checker) secrets(path string, o *Origin) {
	if o.Secrets == "by_identity" {
		k.addf(path+".secrets", "by_identity is not supported by this version yet; write %s or %s", SecretsRefuse, SecretsDedicated)
		return
	}
	k.choice(path+".secrets", o.Secrets)
	if o.Secrets != SecretsDedicated || o.GRPC == nil || o.GRPC.TLS != nil {
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
	if i < 0 || isLocal(l.Address) {
		return
	}
	switch {
	case !l.TLS.Enabled():
		k.warnf(path+".address", "clients of other hosts will be refused the secrets of origin %q here: the listener has no tls (RELAY-77)",
			origins[i].Name)
	case !l.TLS.AsksClients():
		k.warnf(path+".tls", "clients of other hosts will be refused the secrets of origin %q here: without client_ca none has an "+
			"authenticated identity (RELAY-74)", origins[i].Name)
	}
}
