package xds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// jsonShape is what encoding/json finds in a text.
type jsonShape struct{ depth, anys, scalars, arrays, objects, members int }

// shapeOf reads a value by the tokens of encoding/json.
func shapeOf(d *json.Decoder, s *jsonShape, depth int) (anys int, err error) {
	token, err := d.Token()
	if err != nil {
		return 0, err
	}
	open, ok := token.(json.Delim)
	if !ok {
		s.scalars++
		return 0, nil
	}
	s.depth = max(s.depth, depth)
	isAny := false
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return 0, err
			}
			s.members++
			isAny = isAny || name == "@type"
		}
		inner, err := shapeOf(d, s, depth+1)
		if err != nil {
			return 0, err
		}
		anys = max(anys, inner)
	}
	_, err = d.Token()
	if open == '[' {
		s.arrays++
	} else {
		s.objects++
	}
	if isAny {
		anys++
	}
	s.anys = max(s.anys, anys)
	return anys, err
}

// depthOf is the least depth that a text passes, and what it is then: too many Anys or not.
func depthOf(text []byte) (depth, memory int, anys bool) {
	for ; ; depth++ {
		memory, err := JSONBound{Depth: depth, Memory: 1 << 40}.Check(text)
		anys := err != nil && !strings.Contains(err.Error(), "arrays")
		if err == nil || anys || depth > MaxJSONDepth {
			return depth, memory, anys
		}
	}
}

