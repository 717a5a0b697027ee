package xds

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/proto"
)

// Accept is NameFields.Accept for an origin without configured name fields.
func Accept(r *Response, maxName int) (Update, *RejectError) {
	return NameFields(nil).Accept(r, maxName)
}

// Accept checks a response structurally (RELAY-30) and turns it into an Update. If something was
// rejected the second result is not nil, and the Update has the rest (RELAY-32). maxName is
// limits.name_bytes; 0: no limit.
func (f NameFields) Accept(r *Response, maxName int) (Update, *RejectError) {
	if r.over != "" {
		return r.refusedWhole()
	}
	a := acceptance{
		Update: Update{TypeURL: r.TypeURL, Full: !r.Delta, Version: r.Version, Wire: true, Held: r.Held},
		seen:   newIndex(len(r.Resources)), maxName: maxName, most: r.most, delta: r.Delta, fields: f,
	}
	for _, why := range r.bad {
		a.reject("", "%s", why)
	}
	if r.Delta && r.Nonce == "" {
		a.reject("", "response has no nonce")
	}
	a.resources(r)
	a.removals(r)
	a.nameErrors(r)
	a.dropAmbiguous()
	if !r.Delta && len(r.Resources) > 0 && len(r.Errors) == 0 && a.onlyHeartbeats() {
		a.Full, a.Heartbeats = false, true
	}
	if len(a.reasons) == 0 {
		return a.Update, nil
	}
	a.Bad = true
	return a.Update, &RejectError{TypeURL: r.TypeURL, Reasons: a.reasons, Limit: a.limit}
}

func (a *acceptance) resources(r *Response) {
	repeated := 0
	if r.Held != nil {
		for i := range r.Resources {
			if r.Held.Held(i) != nil {
				repeated++
			}
		}
		a.Repeats = make([]int32, 0, repeated)
	}
	a.Resources = make([]Resource, 0, len(r.Resources)-repeated)
	for i, b := range r.Resources {
		if repeated > 0 {
			if v := r.Held.Held(i); v != nil {
				a.keepRepeat(i, v)
				continue
			}
		}
		a.resource(i, b)
	}
}

type Identity struct{ Name, Constraints string }

func (r *Resource) Identity() Identity { return Identity{r.Name, r.Constraints.Key()} }
func IdentityOf(e *NameError) Identity { return Identity{e.Name, e.Constraints.Key()} }

type acceptance struct {
	Update
	seen      index // n: Resources[n-1]; -n: the held body of number n-1
	ambiguous map[Identity]bool
	reasons   []string
	maxName   int
	most      int    // of aliases (parseResource); 0: no limit
	aliases   int    // of the resources read so far
	limit     string // see RejectError
	delta     bool
	fields    NameFields
}

// maxReasons bounds the memory for one bad response; the last reason has the number of further
// ones.
const maxReasons = 100

// reject rejects a part of the response; name is "" if it has none.
func (a *acceptance) reject(name, format string, args ...any) {
	if len(a.reasons) >= maxReasons {
		a.Unread = true
		return
	}
	a.reasons = append(a.reasons, fmt.Sprintf(format, args...))
	if name == "" || !utf8.ValidString(name) {
		a.Unread = true
		return
	}
	a.Refused, a.Reasons = append(a.Refused, NameKey(name)), append(a.Reasons, a.reasons[len(a.reasons)-1])
}

func (a *acceptance) resource(i int, b []byte) {
	var r Resource
	var err error
	if a.delta {
		err = a.parseResource(b, &r)
	} else {
		err = a.parseAny(b, &r)
	}
	if err != nil {
		a.reject(r.Name, "resource %d %s: does not decode: %v", i, Quote(r.Name), err)
		return
	}
	if why := a.check(&r); why != "" {
		a.reject(r.Name, "resource %d %s: %s", i, Quote(r.Name), why)
		return
	}
	a.keep(r)
}

// parseAny reads a SotW resource, bare or wrapped (SOTW-13).
func (a *acceptance) parseAny(b []byte, r *Resource) error {
	typeURL, value, err := AnyParts(b)
	if err != nil {
		return err
	}
	if string(typeURL) == ResourceType {
		return a.parseResource(value, r)
	}
	r.Any = b
	return a.nameBody(r, value)
}

// nameBody names a SotW resource by the name field of its payload (RELAY-14).
func (a *acceptance) nameBody(r *Resource, payload []byte) error {
	if r.Name = a.fields.bareName(a.TypeURL, payload); r.Name == "" && Named(a.TypeURL) {
		f := Walk(payload)
		for f.Next() { // it may not have been read to here
		}
		return f.Err()
	}
	return nil
}

