package xds

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Update is the content of one response, structurally checked. Lane.Apply takes it.
type Update struct {
	TypeURL   string
	Resources []Resource
	// Removed are names stated not to exist. They are canonical, like all names in an Update.
	Removed []string
	// RemovedVariants are removed by name and constraints (DYN-14), from every parameter map that
	// those match.
	RemovedVariants []RemovedVariant
	// Errors are sent about names instead of resources (ABS-7).
	Errors []*NameError
	// Full: every member of the set is listed, so others are gone if the type's rules say so
	// (DEL-2). Set for SotW.
	Full bool
	// Whole are collections all members of which are listed, so they need not settle. Only file
	// origins set it.
	Whole []string
	// For limits the Update to what was asked with these parameters, also in what is left out; nil:
	// no limit. Only file origins set it.
	For *constraints.Params
	// Heartbeats: a SotW response in which no resource has a payload. It lists no set, so Full is
	// false (TTL-12).
	Heartbeats bool
	// Bad: a part of the response was rejected, so what it leaves out is not taken as removed
	// (RELAY-32).
	Bad bool
	// Over: nothing of the response was read, since it has more elements than its origin may fill.
	Over bool
	// Refused are the names of the rejected parts that have one; Unread: there are others.
	Refused []string
	Unread  bool
	// Reasons are the reasons for Refused, by index. It may be shorter.
	Reasons []string
	// EmptyOr counts the constraints with an `or` of nothing, which matches nothing: valid, but
	// hardly intended.
	EmptyOr int
	// Version is the version_info of a SotW response.
	Version string

	// Wire: it came over the wire, from an origin that may have ignored locators.
	Wire bool
	// Repeats are the numbers of the resources that Held has a body of. They are not read, and not
	// among Resources.
	Repeats []int32
	Held    Held
}

// RemovedVariant identifies one variant of a name: Constraints is Set's key.
type RemovedVariant struct {
	Name, Constraints string
	Set               *constraints.Set
}

func (r RemovedVariant) Identity() Identity { return Identity{r.Name, r.Constraints} }

// RejectError says why parts of a response were rejected. It becomes the NACK's error_detail
// (ERR-10).
type RejectError struct {
	TypeURL string
	Reasons []string // one for each rejected resource, with its name
	Limit   string   // LimitResources or LimitBytes, if that is why; else ""
}

// maxRejectMessage bounds the text sent upstream, in bytes (ERR-10).
const maxRejectMessage = 4 << 10

func (e *RejectError) Error() string {
	s := e.TypeURL + ": " + strings.Join(e.Reasons, "; ")
	if len(s) > maxRejectMessage {
		s = strings.ToValidUTF8(s[:maxRejectMessage-3], "") + "..."
	}
	return s
}

// And adds why more of the same response was rejected; nil: nothing was.
func (e *RejectError) And(more *RejectError) *RejectError {
	switch {
	case more == nil:
		return e
	case e == nil:
		return more
	}
	return &RejectError{TypeURL: e.TypeURL, Reasons: slices.Concat(more.Reasons, e.Reasons), Limit: cmp.Or(more.Limit, e.Limit)}
}

// NameFields are the numbers of the fields that have the name of a bare SotW resource, by type URL;
// 0: it has no name. Types that are not in it use field 1 if they are Named, and otherwise too if
// field 1 reads like a name.
type NameFields map[string]int

// bareName returns the name in the payload of a bare resource; "" if it has none (RELAY-18).
func (f NameFields) bareName(typeURL string, payload []byte) string {
	field, configured := f[typeURL]
	switch {
	case Named(typeURL):
		return StringField(payload, 1)
	case configured && field > 0:
		return StringField(payload, protowire.Number(field))
	case configured || typeURL == LbEndpointType:
		return ""
	}
	name := StringField(payload, 1)
	// A message in that field would begin with a tag, which mostly is a control character, or not
	// be UTF-8 at all.
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return ""
	}
	return name
}

// Held has the bodies that are held of a response's resources, byte for byte, so that Accept need
// not read those.
type Held interface {
	// Held returns the held body of the resource with this number in the response; nil: there is
	// none.
	Held(number int) *Variant
}

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
