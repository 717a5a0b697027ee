package relay

import "github.com/weir-xds/weir/relay/xds"

// held is what an entry and a member of a set have in common: what the table holds of one name, and
// by the word of which stream. Guarded by the shard's lock.
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
	// fromLeftOut: besides, a list that may be of before it came back has left it out.
	fromLeftOut
	fromOthers // other parameter maps (RELAY-68, stale.go)
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
	// in the view of those who are told no TTLs, since it was offered last; nil: none
	item *item
}

func newMember(name string) *member { return &member{held: held{name: name}} }
