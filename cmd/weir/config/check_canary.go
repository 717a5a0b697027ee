package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/upstream/rest"
)

// Checks of origins[].canary.

// leastCheck keeps a wrong unit from becoming a flood of questions.
const leastCheck = time.Second

func (k checker) canaries(c *Config) {
	for i := range c.Origins {
		o, path := &c.Origins[i], fmt.Sprintf("origins[%d].canary", i)
		k.canary(path, &o.Canary)
		k.canaryMatch(path+".match", o, c.Listeners)
		k.bothInOneGroup(fmt.Sprintf("origins[%d]", i), o)
	}
}

func (k checker) canary(path string, c *Canary) {
	switch {
	case c.Share > 1:
		k.addf(path+".share", "%v is not from 0 to 1", c.Share)
	case c.Share == 1:
		k.warnf(path+".share", "all clients with a node id are canaries: a bad change reaches all of them at once")
	}
	if c.Acks.Share > 1 {
		k.addf(path+".acks.share", "%v is not from 0 to 1", c.Acks.Share)
	}
	if c.Gone.Share > 1 {
		k.addf(path+".gone.share", "%v is not from 0 to 1", c.Gone.Share)
	}
	if c.On() && c.MaxHold != 0 && c.MaxHold <= c.Bake {
		k.addf(path+".max_hold", "must be more than bake (%s), or no change could pass before it is over; 0s is no bound", c.Bake)
	}
	k.types(path+".urgent", c.Urgent)
	if c.Check == nil {
		return
	}
	k.canaryCheck(path+".check", c.Check, c.Bake)
	if !c.On() {
		k.warnf(path+".check", "is not used: canary has neither match nor share, so no client is a canary")
	}
}

// canaryMatch reports fields that no client can have, and warns of identities that none shows.
func (k checker) canaryMatch(path string, o *Origin, listeners []Listener) {
	for _, field := range slices.Sorted(maps.Keys(o.Canary.Match)) {
		at, values := join(path, field), o.Canary.Match[field]
		if field == identityField {
			k.canaryIdentities(at, values, listeners)
			continue
		}
		err := node.CheckCanaryTerm(field)
		head, path, _ := strings.Cut(field, ".")
		near, ok := Nearest(head, canaryFields)
		if near == metadata {
			near += "." + cmp.Or(path, "PATH")
		}
		switch {
		case err != nil && ok:
			k.addf(at, "%v; did you mean %q?", err, near)
		case err != nil:
			k.addf(at, "%v", err)
		case o.IdentityTo != "" && partOf(field, o.IdentityTo):
			k.addf(at, "%q has the identity (identity_to), whatever a client says there; write identity", field)
		case len(values) != 1:
			k.addf(at, "must be one value; only identity may have several")
		case values[0] == "":
			k.addf(at, "is empty: no node matches it")
		}
	}
}

// canaryFields are proposed for misspelled ones.
var canaryFields = append([]string{identityField, metadata}, node.CanaryTerms()...)

// metadata is the term of group_by that has all of it, and the beginning of those with a part of
// it.
const metadata = "metadata"

// partOf reports whether a field is another one, or a part of it.
func partOf(field, of string) bool { return field == of || strings.HasPrefix(field, of+".") }

func (k checker) canaryIdentities(path string, patterns Patterns, listeners []Listener) {
	if len(patterns) == 0 {
		k.addf(path, "at least one is needed")
	}
	for i, text := range patterns {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch w, err := authz.ParseWho(text); {
		case err != nil:
			k.addf(at, "%q %v", text, err)
		case !w.Possible():
			k.warnf(at, "%q never matches: no identity looks like this", text)
		}
	}
	k.shown(path, patterns, listeners, "clients connect to")
}

// bothInOneGroup reports a choice of canaries that leaves no group with canaries and others:
// changes of a group go to its own canaries first, and nobody would try those of a group without
// any. An origin of files has one group.
func (k checker) bothInOneGroup(path string, o *Origin) {
	c := &o.Canary
	if !c.On() || o.Files != nil {
		return
	}
	at := path + ".canary"
	if slices.Contains(o.GroupBy, "id") {
		k.addf(at, "needs groups of several clients, but %s.group_by has id: each client has its own group", path)
		return
	}
	for field := range c.Match {
		if !o.groupedBy(field) {
			return
		}
	}
	if c.Share == 0 {
		k.addf(at+".match", "matches all clients of a group or none, because %s.group_by has all of its fields: other groups would have no canaries; remove one field from group_by, or set share", path)
	}
}

// groupedBy reports whether all clients of a group have the same in a field of a canary's match.
func (o *Origin) groupedBy(field string) bool {
	for _, term := range o.GroupBy {
		if term == metadata {
			continue // what canaries are chosen by is no part of the key then (node.Rules)
		}
		if partOf(field, term) {
			// Fields that are parameters are in no group's key.
			return !slices.ContainsFunc(slices.Collect(maps.Values(o.DynamicParameters.FromNode)), func(mapped string) bool {
				return partOf(field, mapped) || partOf(mapped, field)
			})
		}
	}
	return false
}

func (k checker) canaryCheck(path string, c *CanaryCheck, bake time.Duration) {
	switch p, h := c.Prometheus, c.HTTP; {
	case p == nil && h == nil:
		k.addf(path, "needs prometheus or http")
	case p != nil && h != nil:
		k.addf(path, "has both prometheus and http; choose one")
	case h != nil:
		k.asked(path+".http", question{h.URL, h.Interval, h.TLS, h.Headers, h.TokenFile}, bake)
	default:
		path += ".prometheus"
		k.asked(path, question{p.URL, p.Interval, p.TLS, p.Headers, p.TokenFile}, bake)
		if u, err := url.Parse(p.URL); err == nil && u.RawQuery != "" {
			k.addf(path+".url", "must have only a host and a path; write the query in its own key")
		}
		if strings.TrimSpace(p.Query) == "" {
			k.addf(path+".query", "is required")
		}
		if _, written := k.at[path+".threshold"]; !written {
			k.addf(path+".threshold", "is required: the largest good value of the query")
		}
	}
}

// question is what the two kinds of checks have in common.
type question struct {
	url       string
	interval  time.Duration
	tls       CheckTLS
	headers   map[string]string
	tokenFile string
}

// asked checks how a server is asked. It quotes nothing of a URL, which may contain a password.
func (k checker) asked(path string, q question, bake time.Duration) {
	u, err := url.Parse(q.url)
	switch {
	case q.url == "":
		k.addf(path+".url", "is required")
		return
	case err != nil:
		k.addf(path+".url", "is no URL")
		return
	}
	bare := *u
	bare.RawQuery = ""
	switch why := rest.BadURL(bare.String()); {
	case why != "":
		k.addf(path+".url", "%s", why)
	case u.Scheme == "https":
	case q.tls != CheckTLS{}:
		k.addf(path+".url", "is plain text, but tls is set: write https")
	case q.tokenFile != "":
		k.addf(path+".token_file", "is sent over TLS only, and url is reached in plain text")
	case !isLocal(hostPort(q.url)):
		k.plainHeaders(path, q.headers, u.Host, "write https")
	}
	if q.interval < leastCheck {
		k.addf(path+".interval", "must be at least %v", leastCheck)
	} else if q.interval > bake {
		k.addf(path+".interval", "must be at most bake (%s), or the check would not run before all clients get a change", bake)
	}
	k.pair(path+".tls", q.tls.Cert, q.tls.Key)
	k.httpHeaders(path, q.headers, q.tokenFile)
}
