package descriptors

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/weir-xds/weir/relay/xds"
)

// Type is the operator's description of one type.
type Type struct {
	// URL is the type URL. Required.
	URL string
	// NameField is the string field with the name of an unwrapped resource (RELAY-14): the field's
	// name, for which the message has to be known, or its number. Empty: as for any other type.
	NameField string
	// File is the path of a FileDescriptorSet that defines the message. Empty: the message is
	// linked in, or not needed.
	File string
}

// Types is a set of known messages. Nil has those that are linked in.
type Types struct {
	sets   []*set // one for each file, in the given order
	own    map[protoreflect.FullName]*set
	fields xds.NameFields
}

// set is one descriptor file.
type set struct {
	*dynamicpb.Types
	file string
	sum  [sha256.Size]byte
}

// Resolver is how the protobuf library looks up messages. *Types implements it.
type Resolver interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

var _ Resolver = (*Types)(nil)

// Error says what is wrong with one Type.
type Error struct {
	URL string
	// Descriptors: the file is wrong; otherwise the name field is.
	Descriptors bool
	Err         error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.URL, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Read reads the descriptor files. wrong has an error for each bad Type; the result has the others.
func Read(types []Type) (_ *Types, wrong []*Error) {
	t := &Types{own: map[protoreflect.FullName]*set{}, fields: xds.NameFields{}}
	read := map[string]*set{}
	failed := map[string]bool{}
	for _, x := range types {
		fail := func(descriptors bool, err error) {
			wrong = append(wrong, &Error{URL: x.URL, Descriptors: descriptors, Err: err})
		}
		if x.File != "" && read[x.File] == nil && !failed[x.File] {
			s, err := readSet(x.File)
			if err != nil {
				failed[x.File] = true
				fail(true, err)
				continue
			}
			read[x.File] = s
			t.sets = append(t.sets, s)
		}
		if x.File != "" && failed[x.File] {
			continue // reported for the first Type that names the file
		}
		if s := read[x.File]; s != nil {
			if _, err := s.FindMessageByName(messageOf(x.URL)); err != nil {
				fail(true, fmt.Errorf("%s defines no message %s", x.File, messageOf(x.URL)))
				continue
			}
			t.own[messageOf(x.URL)] = s
		}
		if x.NameField == "" {
			continue
		}
		n, err := t.nameField(x)
		if err != nil {
			fail(false, err)
			continue
		}
		t.fields[x.URL] = n
	}
	return t, wrong
}

// ReadFiles is Read for files without Types.
func ReadFiles(paths []string) (*Types, error) {
	t := &Types{}
	for _, path := range paths {
		s, err := readSet(path)
		if err != nil {
			return nil, err
		}
		t.sets = append(t.sets, s)
	}
	return t, nil
}

// The field numbers that protobuf allows.
const maxField, firstReserved, lastReserved = 1<<29 - 1, 19000, 19999

// nameField returns the number of the field with a resource's name.
func (t *Types) nameField(x Type) (int, error) {
	m, err := t.FindMessageByURL(x.URL)
	n, notNumber := strconv.Atoi(x.NameField)
	if err != nil {
		switch {
		case notNumber != nil:
			return 0, fmt.Errorf("the message is not known, so field %q cannot be found: give its descriptors, or the number of the field",
				x.NameField)
		case n < 1 || n > maxField || n >= firstReserved && n <= lastReserved:
			return 0, fmt.Errorf("%d is no protobuf field number", n)
		}
		return n, nil
	}
	fields := m.Descriptor().Fields()
	f := fields.ByName(protoreflect.Name(x.NameField))
	if f == nil {
		f = fields.ByJSONName(x.NameField)
	}
	if f == nil && notNumber == nil {
		f = fields.ByNumber(protoreflect.FieldNumber(n))
	}
	switch {
	case f == nil:
		return 0, fmt.Errorf("%s has no field %q", m.Descriptor().FullName(), x.NameField)
	case f.Kind() != protoreflect.StringKind || f.IsList() || f.IsMap():
		return 0, fmt.Errorf("field %q of %s is not a single string", x.NameField, m.Descriptor().FullName())
	}
	return int(f.Number()), nil
}

// NameFields returns the name fields of the Types, overridden by those of an origin.
func (t *Types) NameFields(origin map[string]int) xds.NameFields {
	out := xds.NameFields{}
	if t != nil {
		maps.Copy(out, t.fields)
	}
	maps.Copy(out, origin)
	return out
}

// Equal reports whether two Types have the same file contents for the same messages, and the same
// name fields.
func (t *Types) Equal(other *Types) bool {
	if t == nil || other == nil {
		return t == other
	}
	same := func(a, b *set) bool { return a.file == b.file && a.sum == b.sum }
	return slices.EqualFunc(t.sets, other.sets, same) && maps.Equal(t.fields, other.fields) && maps.EqualFunc(t.own, other.own, same)
}

// messageOf returns the name of the message of a type URL.
func messageOf(url string) protoreflect.FullName {
	return protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
}

// FindMessageByName implements Resolver. Linked-in messages come first, then the file given for
// that type, then the other files.
func (t *Types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	return find(t, name, func(r Resolver) (protoreflect.MessageType, error) { return r.FindMessageByName(name) })
}

// FindMessageByURL implements Resolver. The name is what follows the last slash.
func (t *Types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return t.FindMessageByName(messageOf(url))
}

// FindExtensionByName implements Resolver.
func (t *Types) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return find(t, "", func(r Resolver) (protoreflect.ExtensionType, error) { return r.FindExtensionByName(name) })
}

// FindExtensionByNumber implements Resolver.
func (t *Types) FindExtensionByNumber(
	message protoreflect.FullName, n protoreflect.FieldNumber,
) (protoreflect.ExtensionType, error) {
	return find(t, "", func(r Resolver) (protoreflect.ExtensionType, error) { return r.FindExtensionByNumber(message, n) })
}

// find looks for something among what is linked in and in the files. own is the name of a message,
// for which a file may be given.
func find[T any](t *Types, own protoreflect.FullName, in func(Resolver) (T, error)) (found T, err error) {
	if found, err = in(protoregistry.GlobalTypes); err == nil || t == nil {
		return found, err
	}
	if s := t.own[own]; s != nil {
		return in(s)
	}
	for _, s := range t.sets {
		if found, err = in(s); err == nil {
			return found, nil
		}
	}
	return *new(T), protoregistry.NotFound
}

// Unmarshal reads the JSON of a message. What is not canonical, and what Envoy reads all the same,
// is read as well (FILE-1): forms are the places. An *xds.BoundError says that the text was not
// decoded, since it would take more than the bound.
func (t *Types) Unmarshal(text []byte, m proto.Message, bound xds.JSONBound) (forms []xds.JSONForm, err error) {
	if _, err := bound.Check(text); err != nil {
		return nil, err
	}
	options := protojson.UnmarshalOptions{Resolver: t, AllowPartial: true}
	if err = options.Unmarshal(text, m); err == nil {
		return nil, nil
	}
	canonical, forms := xds.CanonicalJSON(text, m.ProtoReflect().Descriptor(), t)
	if len(forms) == 0 {
		return nil, err
	}
	if _, err := bound.Check(canonical); err != nil { // lists of one were not counted as lists
		return nil, err
	}
	return forms, options.Unmarshal(canonical, m)
}

// Bare returns the text of a protobuf error without its prefix. The space after the prefix is
// sometimes a non-breaking one.
func Bare(err error) string {
	return strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
}
