package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
)

// TestPage: the page of what was tried names the versions that are.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "deploy", "docs", "compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{
		"Envoy | " + pinned("ENVOY_NEWEST"), "Envoy | " + pinned("ENVOY_OLDEST"), "grpc-go, `xds:///` | " + grpc.Version,
		"grpc-go, xDS server | " + grpc.Version,
	} {
		if !strings.Contains(string(page), "| "+program) {
			t.Errorf("compatibility.md has no row of %s", program)
		}
	}
}
