package config

import (
	"fmt"
	"maps"
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
		k.addf(path+".allowed", "needs client_ca or spiffe as well, without which no client shows who it is")
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
	k.choice(path+".alpn", t.ALPN)
	if t.SPIFFE != "" {
		k.workloadAPI(path, t.SPIFFE, map[string]string{"cert": t.Cert, "key": t.Key, "ca": t.CA})
	} else {
		k.pair(path, t.Cert, t.Key)
	}
	switch {
	case t.ServerIdentity != "":
		k.certified(path+".server_identity", t.ServerIdentity, t.SPIFFE != "")
	case t.SPIFFE != "":
		k.addf(path+".spiffe", "needs server_identity as well: every workload of the trust domain could pretend to be the origin")
	}
	if IsSPIFFE(t.ServerIdentity) && t.CA == "" && t.SPIFFE == "" {
		k.addf(path+".server_identity", "needs ca or spiffe as well: the authorities of the system vouch for host names, and not for SPIFFE IDs")
	}
}

// workloadAPI reports what is no address of an agent, and files beside it.
func (k checker) workloadAPI(path, socket string, files map[string]string) {
	if !strings.HasPrefix(socket, "unix:") || addressFault(socket) != "" {
		k.addf(path+".spiffe", "%q must be unix:///path, with an absolute path", socket)
	}
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if files[key] != "" {
			k.addf(path+"."+key, "is for files, and spiffe is given: the Workload API has its own")
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
		k.addf(path, "%q does not begin with spiffe://, as all identities do that the Workload API vouches for", text)
	case !w.Possible():
		k.warnf(path, "%q never matches: no identity looks like this", text)
	}
}

// IsSPIFFE reports whether a pattern of identities is one of SPIFFE IDs.
func IsSPIFFE(pattern string) bool { return strings.HasPrefix(pattern, identity.SPIFFE) }
