package file

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestFileBombs: a resource in a file that costs far more to decode than its size is refused, with
// its position.
func TestFileBombs(t *testing.T) {
	const anyURL = "type.googleapis.com/google.protobuf.Any"
	deep := strings.Repeat(`{"@type": "`+anyURL+`", "value": `, 20) + "{}" + strings.Repeat("}", 20)
	cluster := func(more string) string {
		return `{"resources": [{"@type": "` + xds.ClusterType + `", "name": "a", ` + more + `}]}`
	}
	metadata := func(value string) string { return `"metadata": {"filterMetadata": {"a": {"b": ` + value + `}}}` }
	for _, row := range []struct{ name, text, words string }{
		{"Anys", cluster(`"typedExtensionProtocolOptions": {"a": ` + deep + `}`), "nested in one another"},
		{"depth", cluster(metadata(strings.Repeat("[", 120) + strings.Repeat("]", 120))), "nested more than 100 deep"},
		{"values", cluster(metadata("[" + strings.Repeat("0,", 200_000) + "0]")), "bytes of memory"},
		{"messages", cluster(`"filters": [` + strings.Repeat("{},", 200_000) + "{}]"), "bytes of memory"},
	} {
		for _, file := range []string{"a.json", "a.yaml"} {
			found, problems, _ := parse(file, []byte(row.text), testLimits)
			if len(found) > 0 || len(problems) != 1 || !strings.Contains(problems[0].Error(), row.words) || problems[0].at.line == 0 {
				t.Errorf("%s as %s: %d resources, %v", row.name, file, len(found), problems)
			}
		}
	}
	lim := testLimits
	lim.file = 8 << 20
	found, problems, _ := parse("a.pb", bytes.Repeat([]byte{0x12, 0}, lim.file/2), lim)
	if len(found) > 0 || len(problems) != 1 || !strings.Contains(problems[0].Error(), "bytes of memory") {
		t.Errorf("4 million empty resources: %d resources, %d problems", len(found), len(problems))
	}
}
