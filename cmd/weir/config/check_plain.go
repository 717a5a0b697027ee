package config

import (
	"maps"
	"regexp"
	"slices"
)

// Checks of what others can reach, and what is sent in plaintext.

// openListener warns of a listener that is open to more clients than intended, probably.
func (k checker) openListener(path string, l *Listener) {
	switch {
	case isLocal(l.Address):
	case l.TLS.Enabled() && !l.TLS.AsksClients():
		k.warnf(path+".tls", "without client_ca no client has to show a certificate: whoever reaches %q is served", l.Address)
	case !l.TLS.Enabled():
		k.warnf(path+".address", "%q: others can reach it and it has no tls: whoever does is served, and whoever is on the way reads and "+
			"changes what clients are sent; set tls, with client_ca", l.Address)
	}
}

// openAdmin warns of an admin port that answers nobody, or sends its token in plaintext.
func (k checker) openAdmin(a *Admin) {
	switch {
	case isLocal(a.Address):
	case a.TokenFile == "" && !a.TLS.AsksClients():
		k.warnf("admin.address", "others can reach %q, and nothing tells who is asking: only what admin.open lists will be answered; "+
			"set admin.token_file or admin.tls.client_ca", a.Address)
	case a.TokenFile != "" && !a.TLS.Enabled():
		k.warnf("admin.address", "%q has no tls: others read the token on its way; set admin.tls", a.Address)
	}
}

// credential matches names of headers that hold secrets.
var credential = regexp.MustCompile(`(?i)^((proxy-)?authorization|cookie|(.*[-_])?(token|secret|password|auth|jwt|credentials?|api[-_]?key|access[-_]key|auth[-_]key))$`)

// credentials reports headers that look like credentials and are sent in plaintext, except to this
// machine.
func (k checker) credentials(path string, g *GRPC) {
	i := slices.IndexFunc(g.Addresses, func(a string) bool { return !isLocal(a) })
	if g.TLS != nil || i < 0 {
		return
	}
	k.plainHeaders(path, g.Headers, g.Addresses[i], "add tls: {} for the system's roots")
}

// plainHeaders reports headers that look like credentials if an address is reached in plaintext.
func (k checker) plainHeaders(path string, headers map[string]string, address, advice string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if credential.MatchString(name) {
			k.addf(join(path+".headers", name), "looks like a credential and is sent over TLS only, but %q is reached in plain text; %s",
				address, advice)
		}
	}
}
