package main

import (
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

func TestReadInUse(t *testing.T) {
	const text = "heap profile: 1: 2\n# runtime.MemStats\n# HeapAlloc = 1000\n# HeapInuse = 5000\n# Stack = 200 / 300\n# MSpan = 30 / 400\n# MCache = 9 / 9\n"
	if got, err := readInUse(strings.NewReader(text)); err != nil || got != 1200 {
		t.Errorf("in use are %v, %v, want 1200", got, err)
	}
	if _, err := readInUse(strings.NewReader("# HeapAlloc = 1000\n")); err == nil {
		t.Error("a profile that lacks lines was taken")
	}
}

// TestCollect reads what this Go version really writes.
func TestCollect(t *testing.T) {
	plane := runPlane(t, yardstick, world.Options{Listen: "127.0.0.1:0", Kind: world.Clusters, Resources: 1, Bytes: 1})
	if got, err := collect(t.Context(), plane.Control); err != nil || got < 1<<20 || got > 1<<30 {
		t.Errorf("in use are %v bytes, %v", got, err)
	}
}
