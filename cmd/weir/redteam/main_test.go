package redteam

import (
	"os"
	"testing"

	"google.golang.org/grpc/encoding"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// TestMain builds weir, but for the process of an attacker or a sink, which is this binary under
// another name.
func TestMain(m *testing.M) {
	if os.Getenv(attackerRole) != "" {
		encoding.RegisterCompressor(&packer)
		os.Exit(attackerMain())
	}
	if os.Getenv(sinkRole) != "" {
		os.Exit(sinkMain())
	}
	os.Exit(weirtest.Plain(m, "../../.."))
}
