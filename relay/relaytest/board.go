package relaytest

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Behaviour is how a serving Origin departs from the plain honest server that its zero value is:
// delta subscriptions answered in full, absence stated, initial versions honoured, one unanswered
// response per type.
type Behaviour struct {
	Identifier string // of the control plane; empty: "relaytest"

	// delta: send everything on a new stream, and no removals for what is gone
	IgnoreInitialVersions bool
	// delta: say nothing about subscribed names that do not exist, as some servers do
	NoAbsence     bool
	EmptyVersions bool // send empty version_info, system_version_info and resource versions
	// SotW: a first request that states the present version_info gets no answer
	ResumeSotW bool
	WrapSotW   bool // SotW: every resource in a Resource wrapper
	// TP2: answer locators in the form of plain names, as if there were no constraints
	OmitConstraints bool
	// TP2: say with the constraints k=v of a locator that there is nothing for it; false: by the
	// plain name
	AbsentByConstraints bool
	Eager               bool // send without waiting for ACKs

	// OnlyIfAllExist are types of which names are answered in SotW only if every name asked exists,
	// as java-control-plane does in ADS mode; OnlyIfAllAsked, only if every resource is asked, as
	// go-control-plane does.
	OnlyIfAllExist, OnlyIfAllAsked map[string]bool

	// Chunk cuts delta answers into responses of at most so many resources, Pause apart. Zero: not
	// cut.
	Chunk int
	Pause time.Duration

	Mute map[string]bool  // by type URL: never answered
	Kill map[string]error // by type URL: a request for it ends the stream with this
}

func (b *Behaviour) identifier() string {
	if b.Identifier == "" {
		return "relaytest"
	}
	return b.Identifier
}

// board is the state a serving origin offers. Guarded by Origin.mu.
type board struct {
	behaviour Behaviour
	// by type URL and VariantKey; a *Resource never changes
	types    map[string]map[string]*Resource
	revision map[string]int    // by type URL: counts changes, is the version_info
	pinned   map[string]string // by type URL: version_info given by the test
	batching bool
}

func newBoard(b Behaviour) board {
	return board{
		behaviour: b, types: map[string]map[string]*Resource{}, revision: map[string]int{}, pinned: map[string]string{},
	}
}

// version is the type's version_info of now.
func (b *board) version(typeURL string) string {
	if b.behaviour.EmptyVersions {
		return ""
	}
	if v, ok := b.pinned[typeURL]; ok {
		return v
	}
	return strconv.Itoa(b.revision[typeURL])
}

func (b *board) put(typeURL string, r *Resource) {
	if b.types[typeURL] == nil {
		b.types[typeURL] = map[string]*Resource{}
	}
	b.types[typeURL][r.key()] = r
	b.revision[typeURL]++
}

// Set puts a resource in place and tells the streams that want it, even if nothing is different.
// body is an *anypb.Any, sent as it is, or any other proto.Message, which is packed.
func (o *Origin) Set(typeURL, name, version string, body proto.Message) {
	packed, ok := body.(*anypb.Any)
	if !ok {
		packed = Body(body)
	}
	o.Put(typeURL, Resource{Name: name, Version: version, Body: packed})
}

// Put is Set for a resource with more to it than a body.
func (o *Origin) Put(typeURL string, r Resource) {
	o.change(func(b *board) { b.put(typeURL, &r) })
}

// Remove deletes a resource, or the variant of a VariantKey, and tells the streams that want it.
// Removing what is not there does nothing.
func (o *Origin) Remove(typeURL, key string) {
	o.change(func(b *board) {
		if _, ok := b.types[typeURL][key]; ok {
			delete(b.types[typeURL], key)
			b.revision[typeURL]++
		}
	})
}

// Replace makes resources the whole set of the type, as one change. Those with the version and the
// bytes of before count as unchanged.
func (o *Origin) Replace(typeURL string, resources ...Resource) {
	o.change(func(b *board) {
		old := b.types[typeURL]
		b.types[typeURL] = make(map[string]*Resource, len(resources))
		for i := range resources {
			r := &resources[i]
			if was := old[r.key()]; was != nil && was.Version == r.Version && proto.Equal(was.Body, r.Body) {
				r = was
			}
			b.types[typeURL][r.key()] = r
		}
		b.revision[typeURL]++
	})
}

// SetVersionInfo pins the version_info (SotW) and system_version_info (delta) of the type, which
// otherwise counts changes.
func (o *Origin) SetVersionInfo(typeURL, version string) {
	o.change(func(b *board) { b.pinned[typeURL] = version })
}

// Behave changes the behaviour.
func (o *Origin) Behave(edit func(*Behaviour)) {
	o.change(func(b *board) { edit(&b.behaviour) })
}

// Batch makes the changes within do visible at once: nothing is sent until it returns. Batches do
// not nest.
func (o *Origin) Batch(do func()) {
	o.mu.Lock()
	o.board.batching = true
	o.mu.Unlock()
	do()
	o.change(func(b *board) { b.batching = false })
}

// change edits the board and queues what each stream must hear of it.
func (o *Origin) change(edit func(*board)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	edit(&o.board)
	if !o.cfg.Serving || o.board.batching {
		return
	}
	for _, s := range o.streams {
		if !s.ended {
			s.answer()
		}
	}
}
