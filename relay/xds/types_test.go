package xds

import (
	"strings"
	"testing"
)

// TestTypesInV2: a type is handled alike under both of its names (V2-5).
func TestTypesInV2(t *testing.T) {
	pairs := 0
	for v2 := range order {
		if !strings.Contains(v2, ".v2.") {
			continue
		}
		pairs++
		v3 := OtherSpelling(v2)
		if v3 == "" || strings.Contains(v3, ".v2.") || OtherSpelling(v3) != v2 || order[v3] != order[v2] ||
			v3[strings.LastIndexByte(v3, '.'):] != v2[strings.LastIndexByte(v2, '.'):] {
			t.Errorf("%s is %s", v2, v3)
		}
		if SentWhole(v2) != SentWhole(v3) || FullState(v2) != FullState(v3) || AlwaysWhole(v2) != AlwaysWhole(v3) ||
			IsSecret(v2) != IsSecret(v3) || DeltaOnly(v2) != DeltaOnly(v3) {
			t.Errorf("%s is handled otherwise than %s", v2, v3)
		}
		if ServiceOf(v2, true) == nil {
			t.Errorf("%s has no service of its own", v2)
		}
	}
	if pairs != 8 || pairs != len(ServicesV2) {
		t.Errorf("%d types have a v2 name, and %d a service in v2", pairs, len(ServicesV2))
	}
	if OtherSpelling(LbEndpointType) != "" || OtherSpelling("made up") != "" {
		t.Error("what has one name has no other")
	}
}
