package downstream

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestIdentifiers: tools that read a control plane's identifier as JSON still can behind weir, and
// each hop adds its name once (STREAM-10, RELAY-90).
func TestIdentifiers(t *testing.T) {
	for _, row := range []struct{ identifier, instance, want string }{
		{"plane", "a", "plane;weir=a"},
		{"plane;weir=a", "b", "plane;weir=a;weir=b"},
		{"", "a", ";weir=a"},
		{`{}`, "a", `{"weir":"a"}`},
		{`{"Component":"istiod","Info":{"weir":"no"}}`, "a", `{"Component":"istiod","Info":{"weir":"no"},"weir":"a"}`},
		{`{ "ID" : "x" , "weir" : "a" , "n" : 1.0 }`, "b", `{ "ID" : "x" , "weir" : "a;weir=b" , "n" : 1.0 }`},
		{`{"weir":"a;weir=b"}`, `c"<`, `{"weir":"a;weir=b;weir=c\"\u003c"}`},
		{" {\"ID\":\"x\"}\n", "a", `{"ID":"x","weir":"a"}`},
		{`["x"]`, "a", `["x"];weir=a`},
		{`{"ID":"x"`, "a", `{"ID":"x";weir=a`},
		{`{"weir":7}`, "a", `{"weir":7};weir=a`},
	} {
		got := withHop(row.identifier, row.instance)
		if got != row.want {
			t.Errorf("%s and %s: got %s, want %s", row.identifier, row.instance, got, row.want)
		}
		if object := strings.HasPrefix(row.want, "{") && strings.HasSuffix(row.want, "}"); object && !json.Valid([]byte(got)) {
			t.Errorf("%s is no JSON", got)
		}
	}
}
