package relay

import (
	"strings"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// gRPC status codes with a meaning of their own in resource_errors (ABS-8). Every other code is
// transient.
const (
	codeNotFound           = 5
	codePermissionDenied   = 7
	codeFailedPrecondition = 9
	codeUnavailable        = 14
)

// NameError is what an origin says of a name instead of a resource (TP3). It never changes after it
// was made.
type NameError struct {
	Name    string
	Code    uint32 // of gRPC
	Message string
	// Constraints are those of the maps that it is said of; nil: all.
	Constraints *constraints.Set

	spelt  string // the name as it is to be told, if that is not Name, which is canonical
	detail []byte // google.rpc.Status as received
	// the absence was stated otherwise, by a removal or a TTL: only SotW clients need the words
	// (ABS-10)
	own   bool
	over  bool // by a TTL
	timed bool // what went had a TTL, so its removal is never held back (ORD-10, RELAY-50)

	// of a name that the client named by a locator, of which about are the constraints
	located bool
	about   string // see exact; "": none
}

// Located reports whether it is of a name that the client named by a locator.
func (e *NameError) Located() bool { return e.located }

// same reports whether the origin said the same again: an error is stated once (ABS-7).
func (e *NameError) same(x *NameError) bool {
	return e != nil && x != nil && e.Code == x.Code && e.Message == x.Message
}

// Append adds the error as a ResourceError in the given field of a response.
func (e *NameError) Append(b []byte, field protowire.Number) []byte {
	inner := appendResourceName(nil, 1, xds.Spelling(e.Name, e.spelt), e.about)
	inner = protowire.AppendBytes(protowire.AppendTag(inner, 2, protowire.BytesType), e.detail)
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), inner)
}

// Size is about what the error takes in a response, in bytes.
func (e *NameError) Size() int { return len(e.Name) + len(e.about) + len(e.detail) + 16 }

// notFound states an absence that the origin stated by other means (ABS-10).
func notFound(name string) *NameError {
	return absent(name, "the origin says that it does not exist")
}

// expired states that the TTL has passed (ABS-10).
func expired(name string) *NameError {
	e := absent(name, "its TTL has passed")
	e.over, e.timed = true, true
	return e
}

func absent(name, text string) *NameError {
	detail := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), codeNotFound)
	return &NameError{Name: name, Code: codeNotFound, Message: text, detail: xds.AppendString(detail, 2, text), own: true}
}

// unreachable says that nothing is known of a name, and why (RELAY-8).
func unreachable(name string) *NameError {
	return unavailable(name, "nothing is known of it yet, and its origin cannot be reached")
}

// unanswered says that the origin was asked in vain (ABS-6).
func unanswered(name string) *NameError {
	return unavailable(name, "the origin does not answer for it")
}

func unavailable(name, text string) *NameError {
	detail := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), codeUnavailable)
	return &NameError{Name: name, Code: codeUnavailable, Message: text, detail: xds.AppendString(detail, 2, text)}
}

// ends reports whether an error takes away the body that is there: not found, and what is about the
// name itself if the origin is so configured (ABS-8).
func (o *Origin) ends(e *NameError) bool {
	return e.Code == codeNotFound || e.Code == codePermissionDenied && o.config().DropOnDataError
}

// patience is how long a name may stay unanswered on a healthy stream.
func (o *Origin) patience() time.Duration {
	if o.config().SotW && o.config().AbsenceTransient {
		return transientSilence
	}
	return silence
}

// maxErrorText bounds what is kept of an origin's words.
const maxErrorText = 4 << 10

// parseNameError reads an encoded ResourceError. The constraints in it are not judged yet.
func parseNameError(b []byte) (*NameError, *discoveryv3.DynamicParameterConstraints, error) {
	var m discoveryv3.ResourceError
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, nil, err
	}
	d := m.GetErrorDetail()
	e := &NameError{Code: uint32(d.GetCode()), Message: d.GetMessage()}
	e.Name, e.spelt = xds.Spell(m.GetResourceName().GetName())
	if proto.Size(d) > maxErrorText {
		d = proto.CloneOf(d)
		// half a character does not encode
		d.Details, d.Message = nil, strings.ToValidUTF8(d.Message[:min(len(d.Message), maxErrorText)], "")
		d.ProtoReflect().SetUnknown(nil)
	}
	e.Message = d.GetMessage()
	var err error
	e.detail, err = proto.Marshal(d)
	return e, m.GetResourceName().GetDynamicParameterConstraints(), err
}
