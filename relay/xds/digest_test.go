package xds

import "testing"

// TestSums: the version of a set does not depend on the order of its members (VER-4), and only what
// some weir made reads as a version.
func TestSums(t *testing.T) {
	var s Sum
	if got := s.Version(); got != "w1AAAAAAAAAAAAAAAAAAAAAA" {
		t.Errorf("empty view: %s", got)
	}
	a, b := Digest{0: 1, 15: 255}, Digest{7: 255, 15: 1}
	s.Add(a)
	s.Add(b)
	two := s.Version()
	s.Sub(a)
	s.Sub(b)
	s.Add(b)
	s.Add(a)
	if s.Version() != two || two == a.String() {
		t.Errorf("a set's version depends on the order: %s, %s", s.Version(), two)
	}
	for _, bad := range []string{"", "w1", "v1" + two[2:], two + "A", "w1AAAAAAAAAAAAAAAAAAAAAB", "w1AAAAAAAAAAAAAAAAAAAA=="} {
		if _, ok := ParseVersion(bad); ok {
			t.Errorf("%q reads as a version of ours", bad)
		}
	}
}
