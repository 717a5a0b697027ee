package node

import (
	"strings"
	"testing"
)

func TestCheckVia(t *testing.T) {
	for _, c := range []struct {
		values []string
		own    string
		want   string // in the error; "": none
	}{
		{nil, "a", ""},
		{[]string{"b", "c", "d", "e"}, "a", ""},
		{[]string{"b", "c", "d", "e", "f"}, "a", "more than 4"},
		{[]string{"b,c", " d ,, e", "f"}, "a", "more than 4"},
		{[]string{"b", "a"}, "a", "a has been passed before"},
		{[]string{"b", "A"}, "a", ""},
		{[]string{ViaName("eu, west/1")}, "eu, west/1", "loop"},
		{[]string{"eu", "west/1"}, "eu, west/1", ""},
	} {
		err := CheckVia(ParseVia(c.values), c.own)
		switch {
		case (err == nil) != (c.want == ""), err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%q at %s: %v, want %q", c.values, c.own, err, c.want)
		case err != nil && !LoopRefused(err.Error()):
			t.Errorf("%q at %s: nobody knows %v again", c.values, c.own, err)
		}
	}
	if LoopRefused("some other origin's words") {
		t.Error("other words are taken for ours")
	}
}
