package descriptors

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
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
	if len(t.sets) != len(other.sets) {
		return false
	}
	for i := range t.sets {
		if !same(t.sets[i], other.sets[i]) {
			return false
		}
	}
	return maps.Equal(t.fields, other.fields) && maps.EqualFunc(t.own, other.own, same)
}

// messageOf returns the name of the message of a type URL.
func messageOf(url string) protoreflect.FullName {
	return protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
}

// FindMessageByName implements Resolver. Linked-in messages come first, then the file given for
// that type, then the other files.
func (t *Types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	m, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err == nil || t == nil {
		return m, err
	}
	if s := t.own[name]; s != nil {
		return s.FindMessageByName(name)
	}
	return first(t.sets, func(s *set) (protoreflect.MessageType, error) { return s.FindMessageByName(name) })
}

// FindMessageByURL implements Resolver. The name is what follows the last slash.
func (t *Types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return t.FindMessageByName(messageOf(url))
}

// FindExtensionByName implements Resolver.
func (t *Types) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	x, err := protoregistry.GlobalTypes.FindExtensionByName(name)
	if err == nil || t == nil {
		return x, err
	}
	return first(t.sets, func(s *set) (protoreflect.ExtensionType, error) { return s.FindExtensionByName(name) })
}

// FindExtensionByNumber implements Resolver.
func (t *Types) FindExtensionByNumber(
	message protoreflect.FullName, n protoreflect.FieldNumber,
) (protoreflect.ExtensionType, error) {
	x, err := protoregistry.GlobalTypes.FindExtensionByNumber(message, n)
	if err == nil || t == nil {
		return x, err
	}
	return first(t.sets, func(s *set) (protoreflect.ExtensionType, error) {
		return s.FindExtensionByNumber(message, n)
	})
}

// first returns what the first file with a result finds.
func first[T any](sets []*set, find func(*set) (T, error)) (T, error) {
	for _, s := range sets {
		if found, err := find(s); err == nil {
			return found, nil
		}
	}
	var none T
	return none, protoregistry.NotFound
}
