package xds

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

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
