package xds

import (
	"strings"

	"github.com/weir-xds/weir/constraints"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// NameError is an error about a name, which is sent instead of a resource (TP3). It is immutable
// once published, so pointers are shared.
type NameError struct {
	Name    string // canonical
	Spelt   string // spelling for the client, if that differs from Name
	Code    uint32 // gRPC status code
	Message string
	// Constraints say for which parameter maps it holds; nil: all.
	Constraints *constraints.Set

	// Own: the origin stated the absence by a removal or a TTL, and only SotW clients need this
	// text (ABS-10). Expired: by a TTL.
	Own, Expired bool
	// HadTTL: the resource that went had a TTL, so its removal is never held back (ORD-10,
	// RELAY-50).
	HadTTL bool

	// Located: the client named it by a locator. About are the constraints to send with it, as
	// encoded fields of a ResourceName; "": none.
	Located bool
	About   string

	detail []byte // encoded google.rpc.Status, as received
}

// MaxErrorText bounds the kept text of an origin's error, in bytes.
const MaxErrorText = 4 << 10

// NewNameError makes an error with a text of our own.
func NewNameError(name string, code uint32, text string) *NameError {
	detail := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(code))
	return &NameError{Name: name, Code: code, Message: text, detail: AppendString(detail, 2, text)}
}

// ParseNameError decodes a ResourceError. It keeps MaxErrorText bytes of its text, and returns the
// constraints unchecked.
func ParseNameError(b []byte) (*NameError, *discoveryv3.DynamicParameterConstraints, error) {
	var m discoveryv3.ResourceError
	if err := Unmarshal(b, &m, sideMemory); err != nil {
		return nil, nil, err
	}
	d := m.GetErrorDetail()
	e := &NameError{Code: uint32(d.GetCode()), Message: d.GetMessage()}
	e.Name, e.Spelt = Spell(m.GetResourceName().GetName())
	if proto.Size(d) > MaxErrorText {
		d = proto.CloneOf(d)
		// half a character would not encode
		d.Details, d.Message = nil, strings.ToValidUTF8(d.Message[:min(len(d.Message), MaxErrorText)], "")
		d.ProtoReflect().SetUnknown(nil)
	}
	e.Message = d.GetMessage()
	var err error
	e.detail, err = proto.Marshal(d)
	return e, m.GetResourceName().GetDynamicParameterConstraints(), err
}

// Spelling returns the name to send to the client.
func (e *NameError) Spelling() string { return Spelling(e.Name, e.Spelt) }

// Same reports whether both state the same error: an error is sent once (ABS-7). Either may be nil,
// which is never the same.
func (e *NameError) Same(x *NameError) bool {
	return e != nil && x != nil && e.Code == x.Code && e.Message == x.Message
}

// Append appends the error as a ResourceError in the given field of a response.
func (e *NameError) Append(b []byte, field protowire.Number) []byte {
	inner := AppendResourceName(nil, 1, e.Spelling(), e.About)
	inner = protowire.AppendBytes(protowire.AppendTag(inner, 2, protowire.BytesType), e.detail)
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), inner)
}

// Size returns the approximate size of the error in a response, in bytes.
func (e *NameError) Size() int { return len(e.Name) + len(e.About) + len(e.detail) + 16 }

// AppendResourceName appends a ResourceName to a message. written are its encoded constraints; "":
// it has none.
func AppendResourceName(b []byte, field protowire.Number, name, written string) []byte {
	const nameField = 1
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(nameField)+protowire.SizeBytes(len(name))+len(written)))
	return append(AppendString(b, nameField, name), written...)
}
