package e2e

import (
	"os"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

func TestMain(m *testing.M) { os.Exit(weirtest.Main(m, "../../..")) }
