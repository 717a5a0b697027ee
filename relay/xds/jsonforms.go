package xds

import (
	"bytes"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
)

// JSONForm is a value in a JSON text that is not canonical proto3 JSON, and that Envoy reads.
type JSONForm struct {
	At   int    // offset in the text
	What string // for people
}

const (
	formList     = "one value where a list belongs"
	formEnum     = "a value of an enum in another case"
	formBool     = "a text where a boolean belongs"
	formDuration = "an object where a duration belongs"
	formWrapper  = "an object where a single value belongs"
)

// CanonicalJSON rewrites what Envoy's loader reads in the JSON of a message beyond canonical proto3
// JSON, if it can be meant in one way only (FILE-1). All else stays as it is, for the parser to
// judge. Lines stay where they are, so that its errors lead to them. The text has passed a
// JSONBound. It may be no JSON: then the result is none either. Without such forms it is the text.
func CanonicalJSON(text []byte, m protoreflect.MessageDescriptor, types protoregistry.MessageTypeResolver) ([]byte, []JSONForm) {
	w := formWalk{text: text, types: types}
	w.message(m, skipSpace(text, 0))
	if len(w.edits) == 0 {
		return text, nil
	}
	out, from := make([]byte, 0, len(text)+len(text)/8), 0
	for _, e := range w.edits {
		out = append(append(out, text[from:e.from]...), e.text...)
		from = e.to
	}
	return append(out, text[from:]...), w.forms
}

// formWalk walks once over a text, by the descriptors of its messages. Each method gets the offset
// of a value, and returns where it ends.
type formWalk struct {
	text  []byte
	types protoregistry.MessageTypeResolver
	edits []jsonEdit // in the order of the text
	forms []JSONForm
}

// jsonEdit replaces a part of the text.
type jsonEdit struct {
	from, to int
	text     string
}

func (w *formWalk) found(at int, what string) { w.forms = append(w.forms, JSONForm{at, what}) }

// replace replaces a part of the text, but not the ends of its lines.
func (w *formWalk) replace(from, to int, by string) {
	by += strings.Repeat("\n", bytes.Count(w.text[from:to], []byte("\n")))
	w.edits = append(w.edits, jsonEdit{from, to, by})
}

// begins reports whether the value begins with a character.
func (w *formWalk) begins(at int, c byte) bool { return at < len(w.text) && w.text[at] == c }

// members calls value for each member of an object. In what is no object it finds none.
func (w *formWalk) members(at int, value func(name string, at int) int) int {
	if !w.begins(at, '{') {
		return skipValue(w.text, at)
	}
	for at = skipSpace(w.text, at+1); w.begins(at, '"') || w.begins(at, ','); at = skipSpace(w.text, at) {
		if w.text[at] == ',' {
			at++
			continue
		}
		end := skipString(w.text, at)
		name := jsonName(w.text[at:end])
		if at = skipSpace(w.text, end); !w.begins(at, ':') {
			return len(w.text)
		}
		if at = skipSpace(w.text, at+1); at < len(w.text) {
			at = value(string(name), at)
		}
	}
	return w.closed(at, '}')
}

// closed returns the end of an object or array: that of the text if it is not closed.
func (w *formWalk) closed(at int, by byte) int {
	if w.begins(at, by) {
		return at + 1
	}
	return len(w.text)
}

// elements walks over the elements of an array.
func (w *formWalk) elements(f protoreflect.FieldDescriptor, at int) int {
	for at = skipSpace(w.text, at+1); at < len(w.text) && w.text[at] != ']' && w.text[at] != '}'; at = skipSpace(w.text, at) {
		if w.text[at] == ',' {
			at++
			continue
		}
		at = w.single(f, at)
	}
	return w.closed(at, ']')
}

func (w *formWalk) field(f protoreflect.FieldDescriptor, at int) int {
	switch {
	case f.IsMap():
		return w.members(at, func(_ string, at int) int { return w.single(f.MapValue(), at) })
	case !f.IsList(), w.begins(at, 'n'): // null
		return w.single(f, at)
	case w.begins(at, '['):
		return w.elements(f, at)
	}
	w.found(at, formList)
	w.replace(at, at, "[")
	end := w.single(f, at)
	w.replace(end, end, "]")
	return end
}

// single walks over one value of a field.
func (w *formWalk) single(f protoreflect.FieldDescriptor, at int) int {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return w.message(f.Message(), at)
	case protoreflect.EnumKind:
		return w.enum(f.Enum().Values(), at)
	case protoreflect.BoolKind:
		return w.boolean(at)
	}
	return skipValue(w.text, at)
}

