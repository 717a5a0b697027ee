package relay

import (
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// scope is what a set and the names of a type have in common: it is asked on one lane, and what the
// origin says of it is guarded and frozen as one. Guarded by its shard's lock.
type scope struct {
	// Set once, by newSet or newShard.
	shard    *shard
	of       scoped
	selector string // of a set: Wildcard, or the canonical name it is asked by; else empty
	spelt    string // as the client wrote it who asked first, if that is another (NAME-9)

	guard guard
	from  *xds.Provenance // of the last response that said something of what is in it
}

// scoped is in what they differ: a *set, or the *namedTable.
type scoped interface {
	// stream is how that stands on which it was asked last.
	stream() gate.Stream
	// subject is what a freeze has to know of it, but for its class.
	subject() gate.Subject
	// standsIn reports whether what is in it is of the last resort.
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
	// answers is what is held of a name that the stream of generation gen may take away, and
	// whether that stream has brought it.
	answers(name string, gen uint32) (held []*xds.Variant, seen bool)
	// remove takes up that the stream has taken a resource away, kept all the same or not. It
	// reports whether it was held, and is no more.
	remove(id xds.Identity, gen uint32, kept bool) bool
	// drop takes up that a list has left out what is known.
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
