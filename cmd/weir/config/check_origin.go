package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"
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
	k.choice(path+".resume", o.Resume)
	k.choice(path+".version_mode", o.VersionMode)
	k.choice(path+".hash", o.Hash)
	k.choice(path+".lrs", o.LRS)
	k.choice(path+".absence_timer", o.AbsenceTimer)
	k.choice(path+".on_data_error", o.OnDataError)
	k.choice(path+".glob", o.Glob)
	k.guard(path+".guard", &o.Guard)
	k.choice(path+".ttl_unsupported", o.TTLUnsupported)
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
		k.addf(path, "has both %s and %s; an origin is one of them", kinds[0], kinds[1])
	default:
		k.addf(path, "has grpc, files and rest; an origin is one of them")
	}
}

func (k checker) fallback(path string, o *Origin) {
	f := o.Fallback
	if f == nil {
		return
	}
	kinds := 0
	for _, is := range []bool{f.Files != nil, f.GRPC != nil, f.REST != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		k.addf(path, "needs files, grpc or rest")
	case kinds > 1:
		k.addf(path, "has more than one of files, grpc and rest; a last resort is one of them")
	case f.Files != nil && f.Files.Path == "":
		k.addf(path+".files.path", "is required")
	}
	if f.GRPC != nil {
		k.grpc(path+".grpc", f.GRPC)
	}
	if f.REST != nil {
		k.rest(path, &Origin{REST: f.REST})
	}
	if o.Files != nil {
		k.addf(path, "is for origins of grpc or rest: files are always there")
	}
	if o.TP2 && f.Files == nil {
		k.addf(path, "of grpc or rest is asked without dynamic parameters, so it cannot stand in for an origin of tp2: true")
	}
	if o.VersionMode == VersionModeOrigin {
		k.addf(path, "needs version_mode: content; the versions of two sources may be equal where the contents are not")
	}
}

// absenceKeeps reports types whose answers to `*` are the whole set by the protocol, so that what
// they lack is gone.
func (k checker) absenceKeeps(path string, names []string) {
	k.types(path, names)
	for i, name := range names {
		if t, _ := TypeURL(name); xds.AlwaysWhole(t) {
			k.addf(fmt.Sprintf("%s[%d]", path, i), "what an answer to * of %q lacks is always gone", name)
		}
	}
}

func (k checker) guard(path string, g *Guard) {
	if !(g.Share >= 0 && g.Share <= 1) {
		k.addf(path+".share", "%v is not from 0 to 1", g.Share)
	}
	if g.Min < 1 {
		k.addf(path+".min", "%d is less than 1; hold: 0s holds nothing back", g.Min)
	}
	if g.Hold < 0 {
		k.addf(path+".hold", "must not be negative; 0s holds nothing back")
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
	k.choice(path+".dialect", g.Dialect)
	k.choice(path+".wildcard", g.Wildcard)
	k.compression(path+".compression", g.Compression)
	for name, value := range g.Headers {
		// The value may be a credential, so it is not quoted.
		if !validHeader(name, value) {
			k.addf(join(path+".headers", name), "is not a header gRPC can send")
		}
	}
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

func (k checker) compression(path, value string) {
	if value != "" {
		k.choice(path, value)
	}
}

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
