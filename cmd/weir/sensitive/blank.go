package sensitive

import (
	"github.com/cncf/xds/go/udpa/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-xds/weir/relay/xds"
)

// blanked replaces sensitive values.
const blanked = "[blanked]"

// maxShown bounds the memory, in bytes, that a resource may need when it is decoded to be shown. A
// route configuration of 10,000 routes needs a fifth of it.
const maxShown = 64 << 20

// Blank blanks what Envoy's API marks as sensitive: private keys, passwords and the like, also
// inside listeners and clusters. Messages of unknown types stay as they are. A resource that is too
// large or too deep to be decoded is replaced by a google.protobuf.StringValue that says so.
func Blank(body *anypb.Any) {
	_, err := xds.Known.Any([]byte(body.GetTypeUrl()), body.GetValue(), xds.Bound{Memory: maxShown, Follow: true})
	if err != nil {
		_ = body.MarshalFrom(wrapperspb.String("[not shown: " + err.Error() + "]")) // it has no error
		return
	}
	blank(body)
}

// blank is Blank for what can be decoded.
func blank(body *anypb.Any) {
	m, err := body.UnmarshalNew()
	if err != nil {
		return
	}
	blankFields(m.ProtoReflect(), false)
	if value, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m); err == nil {
		body.Value = value
	}
}

// blankFields blanks the sensitive fields of m at any depth; all: every field.
func blankFields(m protoreflect.Message, all bool) {
	if body, ok := m.Interface().(*anypb.Any); ok {
		if all {
			proto.Reset(body) // a type and a mask would be no message
			return
		}
		blank(body)
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		hide := all || isSensitive(f)
		switch {
		case f.IsMap():
			blankMap(m, f, v.Map(), hide)
		case f.IsList() && f.Message() == nil:
			if hide {
				m.Clear(f)
			}
		case f.IsList():
			for i := range v.List().Len() {
				blankFields(v.List().Get(i).Message(), hide)
			}
		case f.Message() != nil:
			blankFields(v.Message(), hide)
		case hide:
			blankScalar(m, f)
		}
		return true
	})
}

func blankMap(m protoreflect.Message, f protoreflect.FieldDescriptor, entries protoreflect.Map, hide bool) {
	if hide {
		m.Clear(f) // keys may reveal as much as values
		return
	}
	if f.MapValue().Message() == nil {
		return
	}
	entries.Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
		blankFields(v.Message(), false)
		return true
	})
}

// blankScalar shows that there was a value, if the type allows that.
func blankScalar(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch f.Kind() {
	case protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString(blanked))
	case protoreflect.BytesKind:
		m.Set(f, protoreflect.ValueOfBytes([]byte(blanked)))
	default:
		m.Clear(f)
	}
}

func isSensitive(f protoreflect.FieldDescriptor) bool {
	options, ok := f.Options().(*descriptorpb.FieldOptions)
	return ok && proto.HasExtension(options, annotations.E_Sensitive) &&
		proto.GetExtension(options, annotations.E_Sensitive).(bool)
}
