package main

import (
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
)

func TestMailboxMerges(t *testing.T) {
	type put struct {
		index int
		bytes string
	}
	for name, row := range map[string]struct {
		puts  []put
		takes []string // each is the pieces of one response
	}{
		"one after the other":          {[]put{{1, "a"}, {2, "b"}}, []string{"ab"}},
		"the newest of a resource":     {[]put{{1, "a"}, {2, "b"}, {1, "c"}}, []string{"cb"}},
		"everything goes alone":        {[]put{{everything, "all"}, {1, "a"}, {1, "b"}}, []string{"all", "b"}},
		"everything is also the newer": {[]put{{1, "a"}, {everything, "all"}, {everything, "more"}}, []string{"more"}},
	} {
		m := &mailbox{wake: make(chan struct{}, 1)}
		for _, p := range row.puts {
			m.put(p.index, []byte(p.bytes))
		}
		var got []string
		for len(m.wake) > 0 {
			<-m.wake
			var out mem.BufferSlice
			got = append(got, string(m.take(out).Materialize()))
		}
		if !slices.Equal(got, row.takes) {
			t.Errorf("%s: taken was %q, want %q", name, got, row.takes)
		}
		if len(m.take(nil)) != 0 {
			t.Errorf("%s: something is left", name)
		}
	}
}
