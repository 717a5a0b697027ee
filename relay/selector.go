package relay

import (
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// selectorKind tells what stands for more resources than one.
type selectorKind uint8

const (
	// wild is `*`: what the origin chooses for the node (WILD-1).
	wild selectorKind = iota
	// glob is an xdstp name whose last segment is `*`: the resources with one segment in its place
	// (COLL-1).
	glob
	// namespace is the bare name of a route configuration: its virtual hosts (ALIAS-6). A host of
	// that very name, without a slash, is one of them: there are origins that do not name hosts as
	// the documents say.
	namespace
)

// maxGlobDepth bounds the levels above a resource in which a glob is looked for, where one reaches
// to any depth: names are an origin's to choose.
const maxGlobDepth = 64

// collections are the globs and namespaces of a shard. Guarded by the shard's lock.
type collections struct {
	shard *shard // set once, by newShard

	byName map[string]*set // nil: none
	// barred are the sets that are barred (set.go), by selector. That of `*` is one of them.
	barred  map[string]*set // nil: none
	changed []*set          // to be looked at by their lane
	// spacesGen is the generation of the main lane in which namespaces were first asked, and
	// spacesAt when.
	spacesGen uint32
	spacesAt  time.Time
	// Of the last response that may have had to do with collections: its stream, and whether a part
	// of it was refused.
	gen uint32
	bad bool
}

// selectorOf tells whether a name that a client asks for, in canonical form, stands for a
// collection. An origin that speaks state of the world cannot be asked for one (COLL-2, ALIAS-7).
// spaces are names that are namespaces though they have slashes.
func (s *shard) selectorOf(name string, spaces map[string]bool) (k selectorKind, ok bool) {
	switch {
	case !s.group.origin.Selects():
		return 0, false
	case xds.IsNewStyle(name):
		u, err := xds.ParseURN(name)
		return glob, err == nil && u.Glob()
	case xds.IsVirtualHost(s.typeURL):
		return namespace, spaces[name] || !strings.Contains(name, "/")
	}
	return 0, false
}

// Covers reports whether the name is that of a member of the glob, if it is one (COLL-1, COLL-5).
func (o *Origin) Covers(selector, name string) bool {
	u, err := xds.ParseURN(selector)
	return err == nil && u.Glob() && xds.GlobOf(u.String()).Covers(xds.NameKey(name), o.config().RecursiveGlobs)
}

// includes reports whether the set may have a resource of that name, which is canonical.
func (t *set) includes(name string) bool {
	switch t.kind {
	case glob:
		return t.reach.Covers(name, t.shard.group.config().RecursiveGlobs)
	case namespace:
		i := strings.LastIndexByte(name, '/')
		return i < 0 && name == t.selector || i >= 0 && name[:i] == t.selector && !xds.IsNewStyle(name)
	}
	return true
}

// eachOf calls f with every collection, asked on the stream of generation gen, that may have
// a resource of that name.
func (c *collections) eachOf(gen uint32, name string, f func(*set)) {
	c.covering(name, func(t *set) {
		if t.askedGen == gen {
			f(t)
		}
	})
}

// askedOn reports whether any collection was asked on the stream of generation gen.
func (c *collections) askedOn(gen uint32) bool {
	for _, t := range c.byName {
		if t.askedGen == gen {
			return true
		}
	}
	return false
}

// covering calls f with every collection that may have a resource of that name. It looks for
// them by the name's own parts: there may be many.
func (c *collections) covering(name string, f func(*set)) {
	if len(c.byName)+len(c.barred) == 0 {
		return
	}
	look := func(selector string) {
		if t := c.byName[selector]; t != nil && t.includes(name) {
			f(t)
		}
		if t := c.barred[selector]; t != nil && t.includes(name) {
			f(t)
		}
	}
	if !xds.IsNewStyle(name) {
		look(name)
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			look(name[:i])
		}
		return
	}
	if _, err := xds.CanonicalName(name); err != nil {
		return // an origin's, that nobody could ask for
	}
	path, context := xds.CutContext(name)
	for range maxGlobDepth {
		i := strings.LastIndexByte(path, '/')
		if i <= len(xds.Scheme)+len("/") {
			return
		}
		path = path[:i]
		look(path + "/" + xds.Wildcard + context)
		if !c.shard.group.config().RecursiveGlobs {
			return
		}
	}
}

// set finds or makes the set of a name that stands for one.
func (c *collections) set(name, spelt string, k selectorKind) *set {
	t := c.byName[name]
	if t == nil {
		t = c.newSet(name, spelt, k)
		if c.byName == nil {
			c.byName = map[string]*set{}
		}
		c.byName[t.selector] = t
	}
	return t
}

func (c *collections) newSet(name, spelt string, k selectorKind) *set {
	name = strings.Clone(name)
	t := newSet(c.shard, name)
	t.kind, t.spelt = k, strings.Clone(spelt)
	if k == glob {
		t.reach = xds.GlobOf(name)
	}
	return t
}

// bar finds or makes the barred set of a selector.
func (c *collections) bar(name, spelt string, k selectorKind) *set {
	t := c.barred[name]
	if t == nil {
		t = c.newSet(name, spelt, k)
		t.barred, t.settled, t.firm = true, true, true
		if c.barred == nil {
			c.barred = map[string]*set{}
		}
		c.barred[t.selector] = t
	}
	return t
}

// sets calls f with every set of the shard.
func (s *shard) sets(f func(*set)) {
	f(s.star)
	// a range costs as much as all that is done for a map that a response does not concern
	if len(s.collections.byName) == 0 {
		return
	}
	for _, t := range s.collections.byName {
		f(t)
	}
}

// wantsSet reports whether the main lane has a set of the type to carry (RELAY-20).
func (s *shard) wantsSet() bool {
	if s.star.wanted() {
		return true
	}
	for _, t := range s.collections.byName {
		if t.kind == namespace && t.wanted() {
			return true
		}
	}
	return false
}

// hasNames reports whether there is something to be asked on the lane of the type's names:
// names, or globs.
func (s *shard) hasNames() bool {
	if len(s.named.entries) > 0 {
		return true
	}
	for _, t := range s.collections.byName {
		if t.kind == glob {
			return true
		}
	}
	return false
}