// FuzzJSON: of what is JSON, the scan finds what encoding/json finds: the same depth, the same levels
// of Any, the same number of values, the same members. Of anything else it finds no more members
// than there are bytes, and returns.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		"", "{}", "[]", "null", `"a"`, "-1.5e7", " { } ", `{"a":1,"b":[true,null,{"c":"\"}]"}]}`, "{\"a\"\n:\t[ ] , \"b\" : { } }",
		`{"@type":"x","value":{"@type":"y"}}`, `{"value":{"value":{},"@type":"y"},"@type":"x"}`, `{"\u0040type":"x","v":[{"@type":""}]}`,
		`["@type",{"a":"@type"}]`, `[[[[]]],[]]`, `{"a":`, `{"a"`, `[}`, `{"a":1]`, `]`, `"\`, `{"\":1}`, `[1 2]`, `{"a" "b"}`, `{,}`, `{"":{"":""}}`,
		`{"a\\":1,"\"b":2}`, strings.Repeat("[", 200), strings.Repeat("[", 50) + strings.Repeat("]", 50), "\xff",
		strings.Repeat(`{"@type":"","a":`, 17) + "0" + strings.Repeat("}", 17), `{"é\ud83d\ude00":"\ud800"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		same := bytes.Clone(text)
		depth, memory, anys := depthOf(text)
		var names []string
		parts, length := 0, 0
		for w := WalkJSON(text); w.Next(); parts++ {
			length += len(w.Value)
			names = append(names, string(w.Name))
		}
		if !bytes.Equal(text, same) || length > len(text) || parts > len(text) {
			t.Fatalf("%q: %d parts of %d bytes", same, parts, length)
		}
		if !json.Valid(text) {
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var want jsonShape
		if _, err := shapeOf(d, &want, 1); err != nil {
			t.Fatal(err)
		}
		if want.depth <= MaxJSONDepth && anys != (want.anys > MaxAnys) || !anys && depth != min(want.depth, MaxJSONDepth+1) {
			t.Fatalf("%q: depth %d, Anys %v, want %+v", text, depth, anys, want)
		}
		fixed := want.scalars*jsonScalar + want.arrays*jsonArray + want.objects*jsonObject + want.members*jsonMember
		if depth <= MaxJSONDepth && want.anys <= MaxAnys && (memory < fixed || memory > fixed+len(text)) {
			t.Fatalf("%q: %d bytes, want %d and what the strings have", text, memory, fixed)
		}
		checkParts(t, text, names, parts)
	})
}

// checkParts compares the parts that were walked over with those that encoding/json reads.
func checkParts(t *testing.T, text []byte, names []string, parts int) {
	t.Helper()
	var values []json.RawMessage
	switch d := json.NewDecoder(bytes.NewReader(text)); bytes.TrimSpace(text)[0] {
	case '[':
		if err := json.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
	case '{':
		_, _ = d.Token()
		for d.More() {
			name, _ := d.Token()
			if n := len(values); names[n] != name && !strings.Contains(names[n], `\`) && utf8.ValidString(names[n]) {
				t.Fatalf("%q: name %d is %q, want %q", text, n, names[n], name)
			}
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
	}
	if len(values) != parts {
		t.Fatalf("%q: %d parts, want %d", text, parts, len(values))
	}
	n := 0
	for w := WalkJSON(text); w.Next(); n++ {
		if !bytes.Equal(bytes.TrimSpace(w.Value), values[n]) {
			t.Fatalf("%q: part %d is %q, want %q", text, n, w.Value, values[n])
		}
	}
}

// TestJSONBound: each bound refuses what exceeds it by one, and says which.
func TestJSONBound(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "0" + strings.Repeat("}", n) }
	anys := func(n int) string {
		return strings.Repeat(`[{"value":`, n) + "0" + strings.Repeat(`,"@type":"x"}]`, n)
	}
	for _, row := range []struct {
		name, text string
		bound      JSONBound
		words      string
	}{
		{"as deep as may be", nested(32), JSONBound{32, 1 << 20}, ""},
		{"too deep", nested(33), JSONBound{32, 1 << 20}, "more than 32 deep"},
		{"the deepest", nested(MaxJSONDepth), JSONBound{MaxJSONDepth, 1 << 20}, ""},
		{"deeper than any bound", nested(MaxJSONDepth + 1), JSONBound{Depth: 1000, Memory: 1 << 20}, "more than 100 deep"},
		{"as many Anys as may be", anys(MaxAnys), JSONBound{MaxJSONDepth, 1 << 20}, ""},
		{"too many Anys", anys(MaxAnys + 1), JSONBound{MaxJSONDepth, 1 << 20}, "more than 16 google.protobuf.Any"},
		{"Anys side by side", "[" + strings.Repeat(`{"@type":"x"},`, 100) + "0]", JSONBound{MaxJSONDepth, 1 << 20}, ""},
		{"memory", `[0,0]`, JSONBound{Depth: 1, Memory: jsonArray + 2*jsonScalar}, ""},
		{"too much memory", `[0,0,0]`, JSONBound{Depth: 1, Memory: jsonArray + 2*jsonScalar}, "more than 384 bytes"},
	} {
		_, err := row.bound.Check([]byte(row.text))
		bound := (*BoundError)(nil)
		if (err == nil) != (row.words == "") || err != nil && (!errors.As(err, &bound) || !strings.Contains(err.Error(), row.words)) {
			t.Errorf("%s: got %v, want %q", row.name, err, row.words)
		}
	}
}

// TestJSONCheckAllocates: the check takes no memory, whatever the text has.
func TestJSONCheckAllocates(t *testing.T) {
	text := []byte(`{"a":[` + strings.Repeat(`{"@type":"x","b":[0,true,"\u0000"]},`, 1000) + `0]}`)
	if n := testing.AllocsPerRun(10, func() {
		if _, err := (JSONBound{MaxJSONDepth, 1 << 30}).Check(text); err != nil {
			t.Fatal(err)
		}
		for f := WalkJSON(text); f.Next(); {
			if len(f.Value) < 1000 {
				t.Fatal(string(f.Value))
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestJSONMemory: what the check estimates is near what a Struct takes.
func TestJSONMemory(t *testing.T) {
	const n = 20_000
	keys := strings.Builder{}
	for i := range n {
		fmt.Fprintf(&keys, `"%x":0,`, i)
	}
	for name, text := range map[string]string{
		"numbers": `{"a":[` + strings.Repeat("0,", n) + `0]}`, "strings": `{"a":[` + strings.Repeat(`"abcdefgh",`, n) + `0]}`,
		"objects": `{"a":[` + strings.Repeat("{},", n) + `0]}`, "arrays": `{"a":[` + strings.Repeat("[],", n) + `0]}`,
		"members": `{"a":[` + strings.Repeat(`{"":0},`, n) + `0]}`, "keys": "{" + keys.String() + `"z":0}`,
	} {
		estimate, err := (JSONBound{MaxJSONDepth, 1 << 30}).Check([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var s structpb.Struct
		before := heapInUse()
		if err := protojson.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		takes := int(heapInUse() - before)
		runtime.KeepAlive(&s)
		t.Logf("%s: estimate %d, takes %d: %.2f", name, estimate, takes, float64(estimate)/float64(takes))
		if estimate < takes*3/4 || estimate > takes*2 {
			t.Errorf("%s: estimate %d, but it takes %d", name, estimate, takes)
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkJSONCheck compares the check with what it protects.
func BenchmarkJSONCheck(b *testing.B) {
	text := []byte(`{"a":[` + strings.Repeat(`{"name":"abcdefgh","weight":17,"tags":["a","b"]},`, 10_000) + `0]}`)
	b.Run("check", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := (JSONBound{MaxJSONDepth, 1 << 30}).Check(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			var s structpb.Struct
			if err := protojson.Unmarshal(text, &s); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestJSONString: the text of a string is what a parser reads.
func TestJSONString(t *testing.T) {
	for _, value := range []string{``, `"`, `""`, `"a"`, `"a`, `a"`, `"a"b"`, `"a\"`, `"a\"b"`, `"\u00e9"`, `"é"`, "\"a\x00\"", "\"\x7f\"", "\"\xff\"", `1`, `{}`, ` "a"`} {
		var want string
		ok := json.Unmarshal([]byte(value), &want) == nil && value[0] == '"'
		if got, is := JSONString([]byte(value)); is != ok || ok && got != want {
			t.Errorf("JSONString(%q) = %q, %v, want %q, %v", value, got, is, want, ok)
		}
	}
}
