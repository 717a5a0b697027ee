package xds

import "bytes"

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
