package xds

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/encoding/protowire"
)

// Update is what one response says, structurally checked: what Lane.Apply takes.
type Update struct {
	TypeURL   string
	Resources []Resource
	// Removed are names stated not to exist, canonical as all names in it.
	Removed []string
	// RemovedVariants are removed by name and constraints (DYN-14): from every map that those
	// match.
	RemovedVariants []RemovedVariant
	// Errors are what is said of names instead of a resource (ABS-7).
	Errors []*NameError
	// Full: every member is listed, what is not is gone, as the rules of the type allow (DEL-2).
	// Set for SotW.
	Full bool
	// Whole are the collections of which every member is listed, so that they need not settle. No
	// origin on the wire says so.
	Whole []string
	// For: only what is asked with these parameters is meant, by what is left out as well; nil: all
	// that matches. No origin on the wire says so.
	For *constraints.Params
	// Heartbeats: a SotW response of nothing but resources without payload. It lists no set, so
	// Full is false (TTL-12).
	Heartbeats bool
	// Bad: a part of the response was refused, so nothing is concluded from what it leaves out
	// (RELAY-32).
	Bad bool
	// Refused are the names of the parts that were, as far as they can be read; Unread: there are
	// others.
	Refused []string
	Unread  bool
	// Reasons says why, of each of Refused in its place; where it is shorter nothing is said of the
	// rest.
	Reasons []string
	// EmptyOr are how many constraints in it have an `or` of nothing, which matches nothing: valid,
	// and hardly what was meant.
	EmptyOr int
	// Version is the version_info of a SotW response.
	Version string

	// Wire: it came as a response, in whose form locators may have been overlooked.
	Wire bool
	// Repeats are the numbers of the resources that Held has a body of: they are not read, and not
	// among Resources.
	Repeats []int32
	Held    Held
}

// RemovedVariant names one variant of a name: Constraints is Set's key.
type RemovedVariant struct {
	Name, Constraints string
	Set               *constraints.Set
}

// RejectError says why parts of a response were refused. It becomes the NACK's error_detail
// (ERR-10).
type RejectError struct {
	TypeURL string
	Reasons []string // one for each refused resource, naming it
}

// maxRejectMessage bounds the text sent upstream (ERR-10).
const maxRejectMessage = 4 << 10

func (e *RejectError) Error() string {
	s := e.TypeURL + ": " + strings.Join(e.Reasons, "; ")
	if len(s) > maxRejectMessage {
		s = strings.ToValidUTF8(s[:maxRejectMessage-3], "") + "..."
	}
	return s
}

// NameFields are the protobuf fields that hold the name of a bare SotW resource, by type URL; 0: it
// has none. For types that are not in it that is field 1, if they are Named; else a guess is made:
// field 1, if it reads like a name.
type NameFields map[string]int

// bareName is the name in the payload of a bare resource; "" if it has none (RELAY-18).
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
	// An encoded message in that field would begin with a tag, which mostly is a control character,
	// or not be UTF-8 at all.
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return ""
	}
	return name
}

// Held is what whoever takes up a response has already of its resources, byte for byte, so that
// Accept need not read them.
type Held interface {
	// Held is the body of the resource of this number in the response; nil: it has none.
	Held(number int) *Variant
}