// check is the structural check of one resource; "" means acceptable.
func (a *acceptance) check(r *Resource) string {
	if r.RawConstraints != nil {
		if why := a.checkConstraints(r); why != "" {
			return why
		}
	}
	if r.Name == "" && !a.delta && r.Any != nil { // a wrapper need not repeat it
		if t, payload, err := AnyParts(r.Any); err == nil && a.is(string(t)) {
			if err := a.nameBody(r, payload); err != nil {
				return "payload does not decode: " + err.Error()
			}
		}
	}
	if why := a.checkName(r.Name); why != "" {
		return why
	}
	if !utf8.ValidString(r.Version) {
		return "version is not valid UTF-8"
	}
	if err := checkMetadata(r.Metadata); err != nil {
		return "metadata does not decode: " + err.Error()
	}
	if slices.ContainsFunc(r.Aliases, func(s string) bool { return !utf8.ValidString(s) }) {
		return "alias is not valid UTF-8"
	}
	r.Name, r.spelt = Spell(r.Name)
	if r.Any == nil {
		if r.Name == "" {
			return "neither name nor payload"
		}
		return ""
	}
	var err error
	if r.PayloadType, r.Payload, err = AnyParts(r.Any); err != nil {
		return "payload does not decode: " + err.Error()
	}
	if t := string(r.PayloadType); !a.is(t) && t != RedirectType {
		return fmt.Sprintf("payload has type %s", Quote(t))
	}
	if _, err := Known.Any(r.PayloadType, r.Payload, Bound{Follow: true}); err != nil {
		return "payload: " + err.Error() // clients do not decode it, and whatever walks through it recurses
	}
	if r.Name == "" && !a.delta {
		// Envoy allows nameless listeners. The key is made of the content, and no name can equal it
		// (RELAY-18).
		d := ContentDigest(a.TypeURL, "", "", nil, r.PayloadType, r.Payload)
		r.Name, r.Nameless = namelessKey+hex.EncodeToString(d[:]), true
	}
	return ""
}

// mostNested is how deeply messages in the metadata may be nested. Metadata is sent on unchanged,
// and clients' libraries accept 100 levels in all.
const mostNested = 90

// sideMemory bounds what is decoded of a resource besides its payload, of a removal and of an
// error, in bytes of memory.
const sideMemory = 8 << 20

// checkMetadata reports whether clients can decode the metadata. Unlike a payload, it is decoded
// with the response.
func checkMetadata(b []byte) error {
	m := &corev3.Metadata{}
	if b == nil {
		return nil
	}
	if _, err := Known.Message(m.ProtoReflect().Type(), b, Bound{Memory: sideMemory}); err != nil {
		return err
	}
	return proto.UnmarshalOptions{AllowPartial: true, RecursionLimit: mostNested}.Unmarshal(b, m)
}

// is reports whether a type URL is that of the response, in v2 or v3 (V2-5).
func (a *acceptance) is(typeURL string) bool {
	return typeURL == a.TypeURL || typeURL != "" && typeURL == OtherSpelling(a.TypeURL)
}

// checkName is the check of every name in a response.
func (a *acceptance) checkName(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "name is not valid UTF-8" // clients could not decode it
	case IsNameless(name):
		return "name begins with a zero byte"
	case a.maxName > 0 && len(name) > a.maxName:
		return fmt.Sprintf("name of %d bytes is longer than limits.name_bytes %d", len(name), a.maxName)
	}
	return ""
}

func (a *acceptance) checkConstraints(r *Resource) string {
	var n discoveryv3.ResourceName
	if err := Unmarshal(r.RawConstraints, &n, sideMemory); err != nil {
		return "resource_name does not decode: " + err.Error()
	}
	if r.Name != "" && r.Name != n.GetName() {
		return "both name and resource_name are set"
	}
	r.Name = n.GetName()
	set, err := a.compile(n.GetDynamicParameterConstraints())
	if err != nil {
		return err.Error()
	}
	r.Constraints = set
	return ""
}

// compile compiles constraints, and counts those with an `or` of nothing.
func (a *acceptance) compile(c *discoveryv3.DynamicParameterConstraints) (*constraints.Set, error) {
	set, err := constraints.Compile(c)
	if err == nil && emptyOr(c) {
		a.EmptyOr++
	}
	return set, err
}

// emptyOr reports whether there is an `or` of nothing. Compiled constraints are not nested deeply.
func emptyOr(c *discoveryv3.DynamicParameterConstraints) bool {
	switch t := c.GetType().(type) {
	case *discoveryv3.DynamicParameterConstraints_OrConstraints:
		return len(t.OrConstraints.GetConstraints()) == 0 || slices.ContainsFunc(t.OrConstraints.GetConstraints(), emptyOr)
	case *discoveryv3.DynamicParameterConstraints_AndConstraints:
		return slices.ContainsFunc(t.AndConstraints.GetConstraints(), emptyOr)
	case *discoveryv3.DynamicParameterConstraints_NotConstraints:
		return emptyOr(t.NotConstraints)
	}
	return false
}

