package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/rest"
)

func (k checker) origins(origins []Origin) {
	if len(origins) == 0 {
		k.addf("origins", "no origins; at least one is needed")
	}
	named, marked := make(map[string]string), ""
	for i := range origins {
		o, path := &origins[i], fmt.Sprintf("origins[%d]", i)
		k.name(path+".name", o.Name)
		if other, dup := named[o.Name]; dup && o.Name != "" {
			k.addf(path+".name", "%q is already the name of %s", o.Name, other)
		} else {
			named[o.Name] = path
		}
		if o.Default && marked != "" {
			k.addf(path+".default", "%s is the default already; there can be one", marked)
		} else if o.Default {
			marked = path
		}
		k.origin(path, o)
	}
	k.authorities(origins)
}

// authorities reports an authority of two origins.
func (k checker) authorities(origins []Origin) {
	first := make(map[string]string)
	for i := range origins {
		for j, authority := range origins[i].Authorities {
			at := fmt.Sprintf("origins[%d].authorities[%d]", i, j)
			if other, taken := first[authority]; taken {
				k.addf(at, "%q is already %s", authority, other)
			} else {
				first[authority] = at
			}
		}
	}
}

func (k checker) origin(path string, o *Origin) {
	k.kind(path, o)
	if o.GRPC != nil {
		k.grpc(path+".grpc", o.GRPC)
	}
	if o.REST != nil {
		k.rest(path, o)
	}
	if o.Audit != 0 && o.Audit < time.Minute {
		k.addf(path+".audit", "must be 0, or at least 1m")
	}
	if o.Audit != 0 && o.GRPC == nil {
		k.addf(path+".audit", "is for origins of grpc")
	}
	if o.NACKReport && o.GRPC == nil {
		k.addf(path+".nack_report", "is for origins of grpc")
	}
	if o.Files != nil && o.Files.Path == "" {
		k.addf(path+".files.path", "is required")
	}
	k.fallback(path+".fallback", o)
	k.types(path+".types", o.Types)
	k.absenceKeeps(path+".absence_keeps", o.AbsenceKeeps)
	k.nameFields(path+".name_fields", o.NameFields)
	k.groupBy(path+".group_by", o.GroupBy)
	k.groupsEqualClients(path, o)
	k.secrets(path, o)
	k.parameters(path, o)
	k.guard(path+".guard", &o.Guard)
}

// kind reports an origin without a kind, or with several.
func (k checker) kind(path string, o *Origin) {
	var kinds []string
	for _, x := range []struct {
		name string
		is   bool
	}{{"grpc", o.GRPC != nil}, {"files", o.Files != nil}, {"rest", o.REST != nil}} {
		if x.is {
			kinds = append(kinds, x.name)
		}
	}
	switch len(kinds) {
	case 0:
		k.addf(path, "needs grpc, files or rest")
	case 1:
	case 2:
		k.addf(path, "has both %s and %s; choose one", kinds[0], kinds[1])
	default:
		k.addf(path, "has grpc, files and rest; choose one")
	}
}

func (k checker) fallback(path string, o *Origin) {
	if o.Fallback == nil {
		return
	}
	if o.Fallback.Files.Path == "" {
		k.addf(path, "needs files.path")
	}
	if o.Files != nil {
		k.addf(path, "is for origins of grpc or rest: files are always available")
	}
	if o.VersionMode == VersionModeOrigin {
		k.addf(path, "needs version_mode: content; two sources may use the same version for different content")
	}
}

// absenceKeeps reports types whose answers to `*` are the whole set by the protocol, so that what
// they lack is gone.
func (k checker) absenceKeeps(path string, names []string) {
	k.types(path, names)
	for i, name := range names {
		if t, _ := TypeURL(name); xds.AlwaysWhole(t) {
			k.addf(fmt.Sprintf("%s[%d]", path, i), "resources missing from an answer to * of %q are always removed", name)
		}
	}
}

func (k checker) guard(path string, g *Guard) {
	if !(g.Share >= 0 && g.Share <= 1) {
		k.addf(path+".share", "%v is not from 0 to 1", g.Share)
	}
	if g.Min < 1 {
		k.addf(path+".min", "%d is less than 1; set hold: 0s to turn the guard off", g.Min)
	}
	if g.Hold < 0 {
		k.addf(path+".hold", "must not be negative; 0s turns the guard off")
	}
}

func (k checker) grpc(path string, g *GRPC) {
	if len(g.Addresses) == 0 {
		k.addf(path+".addresses", "at least one is needed")
	}
	seen := make(map[string]bool)
	for i, a := range g.Addresses {
		at := fmt.Sprintf("%s.addresses[%d]", path, i)
		switch {
		case addressFault(a) != "":
			k.address(at, a)
		case !dialable(a):
			k.addf(at, "%q cannot be connected to: it needs a host and a port", a)
		case seen[a]:
			k.addf(at, "%q is listed twice", a)
		}
		seen[a] = true
	}
	k.grpcHeaders(path+".headers", g.Headers)
	k.credentials(path, g)
	k.clientTLS(path+".tls", g.TLS)
	if g.TokenFile != "" && g.TLS == nil {
		k.addf(path+".token_file", "is sent over TLS only; add tls: {} for the system's roots")
	}
	k.size(path+".max_message", g.MaxMessage)
	if g.MaxMessage == 0 {
		k.addf(path+".max_message", "must be more than 0")
	}
}

