package xds

import "strings"

// Glob is what a glob's name says of its members': the part before the last segment, and the
// context.
type Glob struct{ prefix, context string }

// GlobOf reads a glob in canonical form.
func GlobOf(selector string) Glob {
	path, context := CutContext(selector)
	return Glob{strings.TrimSuffix(path, Wildcard), context}
}

// Covers reports whether a canonical name is a member's: one segment in place of the last, or
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

// CutContext splits a canonical xdstp name at its question mark, which is in the second part.
func CutContext(name string) (path, context string) {
	if i := strings.IndexByte(name, '?'); i >= 0 {
		return name[:i], name[i:]
	}
	return name, ""
}
