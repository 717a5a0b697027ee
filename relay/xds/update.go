package xds

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/encoding/protowire"
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