const wellKnown = "google.protobuf"

func (w *formWalk) message(m protoreflect.MessageDescriptor, at int) int {
	fields := m.Fields()
	if name := m.FullName(); name.Parent() == wellKnown {
		switch {
		case name == "google.protobuf.Any":
			return w.any(at)
		case name == "google.protobuf.Duration":
			return w.duration(at)
		case strings.HasSuffix(string(name), "Value") && fields.Len() == 1 && !fields.Get(0).IsList():
			return w.wrapper(fields.Get(0), at)
		}
		return skipValue(w.text, at)
	}
	return w.members(at, func(name string, at int) int {
		f := fields.ByJSONName(name)
		if f == nil {
			f = fields.ByTextName(name)
		}
		if f == nil {
			return skipValue(w.text, at)
		}
		return w.field(f, at)
	})
}

// any walks over an object with "@type", which may be its last member.
func (w *formWalk) any(at int) int {
	url := ""
	w.members(at, func(name string, at int) int {
		end := skipValue(w.text, at)
		if name == "@type" {
			url, _ = JSONString(w.text[at:end]) // the parser refuses what is none
		}
		return end
	})
	t, err := w.types.FindMessageByURL(url)
	switch {
	case err != nil:
		return skipValue(w.text, at)
	case t.Descriptor().FullName().Parent() != wellKnown:
		return w.message(t.Descriptor(), at)
	}
	return w.members(at, func(name string, at int) int {
		if name == "value" {
			return w.message(t.Descriptor(), at)
		}
		return skipValue(w.text, at)
	})
}

// duration writes {"seconds": 1, "nanos": 5} as "1.000000005s".
func (w *formWalk) duration(at int) int {
	var d durationpb.Duration
	good := true
	end := w.members(at, func(name string, at int) int {
		end, bits := skipValue(w.text, at), 64
		if name == "nanos" {
			bits = 32
		}
		n, err := strconv.ParseInt(strings.Trim(string(w.text[at:end]), `"`), 10, bits)
		switch {
		case err != nil, name != "seconds" && name != "nanos":
			good = false
		case name == "nanos":
			d.Nanos = int32(n) //nolint:gosec // parsed as such
		default:
			d.Seconds = n
		}
		return end
	})
	if !good || !w.begins(at, '{') || w.text[end-1] != '}' {
		return end
	}
	if text, err := protojson.Marshal(&d); err == nil {
		w.found(at, formDuration)
		w.replace(at, end, string(text))
	}
	return end
}

// wrapper writes {"value": 1} as 1. f is the field of the value.
func (w *formWalk) wrapper(f protoreflect.FieldDescriptor, at int) int {
	if !w.begins(at, '{') {
		return w.single(f, at)
	}
	edits, forms, values := len(w.edits), len(w.forms), 0
	w.found(at, formWrapper)
	after := at // the part of the object that is written
	end := w.members(at, func(name string, value int) int {
		if values++; name != "value" || values > 1 {
			values = 2
			return skipValue(w.text, value)
		}
		w.replace(after, value, "")
		after = w.single(f, value)
		return after
	})
	if values != 1 || w.text[end-1] != '}' {
		w.edits, w.forms = w.edits[:edits], w.forms[:forms]
		return end
	}
	w.replace(after, end, "")
	return end
}

func (w *formWalk) enum(values protoreflect.EnumValueDescriptors, at int) int {
	end := skipValue(w.text, at)
	text, ok := JSONString(w.text[at:end])
	if !ok || values.ByName(protoreflect.Name(text)) != nil {
		return end
	}
	meant := ""
	for i := range values.Len() {
		if name := string(values.Get(i).Name()); strings.EqualFold(name, text) {
			if meant != "" {
				return end // it may be either
			}
			meant = name
		}
	}
	if meant != "" {
		w.found(at, formEnum)
		w.replace(at, end, strconv.Quote(meant))
	}
	return end
}

// maxBoolean is the length of the longest text for a boolean, with its quotes.
const maxBoolean = len(`"false"`)

func (w *formWalk) boolean(at int) int {
	end := skipValue(w.text, at)
	if !w.begins(at, '"') || end-at > maxBoolean {
		return end
	}
	by := "true"
	switch strings.ToLower(string(bytes.Trim(w.text[at:end], `"`))) {
	case "true", "yes", "on", "t", "y", "1":
	case "false", "no", "off", "f", "n", "0":
		by = "false"
	default:
		return end
	}
	w.found(at, formBool)
	w.replace(at, end, by)
	return end
}
