package config

import "reflect"

// unsupported lists the keys of the contract that this version does not act on. They are accepted
// at their default, so that a file for a later version can be checked, and refused at any other
// value, so that nobody relies on a missing protection. To support a key, delete its line here and
// the sentence in its field's comment.
var unsupported = map[string]bool{
	"origins[].resume_sotw": true,

	"cache.max_stale": true,
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
