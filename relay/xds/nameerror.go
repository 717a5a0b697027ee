package xds

import (
	"strings"

	"github.com/weir-xds/weir/constraints"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// NameError is what is said of a name instead of a resource (TP3). It does not change once others
// can see it, so pointers are shared.
type NameError struct {
	Name    string // canonical
	Spelt   string // the name as it is to be told, if that is not Name
	Code    uint32 // of gRPC
	Message string
	// Constraints are those of the maps that it is said of; nil: all.
	Constraints *constraints.Set

	// Own: the absence was stated otherwise, by a removal or a TTL: only SotW clients need the
	// words (ABS-10). Expired: by a TTL.
	Own, Expired bool
	// HadTTL: what went had a TTL, so its removal is never held back (ORD-10, RELAY-50).
	HadTTL bool

	// Located: it is told of a name that the client named by a locator. About are the constraints
	// that it is told with, as the fields of a ResourceName; "": none.
	Located bool
	About   string

	detail []byte // google.rpc.Status as received
}

// MaxErrorText bounds what is kept of an origin's words, in bytes.
const MaxErrorText = 4 << 10

// NewNameError is an error in words of our own.
func NewNameError(name string, code uint32, text string) *NameError {
	detail := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(code))
	return &NameError{Name: name, Code: code, Message: text, detail: AppendString(detail, 2, text)}
}

// ParseNameError reads an encoded ResourceError, of whose text no more than MaxErrorText is kept.
// The constraints in it are not judged yet.
func ParseNameError(b []byte) (*NameError, *discoveryv3.DynamicParameterConstraints, error) {
	var m discoveryv3.ResourceError
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, nil, err
	}
	d := m.GetErrorDetail()
	e := &NameError{Code: uint32(d.GetCode()), Message: d.GetMessage()}
	e.Name, e.Spelt = Spell(m.GetResourceName().GetName())
	if proto.Size(d) > MaxErrorText {
		d = proto.CloneOf(d)
		// half a character does not encode
		d.Details, d.Message = nil, strings.ToValidUTF8(d.Message[:min(len(d.Message), MaxErrorText)], "")
		d.ProtoReflect().SetUnknown(nil)
	}
	e.Message = d.GetMessage()
	var err error
	e.detail, err = proto.Marshal(d)
	return e, m.GetResourceName().GetDynamicParameterConstraints(), err
}

// Spelling is the name as it is to be told.
func (e *NameError) Spelling() string { return Spelling(e.Name, e.Spelt) }

// Same reports whether the origin said the same again: an error is stated once (ABS-7). Either may
// be nil, which is never the same.
func (e *NameError) Same(x *NameError) bool {
	return e != nil && x != nil && e.Code == x.Code && e.Message == x.Message
}

// Append adds the error as a ResourceError in the given field of a response.
func (e *NameError) Append(b []byte, field protowire.Number) []byte {
	inner := AppendResourceName(nil, 1, e.Spelling(), e.About)
	inner = protowire.AppendBytes(protowire.AppendTag(inner, 2, protowire.BytesType), e.detail)
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), inner)
}

// Size is about what the error takes in a response, in bytes.
func (e *NameError) Size() int { return len(e.Name) + len(e.About) + len(e.detail) + 16 }

// AppendResourceName adds a ResourceName to a message. Written are its constraints, encoded as its
// fields already; "": it has none.
func AppendResourceName(b []byte, field protowire.Number, name, written string) []byte {
	const nameField = 1
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(nameField)+protowire.SizeBytes(len(name))+len(written)))
	return append(AppendString(b, nameField, name), written...)
}
