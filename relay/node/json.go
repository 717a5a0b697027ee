package node

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Canonical JSON: keys in order, the shortest form of numbers, no blanks, and only the necessary
// escapes. Group keys are made of it, so we write it ourselves: a library's output may change with
// its version.

func appendValue(b []byte, v *structpb.Value) []byte {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return append(b, "null"...)
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(b, k.BoolValue)
	case *structpb.Value_NumberValue:
		return appendNumber(b, k.NumberValue)
	case *structpb.Value_StringValue:
		return appendText(b, k.StringValue)
	case *structpb.Value_ListValue:
		return appendItems(b, k.ListValue.GetValues(), appendValue)
	case *structpb.Value_StructValue:
		return appendFields(b, k.StructValue.GetFields(), appendValue)
	}
	return b // a value of no kind is nothing, like no other value
}

// appendParams writes the parameters of one type.
func appendParams(b []byte, p *xdsv3.ContextParams) []byte {
	return appendFields(b, p.GetParams(), appendText)
}

func appendFields[V any](b []byte, fields map[string]V, value func([]byte, V) []byte) []byte {
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, key), ':')
		b = value(b, fields[key])
	}
	return append(b, '}')
}

func appendItems[V any](b []byte, items []V, value func([]byte, V) []byte) []byte {
	b = append(b, '[')
	for i, v := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(b, v)
	}
	return append(b, ']')
}

// appendNumber writes a whole number without an exponent as long as a double has all its digits.
// NaN and the infinities, which JSON lacks, become bare words, which no other value is.
func appendNumber(b []byte, x float64) []byte {
	format := byte('g')
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		format = 'f'
	}
	return strconv.AppendFloat(b, x, format, -1, 64)
}

func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
