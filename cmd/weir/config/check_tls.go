package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/downstream/identity"
)

func (k checker) serverTLS(path string, t ServerTLS) {
	if t.SPIFFE != "" {
		k.workloadAPI(path, t.SPIFFE, map[string]string{"cert": t.Cert, "key": t.Key, "client_ca": t.ClientCA})
	} else {
		k.pair(path, t.Cert, t.Key)
	}
	if t.ClientCA != "" && !t.Enabled() {
		k.addf(path+".client_ca", "needs cert and key as well")
	}
	if t.Tickets != "" && !t.Enabled() {
		k.addf(path+".tickets", "needs cert and key as well, or spiffe")
	}
	if t.CRL != "" && t.ClientCA == "" {
		k.addf(path+".crl", "needs client_ca as well: CRLs are signed by its authorities")
	}
	if len(t.Allowed) > 0 && !t.AsksClients() {
		k.addf(path+".allowed", "needs client_ca or spiffe as well: clients are identified by certificates")
	}
	for i, text := range t.Allowed {
		k.certified(fmt.Sprintf("%s.allowed[%d]", path, i), text, t.SPIFFE != "")
	}
	k.oneOf(path+".min_version", t.MinVersion, TLS13, TLS12)
}

func (k checker) clientTLS(path string, t *ClientTLS) {
	if t == nil {
		return
	}
	if t.SPIFFE != "" {
		k.workloadAPI(path, t.SPIFFE, map[string]string{"cert": t.Cert, "key": t.Key, "ca": t.CA})
	} else {
		k.pair(path, t.Cert, t.Key)
	}
	switch {
	case t.ServerIdentity != "":
		k.certified(path+".server_identity", t.ServerIdentity, t.SPIFFE != "")
	case t.SPIFFE != "":
		k.addf(path+".spiffe", "needs server_identity as well: any workload of the trust domain could impersonate the origin")
	}
	if IsSPIFFE(t.ServerIdentity) && t.CA == "" && t.SPIFFE == "" {
		k.addf(path+".server_identity", "needs ca or spiffe as well: the system's authorities certify host names, not SPIFFE IDs")
	}
}

// workloadAPI reports what is no address of an agent, and files beside it.
func (k checker) workloadAPI(path, socket string, files map[string]string) {
	if !strings.HasPrefix(socket, "unix:") || addressFault(socket) != "" {
		k.addf(path+".spiffe", "%q must be unix:///path, with an absolute path", socket)
	}
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if files[key] != "" {
			k.addf(path+"."+key, "is for files, but spiffe is set: the Workload API has its own")
		}
	}
}

func (k checker) pair(path, cert, key string) {
	if cert != "" && key == "" {
		k.addf(path+".key", "is missing, but cert is given")
	}
	if key != "" && cert == "" {
		k.addf(path+".cert", "is missing, but key is given")
	}
}

// certified reports what is no pattern of identities that certificates have: those of any kind, or
// of SPIFFE alone.
func (k checker) certified(path, text string, only bool) {
	w, err := authz.ParseWho(text)
	switch {
	case err != nil:
		k.addf(path, "%q %v", text, err)
	case text == identity.Anonymous, strings.HasPrefix(text, identity.UID):
		k.addf(path, "%q is the identity of no certificate", text)
	case only && !IsSPIFFE(text):
		k.addf(path, "%q does not begin with spiffe://, as all identities of the Workload API do", text)
	case !w.Possible():
		k.warnf(path, "%q never matches: no identity looks like this", text)
	}
}

// IsSPIFFE reports whether a pattern of identities is one of SPIFFE IDs.
func IsSPIFFE(pattern string) bool { return strings.HasPrefix(pattern, identity.SPIFFE) }

// Checks of what others can reach, and what is sent in plaintext.

// openListener warns of a listener that is open to more clients than intended, probably.
func (k checker) openListener(path string, l *Listener) {
	switch {
	case isLocal(l.Address):
	case l.TLS.Enabled() && !l.TLS.AsksClients():
		k.warnf(path+".tls", "without client_ca no client needs a certificate: every client that reaches %q is served", l.Address)
	case !l.TLS.Enabled():
		k.warnf(path+".address", "%q: other hosts can reach it without tls: any client is served, and traffic can be read and changed on the network; set tls, with client_ca", l.Address)
	}
}

// openAdmin warns of an admin port that answers nobody, or sends its token in plaintext.
func (k checker) openAdmin(a *Admin) {
	switch {
	case isLocal(a.Address):
	case a.TokenFile == "" && !a.TLS.AsksClients():
		k.warnf("admin.address", "other hosts can reach %q without authentication: only the paths in admin.open will be served; set admin.token_file or admin.tls.client_ca", a.Address)
	case a.TokenFile != "" && !a.TLS.Enabled():
		k.warnf("admin.address", "%q has no tls: the token can be read on the network; set admin.tls", a.Address)
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
