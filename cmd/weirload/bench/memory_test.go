package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-xds/weir/cmd/weirload/fleet"
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

// TestMemoryIsReadInThePause: a server's memory is read when everything was measured and the
// clients are still there; a pause that is too short for it is an error, and so is a fleet that
// does not rest.
func TestMemoryIsReadInThePause(t *testing.T) {
	var reads atomic.Int64
	var slow atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		if slow.Load() {
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, "# HeapAlloc = 1000\n# Stack = 20 / 30\n")
	}))
	defer web.Close()
	defer http.DefaultClient.CloseIdleConnections()
	fleetOf := func(script string) *study {
		s := smallStudy(t)
		s.programs.weirload = filepath.Join(s.dir, "weirload")
		if err := os.WriteFile(s.programs.weirload, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	measure := func(s *study) (*fleet.Report, float64, error) {
		return s.fleetAndMemory(t.Context(), &fleet.Config{}, world.Clusters, strings.TrimPrefix(web.URL, "http://"))
	}
	const report = "echo '{\"servers\": [{\"rss_rested_bytes\": 7}]}'\n"
	const rest = "echo '" + fleet.Resting + "' >&2; sleep 0.5\n"

	s := fleetOf("sleep 0.1; case \"$*\" in *'--rest 2s'*) ;; *) exit 1;; esac\n" + rest + report)
	r, inUse, err := measure(s)
	if err != nil || inUse != 1020 || r.Servers[0].RSSRested != 7 || reads.Load() != 3 {
		t.Errorf("%v bytes are in use, after %d collections, and the report is %+v: %v", inUse, reads.Load(), r, err)
	}
	reads.Store(0)
	if _, _, err := measure(fleetOf("echo '2 clients have their first state' >&2\n" + report)); err == nil || reads.Load() != 0 {
		t.Errorf("a fleet did not rest, and memory was read %d times: %v", reads.Load(), err)
	}
	slow.Store(true)
	if _, _, err := measure(fleetOf(rest + report)); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("memory was read without clients: %v", err)
	}
}

// TestCollect reads what this Go version really writes.
func TestCollect(t *testing.T) {
	plane := runPlane(t, yardstick, world.Options{Listen: "127.0.0.1:0", Kind: world.Clusters, Resources: 1, Bytes: 1})
	if got, err := collect(t.Context(), plane.Control); err != nil || got < 1<<20 || got > 1<<30 {
		t.Errorf("in use are %v bytes, %v", got, err)
	}
}
