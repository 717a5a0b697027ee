package relay

import (
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestRefusedContentFlaps: a delta client of `*` refused a body, and the origin goes to another and
// back before the client is sent anything. The client is sent what it refused once more (NONCE-11).
// A view knows when a member changed last, and not what each client was sent of it.
func TestRefusedContentFlaps(t *testing.T) {
	relaytest.KnownFault(t, "waits for the new core, where what a client holds is a state", func() string {
		s := newScript(t)
		run := func(line string) string { return strings.Join(s.run(strings.Fields(line)), "; ") }
		for _, line := range []string{
			"origin", "open a delta cds", "a + *", "lane main open", "lane main take", "lane main delta cds c1=1", "wait 3s",
			"a take", "a nack", "lane main delta cds c1=2", "lane main delta cds c1=1",
		} {
			run(line)
		}
		if sent := run("a take"); sent != "nothing" {
			return "after its NACK the client is sent again: " + sent
		}
		return ""
	})
}
