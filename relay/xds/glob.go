package xds

import "strings"

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
