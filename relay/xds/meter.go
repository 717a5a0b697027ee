package xds

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// MaxDepth is how deeply messages may be nested in a resource or a request, those in a
// google.protobuf.Any included. Envoy's protobuf library does not decode more, and whatever walks
// through messages here recurses.
const MaxDepth = 100

// MaxAnys is how many google.protobuf.Any may be nested in one another. Configurations need about
// six. Libraries that write and read JSON handle the contents of an Any once for each Any around
// it, so their work grows with the square of this depth.
const MaxAnys = 16

// Bound is what an encoded message may need when it is decoded.
type Bound struct {
	// Memory is in bytes, as estimated by Meter; 0: any number.
	Memory int
	// Follow: the contents of a google.protobuf.Any of a known type count, too. They are decoded by
	// whatever writes JSON or looks for secrets, and not by proto.Unmarshal.
	Follow bool
}

// BoundError says which bound a message exceeds.
type BoundError struct {
	what string
	most int
}

// Error implements error.
func (e *BoundError) Error() string { return fmt.Sprintf(e.what, e.most) }

const (
	tooDeep   = "messages are nested more than %d deep"
	tooNested = "more than %d google.protobuf.Any are nested in one another"
	tooBig    = "decoded it needs more than %d bytes of memory"
)

// Meter estimates what encoded messages need when they are decoded, before they are. An empty
// message in a repeated field has two bytes, and needs a hundred when it is decoded. A Meter reads
// in place, as [Fields] does, and is for concurrent use. What it knows of a type is made with its
// first message and kept.
type Meter struct {
	types protoregistry.MessageTypeResolver

	mu     sync.RWMutex // guards what follows; a leaf
	shapes map[protoreflect.FullName]*shape
}

// Known is the Meter of all types that are linked in.
var Known = NewMeter(protoregistry.GlobalTypes)

// NewMeter returns a Meter for the types of a resolver.
func NewMeter(types protoregistry.MessageTypeResolver) *Meter {
	return &Meter{types: types, shapes: map[protoreflect.FullName]*shape{}}
}

// Message estimates the memory, in bytes, that an encoded message of a type needs when it is
// decoded. The error is a *BoundError. A message that does not decode is measured up to the fault:
// the decoder reports that, and has used as much by then.
func (m *Meter) Message(t protoreflect.MessageType, b []byte, bound Bound) (memory int, err error) {
	w := measure{meter: m, bound: bound}
	w.message(m.shapeOf(t), b, 1)
	return w.memory, w.error()
}

// Any is like Message, for the content of a google.protobuf.Any. Without a descriptor of its type
// it is bytes.
func (m *Meter) Any(typeURL, value []byte, bound Bound) (memory int, err error) {
	w := measure{meter: m, bound: bound}
	if w.pay(len(typeURL) + len(value)) {
		w.content(typeURL, value, 1)
	}
	return w.memory, w.error()
}