func (a *acceptance) keep(r Resource) {
	id := r.Identity()
	at := a.seen.at(id, a.numbered)
	if *at == 0 {
		a.Resources = append(a.Resources, r)
		*at = int32(len(a.Resources))
		return
	}
	a.reject(r.Name, "resource %s: listed twice", Quote(r.Spelling()))
	if !bytes.Equal(a.payload(*at), r.Any) {
		a.markAmbiguous(id)
	}
}

// keepRepeat is like keep, for a body that is held already and was acceptable when it first came.
func (a *acceptance) keepRepeat(number int, v *Variant) {
	at := a.seen.at(Identity{Name: v.Name}, a.numbered)
	if *at != 0 {
		a.keep(v.Again())
		return
	}
	a.Repeats = append(a.Repeats, int32(number))
	*at = -int32(number) - 1
}

// numbered returns what was put into seen under a number.
func (a *acceptance) numbered(n int32) Identity {
	if n < 0 {
		return Identity{Name: a.repeat(-n - 1).Name}
	}
	return a.Resources[n-1].Identity()
}

// repeat returns the held body of the resource with a number.
func (a *acceptance) repeat(number int32) *Variant { return a.Held.Held(int(number)) }

func (a *acceptance) payload(n int32) []byte {
	if n < 0 {
		return a.repeat(-n - 1).Any()
	}
	return a.Resources[n-1].Any
}

func (a *acceptance) has(id Identity) bool { return *a.seen.at(id, a.numbered) != 0 }

func (a *acceptance) markAmbiguous(id Identity) {
	if a.ambiguous == nil {
		a.ambiguous = map[Identity]bool{}
	}
	a.ambiguous[id] = true
}

func (a *acceptance) removals(r *Response) {
	for _, name := range r.Removed {
		if !utf8.ValidString(name) {
			a.reject("", "removed_resources: %s is not valid UTF-8", Quote(name))
			continue
		}
		key := NameKey(name)
		if a.has(Identity{Name: key}) {
			a.reject(name, "resource %s: both sent and removed", Quote(name))
			a.markAmbiguous(Identity{Name: key})
			continue
		}
		a.Removed = append(a.Removed, key)
	}
	for _, b := range r.RemovedNames {
		a.removedVariant(b)
	}
}

func (a *acceptance) removedVariant(b []byte) {
	var n discoveryv3.ResourceName
	if err := Unmarshal(b, &n, sideMemory); err != nil {
		a.reject("", "removed_resource_names: does not decode: %v", err)
		return
	}
	if why := a.checkName(n.GetName()); why != "" {
		a.reject(n.GetName(), "removed_resource_names %s: %s", Quote(n.GetName()), why)
		return
	}
	set, err := a.compile(n.GetDynamicParameterConstraints())
	if err != nil {
		a.reject(n.GetName(), "removed_resource_names %s: %v", Quote(n.GetName()), err)
		return
	}
	id := Identity{NameKey(n.GetName()), set.Key()}
	if a.has(id) {
		a.reject(n.GetName(), "resource %s: both sent and removed", Quote(n.GetName()))
		a.markAmbiguous(id)
		return
	}
	a.RemovedVariants = append(a.RemovedVariants, RemovedVariant{id.Name, id.Constraints, set})
}

func (a *acceptance) nameErrors(r *Response) {
	for _, b := range r.Errors {
		e, c, err := ParseNameError(b)
		if err != nil {
			a.reject("", "resource_errors: does not decode: %v", err)
			continue
		}
		name := e.Spelling()
		if why := a.checkName(name); why != "" {
			a.reject(name, "resource_errors %s: %s", Quote(name), why)
			continue
		}
		if e.Constraints, err = a.compile(c); err != nil {
			a.reject(name, "resource_errors %s: %v", Quote(name), err)
			continue
		}
		id := IdentityOf(e)
		if a.has(id) { // ABS-11
			a.reject(name, "resource %s: both sent and in resource_errors", Quote(name))
			a.markAmbiguous(id)
			continue
		}
		a.Errors = append(a.Errors, e)
	}
}

// onlyHeartbeats reports whether no resource has a payload. A rejected one may have had one.
func (a *acceptance) onlyHeartbeats() bool {
	return len(a.reasons)+len(a.Repeats) == 0 && !slices.ContainsFunc(a.Resources, func(r Resource) bool { return r.Any != nil })
}

// dropAmbiguous drops names for which the response has two contents (RELAY-32).
func (a *acceptance) dropAmbiguous() {
	if len(a.ambiguous) == 0 {
		return
	}
	a.Resources = slices.DeleteFunc(a.Resources, func(r Resource) bool { return a.ambiguous[r.Identity()] })
	a.Repeats = slices.DeleteFunc(a.Repeats, func(n int32) bool { return a.ambiguous[Identity{Name: a.repeat(n).Name}] })
}

// Quote formats bytes of a peer for people, bounded.
func Quote(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(s[:most], "?"))
	}
	return fmt.Sprintf("%q", s)
}
