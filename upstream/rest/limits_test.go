package rest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTooManyElements: a response that lists more than the origin may have is refused before its
// resources are decoded, with the numbers in the next poll; what is held stays.
func TestTooManyElements(t *testing.T) {
	in(t, func(c *Config) { c.Poll = time.Second }, func(w *world) {
		w.table.Measured(0, 32<<10) // 28 KiB are for the origin, a resource for each in a response
		w.serve(clusters, "1", cluster("a"))
		w.want(cds, "*")
		time.Sleep(time.Second)
		w.wantHeld(cds, "what it had first", "a")
		w.taken()
		var many []string
		for i := range 29 {
			many = append(many, cluster(fmt.Sprint("x", i)))
		}
		w.serve(clusters, "2", many...)
		time.Sleep(5 * time.Second)
		w.wantHeld(cds, "what is held stays", "a")
		said := ""
		for _, p := range w.taken() {
			said += p.GetErrorDetail().GetMessage()
		}
		if !strings.Contains(said, "29 resources are more than the 28 of origins[].limits.resources") {
			t.Errorf("the origin is told %q", said)
		}
		w.serve(clusters, "3", many[0])
		time.Sleep(2 * time.Minute)
		w.wantHeld(cds, "it is less now", "x0")
	})
}

// TestElements: the elements of a list are counted without a list of them (FuzzJSON of relay/xds:
// as many as a decoder finds).
func TestElements(t *testing.T) {
	for list, want := range map[string]int{
		``: 0, `[]`: 0, `[ ]`: 0, `[0]`: 1, "[\n{}]": 1, `[ {} ,[],"]",0]`: 4, `["\\",","]`: 2, `["\",\"",[0,0]]`: 2,
	} {
		if n := elements([]byte(list)); n != want {
			t.Errorf("%s has %d elements, want %d", list, n, want)
		}
	}
	list := []byte("[0" + strings.Repeat(",0", 200_000) + "]")
	if spent := testing.AllocsPerRun(1, func() { _ = elements(list) }); spent > 0 {
		t.Errorf("%v allocations", spent)
	}
}
