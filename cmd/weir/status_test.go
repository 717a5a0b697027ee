package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestStatusTable: groups of one client stream are counted and not listed, and an error has its
// time beside it.
func TestStatusTable(t *testing.T) {
	o := admin.Origin{
		Name: "mesh", Connected: true, Since: time.Now().Add(-6 * time.Second),
		Error: `cp:1: rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: connection refused"`, ErrorAt: time.Now().Add(-8 * time.Minute),
	}
	o.Slow = []admin.SlowType{{Type: "cds", Groups: 2, Since: time.Now().Add(-7 * time.Second)}}
	o.Sum([]inspect.GroupStatus{{Key: "shared"}, {Key: "dedicated-1", Dedicated: true}, {Key: "dedicated-2", Dedicated: true}})
	pages, err := json.Marshal(map[string]any{
		"origins": map[string]any{"origins": []admin.Origin{o, {Name: "spare"}}},
		"groups": map[string]any{"groups": []map[string]any{
			{"key": "0123456789abcdef", "origin": "mesh"}, {"key": "dedicated-1", "origin": "mesh", "dedicated": true},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var s standing
	if err := json.Unmarshal(pages, &s); err != nil {
		t.Fatal(err)
	}
	if err := statusTable(&out, &s); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"8m0s ago: connection refused", "connected, cds unanswered for 7s", "1 and 2 dedicated", "\n01234567  mesh ", "not asked yet"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, out.String())
		}
	}
	if strings.Contains(out.String(), "dedicated-1") {
		t.Errorf("a client's own stream is listed as a group:\n%s", out.String())
	}
}

// TestStatusContinues: a second line about the same has no label.
func TestStatusContinues(t *testing.T) {
	var out bytes.Buffer
	var s standing
	s.Origins.Config = admin.ConfigState{Refused: time.Now(), Problems: []string{"a", "b", "c", "d"}}
	tw := newTable(&out)
	s.summary(tw)
	if err := tw.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n         a\n", "\n         and 1 more\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
}

// shownError is the last cell of an origin's line in weir status.
func shownError(t *testing.T, adminPort, origin string) string {
	t.Helper()
	code, stdout, stderr := weir(t, "status", "--admin", adminPort)
	if code != exitOK {
		t.Fatalf("%d, %q", code, stderr)
	}
	at := 0
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "ORIGIN ") {
			at = strings.Index(line, "LAST ERROR")
		} else if at > 0 && strings.HasPrefix(line, origin+" ") {
			return strings.TrimSpace(line[at:])
		}
	}
	t.Fatalf("no origin %s in\n%s", origin, stdout)
	return ""
}

// TestLastErrorIsOver: an error is shown with its time while it lasts, of a control plane and of
// files, and not after.
func TestLastErrorIsOver(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	dir.put(t, "more.yaml", clusters("b"))
	address := deadAddress(t)
	w := spawn(t, os.Args[0], "run", write(t, freePorts+fmt.Sprintf(`
origins:
  - { name: mesh, grpc: { addresses: [%q] } }
  - { name: disk, files: { path: %q }, authorities: [disk] }
timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms }, drain: 1s }
`, address, string(dir))))
	listener, adminPort := w.addresses()
	await := func(sentence, origin string, good func(string) bool) {
		t.Helper()
		await(t, sentence, func() bool { return good(shownError(t, adminPort, origin)) })
	}
	timed := func(texts ...string) func(string) bool {
		return func(cell string) bool {
			for _, text := range texts {
				if !strings.Contains(cell, text) {
					return false
				}
			}
			when, _, timed := strings.Cut(cell, "s ago")
			return timed && strings.Trim(when, "0123456789") == ""
		}
	}
	none := func(cell string) bool { return cell == "-" }

	c := openClient(t, dial(t, listener), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	await("a dead control plane is an error, with its time", "mesh", timed("refused"))
	await("and none of the files'", "disk", none)
	dir.put(t, "cds.yaml", "resources: [\n")
	await("a broken file is one of its own", "disk", timed("cds.yaml:"))
	dir.put(t, "more.yaml", "resources: {}\n")
	await("two are counted", "disk", timed("cds.yaml:", "and 1 more"))

	_, reached := startPlaneAt(t, address)
	if reached != address {
		t.Fatalf("the control plane is at %s", reached)
	}
	await("what is over is gone", "mesh", none)
	dir.put(t, "cds.yaml", clusters("a"))
	dir.put(t, "more.yaml", clusters("b"))
	await("and of files", "disk", none)
}