// Unmarshal is proto.Unmarshal for what a peer sent. It fails if the message would need more than
// so many bytes of memory, or is nested more deeply than MaxDepth.
func Unmarshal(b []byte, m proto.Message, memory int) error {
	if _, err := Known.Message(m.ProtoReflect().Type(), b, Bound{Memory: memory}); err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

// shapeOf returns the shape of a type. It locks the meter.
func (m *Meter) shapeOf(t protoreflect.MessageType) *shape {
	name := t.Descriptor().FullName()
	m.mu.RLock()
	s := m.shapes[name]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shape(t)
}

// measure is one measurement.
type measure struct {
	meter  *Meter
	bound  Bound
	memory int
	anys   int // around what is being looked at
	over   string
	most   int
}

func (w *measure) error() error {
	if w.over == "" {
		return nil
	}
	return &BoundError{w.over, w.most}
}

func (w *measure) exceed(what string, most int) { w.over, w.most = what, most }

// pay counts memory. It reports whether to go on.
func (w *measure) pay(n int) bool {
	w.memory += n
	if w.bound.Memory > 0 && w.memory > w.bound.Memory {
		w.exceed(tooBig, w.bound.Memory)
	}
	return w.over == ""
}

// message measures a message at a depth. The stack is bounded by MaxDepth.
func (w *measure) message(s *shape, b []byte, depth int) {
	if depth > MaxDepth {
		w.exceed(tooDeep, MaxDepth)
		return
	}
	if !w.pay(s.size) {
		return
	}
	if w.bound.Memory == 0 && w.shallow(s, b, depth) {
		return
	}
	for f, left := Walk(b), len(b); w.over == "" && f.Next(); left = f.Left() {
		w.field(s.field(f.Number), &f, left-f.Left(), depth)
	}
	if s.isAny && w.bound.Follow && w.over == "" {
		w.any(b, depth)
	}
}

// The fewest bytes of a message around another one, and of a google.protobuf.Any around another
// one: "google.protobuf.Any" has 19.
const leastMessage, leastAny = 2, 19

// shallow reports whether nothing in a message can be nested too deeply.
func (w *measure) shallow(s *shape, b []byte, depth int) bool {
	return s.flat || s.isAny && !w.bound.Follow ||
		len(b) < leastMessage*(MaxDepth-depth) && len(b) < leastAny*(MaxAnys-w.anys)
}

// field measures one occurrence of a field, which has size bytes on the wire.
func (w *measure) field(p *part, f *Fields, size, depth int) {
	switch {
	case p == nil:
		w.pay(2 * size) // kept as it is, in a list of bytes that grows
	case !w.pay(p.each):
	case f.Bytes == nil:
	case p.message != nil:
		w.message(p.message, f.Bytes, depth+1)
	case p.packed > 0:
		w.pay(p.packed * len(f.Bytes))
	default:
		w.pay(len(f.Bytes))
	}
}

// any measures what is in an encoded google.protobuf.Any.
func (w *measure) any(b []byte, depth int) {
	typeURL, value, _ := AnyParts(b) // as far as it decodes
	if w.anys++; w.anys > MaxAnys {
		w.exceed(tooNested, MaxAnys)
		return
	}
	w.content(typeURL, value, depth+1)
	w.anys--
}

func (w *measure) content(typeURL, value []byte, depth int) {
	t, err := w.meter.types.FindMessageByURL(string(typeURL))
	if err == nil {
		w.message(w.meter.shapeOf(t), value, depth)
	}
}

// maxCanonical bounds the memory, in bytes, that a message may need when it is decoded to be put in
// order.
const maxCanonical = 64 << 20

// CanonicalMessage returns an encoded message with its map entries sorted, for origins that
// serialise them in any order. It is for hashing only and is never sent (VER-6). Anys within it are
// sorted, too. Messages that are unknown, do not decode or are too large to be decoded stay as
// received. The order may change between builds: then replicas of different builds give different
// versions, which costs one resend.
func CanonicalMessage(typeURL string, b []byte) []byte {
	if _, err := Known.Any([]byte(typeURL), b, Bound{Memory: maxCanonical, Follow: true}); err != nil {
		return b
	}
	return canonical(typeURL, b)
}

// canonical is CanonicalMessage for what was measured.
func canonical(typeURL string, b []byte) []byte {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		return b
	}
	m := t.New()
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, m.Interface()); err != nil {
		return b
	}
	orderAnys(m)
	ordered, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		return b
	}
	return ordered
}

// orderAnys sorts the Anys in a message.
func orderAnys(m protoreflect.Message) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		a.Value = canonical(a.TypeUrl, a.Value)
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				orderAnys(v.Message())
				return true
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i, l := 0, v.List(); i < l.Len(); i++ {
				orderAnys(l.Get(i).Message())
			}
		default:
			orderAnys(v.Message())
		}
		return true
	})
}
