package relay

import (
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// scope is what a set and the names of a type have in common. Each is asked on one lane, and is
// guarded and frozen as a whole. Guarded by its shard's lock.
type scope struct {
	// Set once, by newSet or newShard.
	shard    *shard
	of       scoped
	selector string // of a set: Wildcard, or the canonical name it is asked by; else empty
	spelt    string // as the client wrote it who asked first, if that is another (NAME-9)

	guard guard
	from  *xds.Provenance // of the last response that concerned it
}

// scoped is what a *set and the *namedTable do differently.
type scoped interface {
	// stream is how that stands on which it was asked last.
	stream() gate.Stream
	// subject is what a freeze has to know of it, but for its class.
	subject() gate.Subject
	// standsIn reports whether its content is that of the last resort.
	standsIn() bool
	// size is how many names have a body.
	size() int
	// each calls f with all that is known in it, and lookUp finds what is known of a resource.
	each(f func(known))
	lookUp(name string) (k known, is bool)

	// omits reports whether what the response leaves out is gone, and listsAll whether the one that
	// is being applied is known to leave out nothing.
	omits(*update) bool
	listsAll(rev uint64) bool
	// answers are the variants of a name that the stream of generation gen may remove, and whether
	// that stream has brought them.
	answers(name string, gen uint32) (held []*xds.Variant, seen bool)
	// remove applies the removal of a resource by the stream. kept: the guard or a freeze holds it
	// back. It reports whether a body was removed.
	remove(id xds.Identity, gen uint32, kept bool) bool
	// drop applies that a list leaves the resource out.
	drop(known)
	// release removes what the guard held back, and returns how many resources that is.
	release(*guard) int
}

// bodies are what is held of a resource.
func (c *scope) bodies(name string) []*xds.Variant {
	if k, is := c.of.lookUp(name); is {
		return k.variants
	}
	return nil
}

// held is what an entry and a member of a set have in common: the variants of one name, and which
// stream stated them. Guarded by the shard's lock.
type held struct {
	name string // canonical
	// variants are of one resource, by constraints: that of the name, or, of an entry alone, one
	// that lists the name as an alias. Those of an entry are changed by hold, cut and empty.
	variants []*xds.Variant
	// gen is the generation of the stream that all else is as of: on which an entry was asked last,
	// or which has spoken of the name since; 0: none.
	gen    uint32
	source bodySource
	// touched: within one response, it is in namedTable.touched, or in set.touched.
	touched touch
}

// bodySource is where the body of a name comes from.
type bodySource uint8

const (
	fromEarlier bodySource = iota // a stream before, or there is none
	fromStream                    // the stream
	// fromLapsed: none, since the name left the request. It may have come back (lapse.go).
	fromLapsed
	fromOthers // other parameter maps (RELAY-68, silence.go)
	// fromDoubted: either of these. The stream has stated that there is none, perhaps for another
	// parameter map (silence.go).
	fromDoubted
)

// touch is whether a response concerns a name, and how.
type touch uint8

const (
	untouched touch = iota
	spokenOf        // by the origin, or its content changed
	bare            // the origin spoke of the name without a body
)

// onMentioned: the stream has the resource, whether the body that is held was taken from it or not.
func (h *held) onMentioned(gen uint32) { h.gen, h.source = gen, fromStream }

// hasLeft reports whether the name has left the request since its body came, and may have come
// back.
func (h *held) hasLeft() bool { return h.source == fromLapsed }

// in reports whether any of the names is that of what is held, or of the resource.
func (h *held) in(names map[string]bool) bool {
	return names[h.name] || len(h.variants) > 0 && names[h.variants[0].Name]
}

// seenOn reports whether the stream has brought the body, or mentioned it.
func (h *held) seenOn(gen uint32) bool { return h.source == fromStream && h.gen == gen }

// member is one name of the set: its variants by constraints.
type member struct {
	held
	listed uint64 // revision of the last response that listed it
	// in the view of those who are told no TTLs, since it was offered last: an item, or a place of
	// one that has not changed (segment.go), or neither
	item  *item
	place place
}

func newMember(name string) *member { return &member{held: held{name: name}} }
