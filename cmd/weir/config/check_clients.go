package config

import (
	"fmt"
	"slices"
)

// Checks of what clients may be given, and how much of an origin they share.

// groupsEqualClients warns of group keys that leave nothing to share (RELAY-61).
func (k checker) groupsEqualClients(path string, o *Origin) {
	i := slices.Index(o.GroupBy, "id")
	if i < 0 || o.Files != nil {
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
	case l.TLS.ClientCA == "":
		k.warnf(path+".tls", "clients of other hosts will be refused the secrets of origin %q here: without client_ca none has an "+
			"authenticated identity (RELAY-74)", origins[i].Name)
	}
}
