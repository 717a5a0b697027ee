package chaos

import (
	"os"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// TestMain builds weir, but for an origin process, which is this binary under another name.
func TestMain(m *testing.M) {
	if os.Getenv(originRole) != "" {
		os.Exit(m.Run())
	}
	os.Exit(weirtest.Main(m, "../../.."))
}
