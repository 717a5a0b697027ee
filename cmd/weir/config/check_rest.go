package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/upstream/rest"
)

// leastPoll keeps a wrong unit from becoming a flood of polls.
const leastPoll = 100 * time.Millisecond

// rest checks a REST-JSON server. It quotes nothing of a bad URL, which may contain a password.
func (k checker) rest(origin string, o *Origin) {
	r, path := o.REST, origin+".rest"
	if len(r.URLs) == 0 {
		k.addf(path+".urls", "at least one is needed")
	}
	for i, u := range r.URLs {
		at := fmt.Sprintf("%s.urls[%d]", path, i)
		switch why := rest.BadURL(u); {
		case why != "":
			k.addf(at, "%s", why)
		case slices.Index(r.URLs, u) < i:
			k.addf(at, "%q is listed twice", u)
		case strings.HasPrefix(u, "https:"):
		case r.TLS != nil:
			k.addf(at, "%q is reached in plain text, and tls is given: write https", u)
		case r.TokenFile != "":
			k.addf(path+".token_file", "is sent over TLS only, and %q is reached in plain text", u)
		case !isLocal(hostPort(u)):
			k.plainHeaders(path, r.Headers, u, "write https")
			if o.Secrets != SecretsRefuse {
				k.addf(at, "%q is not loopback: with secrets: %s it needs https, or secrets would travel in plain text (RELAY-77)",
					u, o.Secrets)
			}
		}
	}
	for name, value := range r.Headers {
		if !rest.ValidHeader(name, value) { // the value may be a credential, so it is not quoted
			k.addf(join(path+".headers", name), "is not a header that can be sent")
		}
		if strings.EqualFold(name, "authorization") && r.TokenFile != "" {
			k.addf(join(path+".headers", name), "is given here and by token_file")
		}
	}
	if r.Poll < leastPoll {
		k.addf(path+".poll", "must be at least %v", leastPoll)
	}
	k.clientTLS(path+".tls", r.TLS)
	k.size(path+".max_message", r.MaxMessage)
	if r.MaxMessage == 0 {
		k.addf(path+".max_message", "must be more than 0")
	}
	if o.TP2 {
		k.addf(origin+".tp2", "dynamic parameters are not available over REST (REST-8)")
	}
	for i, t := range o.Types {
		if url, ok := TypeURL(t); ok && !slices.Contains(rest.Types(), url) {
			k.addf(fmt.Sprintf("%s.types[%d]", origin, i), "%q is not available over REST (REST-8)", t)
		}
	}
}

// hostPort returns the host and port of a valid URL.
func hostPort(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
