package identity

import (
	"crypto/x509"
	"net/url"
	"strconv"
	"strings"
)

// Anonymous is the identity of a client whose connection shows none.
const Anonymous = "anonymous"

// The beginnings of the other identities.
const (
	SPIFFE  = "spiffe://"
	URI     = "uri:"
	DNS     = "dns:"
	Subject = "subject:"
	UID     = "uid:"
)

// Of is the identity in a verified certificate. It is the same in the next certificate of the same
// workload.
func Of(cert *x509.Certificate) string {
	for _, u := range cert.URIs {
		if id, ok := spiffe(u); ok {
			return id
		}
	}
	switch {
	case len(cert.URIs) > 0:
		return URI + cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		return DNS + strings.ToLower(cert.DNSNames[0])
	}
	return Subject + cert.Subject.String()
}

// OfUser is the identity of a user of the system.
func OfUser(uid uint32) string { return UID + strconv.FormatUint(uint64(uid), 10) }

// maxSPIFFE is how long a SPIFFE ID may be, in bytes.
const maxSPIFFE = 2048

// spiffe is a URI as a SPIFFE ID, or false if it is none: a trust domain, and a path of segments
// that are not empty, without user, port, query or fragment, and in few characters (SPIFFE-ID,
// section 2).
func spiffe(u *url.URL) (id string, ok bool) {
	id = u.String()
	rest, ok := strings.CutPrefix(id, SPIFFE)
	if !ok || len(id) > maxSPIFFE {
		return "", false
	}
	domain, path, _ := strings.Cut(rest, "/")
	domain = strings.ToLower(domain)
	if !made(domain, false) || strings.HasSuffix(rest, "/") {
		return "", false
	}
	if path == "" {
		return SPIFFE + domain, true
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." || !made(segment, true) {
			return "", false
		}
	}
	return SPIFFE + domain + "/" + path, true
}

// made reports whether a text is not empty, and of the characters that SPIFFE IDs are made of. Only
// paths have capitals.
func made(text string, capitals bool) bool {
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		case capitals && 'A' <= c && c <= 'Z':
		default:
			return false
		}
	}
	return text != ""
}
