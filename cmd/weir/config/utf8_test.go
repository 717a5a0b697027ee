package config

import (
	"strings"
	"testing"
)

// TestVariablesAreUTF8: an environment variable is text, as the file is. What is no UTF-8 could be
// set in a node, and no message could be made of that.
func TestVariablesAreUTF8(t *testing.T) {
	const file = "origins: [{name: a, grpc: {addresses: ['a:1']}}]\nauthorization: [{who: [anonymous], set: {node.id: '${ID}'}}]\n"
	for value, fits := range map[string]bool{"a\xffb": false, "ä": true} {
		_, err := Parse("weir.yaml", []byte(file), func(string) (string, bool) { return value, true })
		if fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "environment variable ID is not UTF-8") {
			t.Errorf("%q: %v", value, err)
		}
	}
}
