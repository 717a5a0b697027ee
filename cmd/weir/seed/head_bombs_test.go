package seed

import (
	"runtime"
	"strings"
	"testing"
)

// TestHeadBombs: the head of a sibling costs no more than a multiple of the longest one, whatever it
// repeats.
func TestHeadBombs(t *testing.T) {
	many := func(one string) string { return strings.Repeat(one+",", (maxHead-100)/(len(one)+1)-1) + one }
	for name, text := range map[string]string{
		"origins": `{"process": "a", "origins": [` + many("{}") + `]}`,
		"gates":   `{"process": "a", "origins": [{"gates": [` + many("{}") + `]}]}`,
		"orders":  `{"process": "a", "origins": [{"rollbacks": [` + many("{}") + `]}]}`,
		"depth":   `{"process": "a", "x": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
	} {
		head := []byte(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseHead(head)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "its head cannot be read") {
			t.Errorf("%s: got %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%s: %d bytes are taken for a head of %d", name, took, len(text))
		}
	}
}

// TestLongestHead: what 20,000 groups say is read.
func TestLongestHead(t *testing.T) {
	const gate = `{"group": "0123456789abcdef0123456789abcdef", "phase": "waiting", "stopped": "0123456789ab", "since": "2026-01-02T03:04:05Z"}`
	const order = `{"group": "0123456789abcdef0123456789abcdef", "to": "0123456789ab", "by": "somebody", "since": "2026-01-02T03:04:05Z", "changed": "2026-01-02T03:04:05Z"}`
	list := func(one string) string { return "[" + strings.Repeat(one+",", 20_000) + one + "]" }
	h, err := ParseHead([]byte(`{"process": "a", "origins": [{"name": "a", "gates": ` + list(gate) + `, "rollbacks": ` + list(order) + `}]}`))
	if err != nil || len(h.Origins) != 1 || len(h.Origins[0].Gates) != 20_001 || len(h.Origins[0].Rollbacks) != 20_001 {
		t.Errorf("%d origins, %v", len(h.Origins), err)
	}
}
