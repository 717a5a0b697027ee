package xds

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxAnyDepth bounds how deeply Anys within Anys are followed; configurations need about six
// levels.
const maxAnyDepth = 16

// CanonicalMessage returns an encoded message with its map entries sorted, for origins that
// serialise them in any order. It is for hashing only and is never sent (VER-6). Anys within it are
// sorted, too. Messages that are unknown or do not decode stay as received. The order may change
// between builds: then replicas of different builds give different versions, which costs one
// resend.
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

// orderAnys sorts the Anys in a message.
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
