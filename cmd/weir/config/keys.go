package config

import (
	_ "embed"
	"iter"
	"reflect"
	"strings"
)

// What is known of a key stands in the tags of its field:
//
//	yaml      the key
//	path      it names a file or a directory
//	default   as it would be written; of a list, with commas
//	required  it has none
//	one_of    its values, if they are few
//	reload    what a reload does with a change of it (ReloadOf); each is about the same
//	secret    its values may be credentials, and are masked
//	reserved  this version does not act on it
//
// Reserved keys are accepted at their default, so that a file for a later version can be checked,
// and refused at any other value, so that nobody relies on a missing protection. To support one,
// delete its tag and the sentence in its field's comment.

// keysOf yields the keys of a struct with their fields.
func keysOf(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if key := f.Tag.Get("yaml"); key != "" && !yield(key, f) {
				return
			}
		}
	}
}

// fieldOf returns the field of a key.
func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for k, f := range keysOf(t) {
		if k == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// narrower are the values of keys that have fewer of them here than elsewhere.
var narrower = map[string][]string{
	"origins[].rest.tls.alpn": {ALPNRequired},
}

// choicesOf returns the values of a key with few of them; nil: it has others.
func choicesOf(path string, tag reflect.StructTag) []string {
	if few := narrower[generic(path)]; few != nil {
		return few
	}
	if text := tag.Get("one_of"); text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// same compares a decoded value with the default; an empty list or map equals an absent one.
func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice || a.Kind() == reflect.Map {
		if a.Len() == 0 && b.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// removed lists the keys that former versions had, with what to write instead. A file that still
// has one is refused with that line at any value, the default too, since it was written for what
// is not done any more.
var removed = map[string]string{
	"origins[].share":         "removed; leave it out: weir subscribes separately for each set of parameters",
	"origins[].fallback.grpc": secondPlane,
	"origins[].fallback.rest": secondPlane,
}

const secondPlane = "removed: a fallback has only files; write the other control plane as another address " +
	"of the origin, after those in grpc.addresses or rest.urls"

// schemaText is made of the structs that the loader fills, with their comments (TestSchemaIsMade).
//
//go:embed schema.json
var schemaText []byte

// Schema returns the JSON schema of a configuration file, for editors. It cannot check everything
// that Parse does, and requires plain YAML: a string that YAML takes for a number has to be quoted.
func Schema() []byte { return schemaText }
