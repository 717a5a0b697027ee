package relaytest

import (
	"fmt"
	"strconv"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// wrapperType is the type of a SotW resource that carries name, version or TTL of its own
// (SOTW-13).
const wrapperType = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// RedirectType is a payload exempt from the type check (COLL-8).
const redirectType = "type.googleapis.com/xds.core.v3.ResourceLocator"

// Resource is one resource as an Origin sends it, in whichever dialect the stream speaks. It must
// not be modified once given to an Origin.
type Resource struct {
	Name    string
	Version string     // may be empty, as some origins leave it
	Body    *anypb.Any // nil: a heartbeat (TTL-2)
	Aliases []string
	TTL     time.Duration // 0: none; negative values are sent as they are
	// DoNotCache says so in cache_control. Sent wrapped in SotW.
	DoNotCache bool

	// Constraints makes this a variant: the name is then sent as resource_name (DYN-16). Scripted
	// answers, and origins with TP2, only.
	Constraints *Constraints

	// Located sends the name as resource_name although nothing constrains it. Scripted answers
	// only.
	Located bool

	// Wrapped sends the resource as envoy.service.discovery.v3.Resource in SotW, as a heartbeat, a
	// TTL and a variant are anyway.
	Wrapped bool
}

// delta returns the resource as a delta response carries it.
func (r *Resource) delta() *discovery.Resource {
	d := &discovery.Resource{Version: r.Version, Aliases: r.Aliases, Resource: r.Body}
	if r.Constraints == nil && !r.Located {
		d.Name = r.Name
	} else {
		d.ResourceName = &discovery.ResourceName{Name: r.Name, DynamicParameterConstraints: r.Constraints}
	}
	if r.DoNotCache {
		d.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	if r.TTL != 0 {
		d.Ttl = durationpb.New(r.TTL)
	}
	return d
}

// key is what tells the resource from other variants of its name.
func (r *Resource) key() string { return VariantKey(r.Name, r.Constraints) }

// sotw returns the resource as a SotW response carries it.
func (r *Resource) sotw() *anypb.Any {
	if !r.Wrapped && !r.DoNotCache && r.TTL == 0 && r.Body != nil && r.Constraints == nil && !r.Located {
		return r.Body
	}
	return &anypb.Any{TypeUrl: wrapperType, Value: Marshal(r.delta())}
}

// bodyName reads the name inside a payload: protobuf field 1, which is the name in every type that
// SotW can carry bare (name, cluster_name). Empty if there is none or the payload is no protobuf.
// The last occurrence counts, as in any decoder.
func bodyName(body []byte) string {
	name := ""
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return ""
		}
		body = body[n:]
		if number == 1 && kind == protowire.BytesType {
			v, n := protowire.ConsumeBytes(body)
			if n < 0 {
				return ""
			}
			name, body = string(v), body[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, body); n < 0 {
			return ""
		}
		body = body[n:]
	}
	return name
}

// Marshal encodes with a stable field order, so that equal messages have equal bytes.
func Marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("relaytest: cannot encode a message of its own: " + err.Error())
	}
	return b
}

// codec sends protobuf messages and raw bytes alike and receives only raw bytes, so that a peer can
// send garbage and decide itself what to think of garbage it receives. It calls itself proto: on
// the wire nothing differs.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case []byte:
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	case proto.Message:
		b, err := proto.Marshal(v)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("cannot send a %T", v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	raw, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive into a %T", v)
	}
	*raw = data.Materialize()
	return nil
}

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
	Eager      bool // send without waiting for ACKs

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
