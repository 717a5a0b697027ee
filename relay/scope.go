package relay

import "github.com/weir-xds/weir/relay/gate"

// scope is what a set and the names of a type have in common: it is asked on one lane, and what the
// origin says of it is guarded and frozen as one. Guarded by its shard's lock.
type scope struct {
	// Set once, by newSet or newShard.
	shard    *shard
	of       scoped
	selector string // of a set: Wildcard, or the canonical name it is asked by; else empty
	spelt    string // as the client wrote it who asked first, if that is another (NAME-9)

	guard guard
	from  *provenance // of the last response that said something of what is in it
}

// scoped is in what they differ: a *set, or the *namedTable.
type scoped interface {
	// stream is how that stands on which it was asked last.
	stream() gate.Stream
	// subject is what a freeze has to know of it, but for its class.
	subject() gate.Subject
	// mass is of how many resources the origin's removals are a part.
	mass() int
	// isFallback reports whether what is held of a resource is of the last resort.
	isFallback(identity) bool
	// bodies are what is held of a resource of that name.
	bodies(name string) []*Variant
	// release removes what the guard held back, and returns how many resources that is.
	release(*guard) int
}
