package downstream

import (
	"testing"

	"github.com/weir-xds/weir/constraints"
)

// TestLocatorKeys: no two of the names and locators that a client may make up have one key, so none
// takes the error of another.
func TestLocatorKeys(t *testing.T) {
	both := constraints.NewParams(map[string]string{"aaaa": "b", "c": "d"})
	one := constraints.NewParams(map[string]string{"c": "d"})
	keys := map[string]string{}
	for what, key := range map[string]string{
		"a locator of a short name":               locatorKey("1", both),
		"one of a name that looks like its end":   locatorKey(`"aaaa"="b",`, one),
		"a name that looks like a locator":        `locator 11` + both.Key(),
		"a name that looks like a locator's rest": `1:1` + both.Key(),
	} {
		if other, is := keys[key]; is {
			t.Errorf("%s has the key of %s", what, other)
		}
		keys[key] = what
	}
}
