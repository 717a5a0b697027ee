package xds

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Scheme begins the names with an authority in them; every other name is opaque (NAME-1).
const Scheme = "xdstp:"

// Wildcard is the reserved name of the set that the origin chooses (WILD-1).
const Wildcard = "*"

// URN has the parts of an xdstp name, percent-decoded (NAME-1):
// xdstp://[authority]/type/id[?context].
type URN struct {
	Authority, Type, ID string
	context             []contextParam // sorted by key; keys are distinct
}

type contextParam struct{ key, value string }

// Errors of ParseURN.
var (
	errNotURN    = errors.New("is no xdstp name")
	errDirective = errors.New("has a directive; directives are for clients and never sent (NAME-3)")
	errScheme    = errors.New(`lacks the "//" before its authority`)
	errParts     = errors.New("lacks a type and an id after its authority")
	errEscape    = errors.New("has a % that two hexadecimal digits do not follow")
)

// IsNewStyle reports whether a name has to be a URN, whether or not it parses (NAME-2).
func IsNewStyle(name string) bool { return strings.HasPrefix(name, Scheme) }

// ParseURN parses an xdstp name.
func ParseURN(name string) (u URN, err error) {
	rest, ok := strings.CutPrefix(name, Scheme)
	if !ok {
		return u, errNotURN
	}
	if strings.Contains(rest, "#") {
		return u, errDirective
	}
	if rest, ok = strings.CutPrefix(rest, "//"); !ok {
		return u, errScheme
	}
	path, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(path, "/")
	typeName, id, ok := strings.Cut(path, "/")
	if !ok || typeName == "" {
		return u, errParts
	}
	for _, part := range []struct {
		to   *string
		from string
	}{{&u.Authority, authority}, {&u.Type, typeName}, {&u.ID, id}} {
		if *part.to, err = unescape(part.from); err != nil {
			return URN{}, err
		}
	}
	u.context, err = parseContext(query)
	return u, err
}

// parseContext parses context parameters. Of a repeated key the first value counts (NAME-6).
func parseContext(query string) ([]contextParam, error) {
	var ps []contextParam
	for query != "" {
		var one string
		if one, query, _ = strings.Cut(query, "&"); one == "" {
			continue
		}
		key, value, _ := strings.Cut(one, "=")
		key, err := unescape(key)
		if err != nil {
			return nil, err
		}
		if value, err = unescape(value); err != nil {
			return nil, err
		}
		ps = append(ps, contextParam{key, value})
	}
	slices.SortStableFunc(ps, func(a, b contextParam) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(ps, func(a, b contextParam) bool { return a.key == b.key }), nil
}

// String returns the canonical form (NAME-4).
func (u *URN) String() string {
	b := make([]byte, 0, len(Scheme)+len(u.Authority)+len(u.Type)+len(u.ID)+8)
	b = append(append(b, Scheme...), "//"...)
	b = append(appendEscaped(b, u.Authority, false), '/')
	b = append(appendEscaped(b, u.Type, false), '/')
	b = appendEscaped(b, u.ID, true)
	for i, p := range u.context {
		b = append(b, "?&"[min(i, 1)])
		b = append(appendEscaped(b, p.key, false), '=')
		b = appendEscaped(b, p.value, false)
	}
	return string(b)
}

// Glob reports whether the name is that of a collection (COLL-1).
func (u *URN) Glob() bool { return u.ID == "*" || strings.HasSuffix(u.ID, "/*") }

// Of reports whether the name belongs to the type, or to its collections (NAME-2).
func (u *URN) Of(typeURL string) bool {
	name := typeURL[strings.LastIndexByte(typeURL, '/')+1:]
	return u.Type == name || u.Type == name+"Collection"
}

// CanonicalName is equal for names of the same resource: the canonical form of an xdstp name, and
// any other name unchanged (NAME-1, NAME-4). The error says why an xdstp name does not parse.
func CanonicalName(name string) (string, error) {
	if !IsNewStyle(name) {
		return name, nil
	}
	u, err := ParseURN(name)
	if err != nil {
		return "", err
	}
	if key := u.String(); key != name {
		return key, nil
	}
	return name, nil
}

// NameKey returns the name as used in the table's maps. An xdstp name from an origin that does not
// parse stays unchanged: no client can ask for it, but it may be a member of `*` (WILD-10). It
// cannot equal a canonical name, since those parse.
func NameKey(name string) string {
	if key, err := CanonicalName(name); err == nil {
		return key
	}
	return name
}

// Spell returns the key of a name, and its spelling if that differs (NAME-9).
func Spell(name string) (key, spelt string) {
	if key = NameKey(name); key != name {
		return key, name
	}
	return key, ""
}

// Spelling returns spelt, or key if spelt is "". It inverts Spell.
func Spelling(key, spelt string) string {
	if spelt != "" {
		return spelt
	}
	return key
}

// unescape decodes percent-encoding. Unlike in forms, a plus is a plus.
func unescape(s string) (string, error) {
	s, err := url.PathUnescape(s)
	if err != nil {
		return "", errEscape
	}
	return s, nil
}

const upperHex = "0123456789ABCDEF"

// appendEscaped encodes all bytes that could have a meaning in some part of a name. slashes: they
// are kept, as in an id.
func appendEscaped(b []byte, s string, slashes bool) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-._~!$'()*+,;:@", c) >= 0, slashes && c == '/':
			b = append(b, c)
		default:
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}

// Glob says which names a glob covers: the part before the last segment, and the context.
type Glob struct{ prefix, context string }

// GlobOf parses a glob in canonical form.
func GlobOf(selector string) Glob {
	path, context := CutContext(selector)
	return Glob{strings.TrimSuffix(path, Wildcard), context}
}

// Ends returns what the names begin and end with that the glob covers.
func (g Glob) Ends() (begin, end string) { return g.prefix, g.context }

// Covers reports whether the glob covers a canonical name: with one segment in place of the `*`, or
// several if recursive.
func (g Glob) Covers(name string, recursive bool) bool {
	path, context := CutContext(name)
	rest, within := strings.CutPrefix(path, g.prefix)
	if !within || context != g.context {
		return false
	}
	i := strings.LastIndexByte(rest, '/')
	last := rest[i+1:]
	return last != "" && last != Wildcard && (i < 0 || recursive)
}

// CutContext splits a canonical xdstp name at its question mark. context begins with it.
func CutContext(name string) (path, context string) {
	if i := strings.IndexByte(name, '?'); i >= 0 {
		return name[:i], name[i:]
	}
	return name, ""
}
