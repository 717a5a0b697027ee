package xds

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxAnyDepth bounds how deep messages within messages are followed; configurations need about six.
const maxAnyDepth = 16

// CanonicalMessage is an encoded message with its map entries in order, for an origin whose
// serialiser writes them in any order: to be hashed only, never to be sent (VER-6). The Anys within
// are put in order too, as most of a configuration is in them. What the process does not know, or
// cannot read, stays as received. Which order that is may change with the build: replicas of
// different builds may give different versions, which costs one resend.
func CanonicalMessage(typeURL string, b []byte) []byte { return canonicalTo(typeURL, b, maxAnyDepth) }

func canonicalTo(typeURL string, b []byte, depth int) []byte {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		return b
	}
	m := t.New()
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, m.Interface()); err != nil {
		return b
	}
	orderAnys(m, depth)
	ordered, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		return b
	}
	return ordered
}

// orderAnys makes the Anys in a message canonical.
func orderAnys(m protoreflect.Message, depth int) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		if depth > 0 {
			a.Value = canonicalTo(a.TypeUrl, a.Value, depth-1)
		}
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				orderAnys(v.Message(), depth)
				return true
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i, l := 0, v.List(); i < l.Len(); i++ {
				orderAnys(l.Get(i).Message(), depth)
			}
		default:
			orderAnys(v.Message(), depth)
		}
		return true
	})
}
