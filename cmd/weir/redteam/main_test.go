package redteam

import (
	"os"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// TestMain builds weir, but for an attacker's process, which is this binary under another name.
func TestMain(m *testing.M) {
	if os.Getenv(attackerRole) != "" {
		os.Exit(attackerMain())
	}
	os.Exit(weirtest.Plain(m, "../../.."))
}
