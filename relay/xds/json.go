package xds

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// JSONFields walks over the members of a JSON object, or over the elements of an array, in place
// and without building anything, as Fields does for an encoded message:
//
//	f := xds.WalkJSON(text)
//	for f.Next() {
//		if string(f.Name) == "node" {
//			node = f.Value
//		}
//	}
//
// It does not validate: a parser that reads the text afterwards does. As far as such a parser reads
// a text before it finds an error, it sees the same names and values (FuzzJSON). A value that has
// no end is the rest of the text.
type JSONFields struct {
	// Set by Next:

	Name  []byte // the member's name, without escapes; nil in an array
	Value []byte // shares the input

	text   []byte
	at     int
	object bool
}

// WalkJSON begins to read an object or an array. Any other text has no members.
func WalkJSON(text []byte) JSONFields {
	f := JSONFields{text: text}
	f.at = skipSpace(text, 0)
	if f.at == len(text) || text[f.at] != '{' && text[f.at] != '[' {
		f.at = len(text)
		return f
	}
	f.object = text[f.at] == '{'
	f.at++
	return f
}

// Next moves to the next member or element. It returns false at the end.
func (f *JSONFields) Next() bool {
	f.at = skipSpace(f.text, f.at)
	for f.at < len(f.text) && f.text[f.at] == ',' {
		f.at = skipSpace(f.text, f.at+1)
	}
	if f.Name = nil; f.object && !f.name() {
		f.at = len(f.text)
	}
	if f.at == len(f.text) || f.text[f.at] == ']' || f.text[f.at] == '}' {
		f.at = len(f.text)
		return false
	}
	end := skipValue(f.text, f.at)
	f.Value = f.text[f.at:end:end]
	f.at = end
	return true
}

// End returns where in the text the value ends.
func (f *JSONFields) End() int { return f.at }

// name reads a name and its colon. It returns false if there is none.
func (f *JSONFields) name() bool {
	if f.at == len(f.text) || f.text[f.at] != '"' {
		return false
	}
	end := skipString(f.text, f.at)
	f.Name = jsonName(f.text[f.at:end])
	if f.at = skipSpace(f.text, end); f.at == len(f.text) || f.text[f.at] != ':' {
		return false
	}
	f.at = skipSpace(f.text, f.at+1)
	return true
}

// maxEscapedName is the length in bytes up to which the escapes of a name are read: more than any
// name has that is looked for.
const maxEscapedName = 256

// jsonName is a name without its quotes and escapes.
func jsonName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return bytes.Trim(quoted, `"`)
	}
	if len(quoted) <= maxEscapedName {
		if name, ok := JSONString(quoted); ok {
			return []byte(name)
		}
	}
	return quoted // no name that is looked for has quotes
}

// plainJSON reports whether the inside of a JSON string stands for itself.
func plainJSON(inside []byte) bool {
	for _, c := range inside {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// JSONString is the text of a JSON string; false: the value is none. Most have no escapes, and cost
// no more than their copy.
func JSONString(value []byte) (s string, ok bool) {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' && plainJSON(value[1:n-1]) {
		return string(value[1 : n-1]), true
	}
	return s, len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil
}

func skipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// skipString returns where the string that begins at at ends.
func skipString(text []byte, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
	}
	return len(text)
}

// skipScalar returns where the number, or another value without quotes, ends.
func skipScalar(text []byte, at int) int {
	for ; at < len(text); at++ {
		switch text[at] {
		case ' ', '\n', '\t', '\r', ',', ':', '"', '[', ']', '{', '}':
			return at
		}
	}
	return at
}

// skipValue returns where the value that begins at at ends. It always moves on.
func skipValue(text []byte, at int) int {
	for depth := 0; at < len(text); {
		switch text[at] {
		case '"':
			at = skipString(text, at)
		case '[', '{':
			depth, at = depth+1, at+1
		case ']', '}':
			depth, at = depth-1, at+1
		default:
			at = max(skipScalar(text, at), at+1)
		}
		if depth <= 0 {
			return at
		}
	}
	return len(text)
}

// JSONBound is what a JSON text may have before it is decoded into messages, as Bound is for the
// wire form. A 0 of a Struct takes 90 bytes of memory. Each google.protobuf.Any, which is an object
// with "@type", is searched for its type before it is read, so at most MaxAnys of them may be
// nested in one another.
type JSONBound struct {
	Depth  int // levels of objects and arrays; at most MaxJSONDepth
	Memory int // in bytes, as estimated
}

// MaxJSONDepth is the deepest JSON that can be allowed: lists count, too. Real resources have 40
// levels at most, as a listener with its routes, filters and matchers inline.
const MaxJSONDepth = 100

// What a value costs in memory once it is decoded, in bytes: measured for google.protobuf.Struct
// (TestJSONMemory). An empty message of the largest kinds, as Cluster, has 600.
const (
	jsonScalar = 96
	jsonArray  = 192
	jsonObject = 256
	jsonMember = 64
)

const deepJSON = "objects and arrays are nested more than %d deep"

// jsonLevel is an open object or array.
type jsonLevel struct {
	object bool
	any    bool // it has "@type"
	anys   int  // the most levels of Any among its closed parts
}

// Check reports how much memory the decoded text may take, in bytes. The error is a
// *BoundError. A text that is no JSON may pass; a parser that reads it until its first error does
// not exceed the bounds either.
func (b JSONBound) Check(text []byte) (memory int, err error) {
	var open [MaxJSONDepth + 1]jsonLevel // open[0] is around the text
	most := min(b.Depth, MaxJSONDepth)
	for depth, at := 0, 0; at < len(text); {
		switch text[at] {
		case '[', '{':
			if depth++; depth > most {
				return 0, &BoundError{deepJSON, most}
			}
			open[depth] = jsonLevel{object: text[at] == '{'}
			memory += jsonArray
			if open[depth].object {
				memory += jsonObject - jsonArray
			}
			at++
		case ']', '}':
			if at++; depth == 0 {
				continue // a parser stops here
			}
			anys := open[depth].levels()
			if depth--; anys > MaxAnys {
				return 0, &BoundError{tooNested, MaxAnys}
			}
			open[depth].anys = max(open[depth].anys, anys)
		case '"':
			end := skipString(text, at)
			if after := skipSpace(text, end); open[depth].object && after < len(text) && text[after] == ':' {
				open[depth].any = open[depth].any || bytes.Equal(jsonName(text[at:end]), atType)
				memory += jsonMember + end - at
			} else {
				memory += jsonScalar + end - at
			}
			at = end
		case ' ', '\n', '\t', '\r', ',', ':':
			at++
		default:
			memory += jsonScalar
			at = skipScalar(text, at)
		}
		if memory > b.Memory {
			return 0, &BoundError{tooBig, b.Memory}
		}
	}
	return memory, nil
}

var atType = []byte("@type")

// levels are the levels of Any that the object or array has, itself included.
func (l *jsonLevel) levels() int {
	if l.any {
		return l.anys + 1
	}
	return l.anys
}
