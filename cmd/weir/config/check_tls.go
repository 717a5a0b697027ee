package config

import (
	"fmt"
	"strings"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/downstream/identity"
)

func (k checker) serverTLS(path string, t ServerTLS) {
	k.pair(path, t.Cert, t.Key)
	if t.ClientCA != "" && t.Cert == "" {
		k.addf(path+".client_ca", "needs cert and key as well")
	}
	if t.Tickets != "" && t.Cert == "" {
		k.addf(path+".tickets", "needs cert and key as well")
	}
	if len(t.Allowed) > 0 && !t.AsksClients() {
		k.addf(path+".allowed", "needs client_ca as well, without which no client shows who it is")
	}
	for i, text := range t.Allowed {
		k.certified(fmt.Sprintf("%s.allowed[%d]", path, i), text)
	}
	k.oneOf(path+".min_version", t.MinVersion, TLS13, TLS12)
}

func (k checker) clientTLS(path string, t *ClientTLS) {
	if t == nil {
		return
	}
	k.pair(path, t.Cert, t.Key)
	if t.ServerIdentity == "" {
		return
	}
	k.certified(path+".server_identity", t.ServerIdentity)
	if IsSPIFFE(t.ServerIdentity) && t.CA == "" {
		k.addf(path+".server_identity", "needs ca as well: the authorities of the system vouch for host names, and not for SPIFFE IDs")
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

// certified reports what is no pattern of identities that certificates have.
func (k checker) certified(path, text string) {
	w, err := authz.ParseWho(text)
	switch {
	case err != nil:
		k.addf(path, "%q %v", text, err)
	case text == identity.Anonymous, strings.HasPrefix(text, identity.UID):
		k.addf(path, "%q is the identity of no certificate", text)
	case !w.Possible():
		k.warnf(path, "%q never matches: no identity looks like this", text)
	}
}

// IsSPIFFE reports whether a pattern of identities is one of SPIFFE IDs.
func IsSPIFFE(pattern string) bool { return strings.HasPrefix(pattern, identity.SPIFFE) }