// messages reports invalid entries of types. The reader of the descriptor files checks their
// content.
func (k checker) messages(types map[string]Type) {
	for _, url := range slices.Sorted(maps.Keys(types)) {
		at, t := TypePath(url), types[url]
		switch full, ok := TypeURL(url); {
		case !ok || full != url:
			k.addf(at, "%q is no full type URL such as type.googleapis.com/example.Message", url)
		case t.NameField != "" && xds.Named(url):
			k.addf(at+".name_field", "resources of this type are known to have their name in field 1")
		case t == Type{}:
			k.addf(at, "says nothing; give name_field or descriptors")
		}
	}
}

// TypePath returns the path of an entry of Config.Types, for Problemf.
func TypePath(url string) string { return join("types", url) }

// nameFields reports numbers that no protobuf field can have, and types whose name field is known.
func (k checker) nameFields(path string, fields map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at, n := join(path, name), fields[name]
		url, ok := TypeURL(name)
		switch {
		case !ok:
			k.unknownType(at, name)
		case xds.Named(url):
			k.addf(at, "resources of this type are known to have their name in field 1")
		case n > maxField || n >= firstReserved && n <= lastReserved:
			k.addf(at, "%d is no protobuf field number", n)
		}
	}
}

// The field numbers that protobuf allows.
const maxField, firstReserved, lastReserved = 1<<29 - 1, 19000, 19999

// dialable reports whether an address can be connected to: unlike one to listen on, it needs a host
// and a port other than 0.
func dialable(address string) bool {
	host, port, _ := net.SplitHostPort(address)
	return strings.HasPrefix(address, "unix:") || host != "" && port != "0"
}

var groupTerms = []string{
	"cluster", "locality", "user_agent_name", "user_agent_version", "client_features", "metadata", "id", "dynamic_parameters", "identity",
}

func (k checker) groupBy(path string, terms []string) {
	seen := make(map[string]bool)
	for i, term := range terms {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch key, ok := strings.CutPrefix(term, "metadata."); {
		case seen[term]:
			k.addf(at, "%q is listed twice", term)
		case ok && key == "":
			k.addf(at, "%q lacks its key; write metadata.KEY", term)
		case !ok:
			k.oneOf(at, term, groupTerms...)
		}
		seen[term] = true
	}
}

// dynamicParameters is the term of group_by that presents the parameters which clients state.
const dynamicParameters = "dynamic_parameters"

// parameters reports parameters for an origin that does not understand them (DYN-17), and fields
// that cannot be mapped (RELAY-64, RELAY-65).
func (k checker) parameters(path string, o *Origin) {
	p, at := &o.DynamicParameters, path+".dynamic_parameters"
	if o.TP2 && p.Otherwise == OtherwiseIgnored {
		k.addf(at+".otherwise", "is for origins without parameters, but this one has tp2: true")
	}
	if o.GRPC != nil && o.GRPC.V2 && o.TP2 {
		k.addf(path+".tp2", "needs locators, but v2 has none (V2-3): grpc.v2 is true")
	}
	if i := slices.Index(o.GroupBy, dynamicParameters); o.TP2 && i >= 0 && o.Files == nil {
		k.warnf(fmt.Sprintf("%s.group_by[%d]", path, i), "clients with different parameters will have separate groups and upstream streams, although tp2: true sends parameters within one group; remove it")
	}
	if len(p.FromNode) == 0 {
		return
	}
	if !o.TP2 {
		k.addf(at+".from_node", "needs tp2: true, or the origin gets no parameters (DYN-17)")
	}
	mapped := slices.Compact(slices.Sorted(maps.Values(p.FromNode)))
	for _, parameter := range slices.Sorted(maps.Keys(p.FromNode)) {
		k.mapped(join(at+".from_node", parameter), parameter, p.FromNode[parameter], mapped)
	}
	for i, term := range o.GroupBy {
		if strings.HasPrefix(term, "metadata.") && slices.Contains(mapped, term) {
			k.addf(fmt.Sprintf("%s.group_by[%d]", path, i), "%q is mapped to a parameter by dynamic_parameters.from_node, so it cannot be part of a group's key; remove one of the two (RELAY-64)", term)
		}
	}
}

// mapped checks one parameter. A field that contains another mapped one is a struct in nodes with
// both, and a struct cannot be a parameter.
func (k checker) mapped(at, parameter, field string, all []string) {
	keys, ok := strings.CutPrefix(field, "metadata.")
	switch {
	case parameter == "":
		k.addf(at, "the parameter has no name")
	case !ok || slices.Contains(strings.Split(keys, "."), ""):
		k.addf(at, "%q is not metadata.PATH, with dots between the keys of structs", field)
	}
	for _, other := range all {
		if ok && strings.HasPrefix(other, field+".") {
			k.addf(at, "%q would be a struct, because %q is mapped as well; only text, booleans and numbers can be mapped (RELAY-65)", field, other)
			return
		}
	}
}

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
			k.addf(at, "%q is plain text, but tls is set: write https", u)
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
	k.httpHeaders(path, r.Headers, r.TokenFile)
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

// httpHeaders reports headers that cannot be sent, and one that is set twice.
func (k checker) httpHeaders(path string, headers map[string]string, tokenFile string) {
	for name, value := range headers {
		if !rest.ValidHeader(name, value) { // the value may be a credential, so it is not quoted
			k.addf(join(path+".headers", name), "is not a header that can be sent")
		}
		if strings.EqualFold(name, "authorization") && tokenFile != "" {
			k.addf(join(path+".headers", name), "is set here and by token_file")
		}
	}
}

// hostPort returns the host and port of a valid URL.
func hostPort(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}
