package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
)

// emptyPages is an admin port that has nothing to list.
func emptyPages(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/groups/suggest" {
			_, _ = io.WriteString(w, `{"origins": [{"origin": "mesh", "group_by": ["cluster"]}]}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestEmptyTablesSaySo: each command that lists something has a sentence instead of a bare heading.
func TestEmptyTablesSaySo(t *testing.T) {
	address := emptyPages(t)
	for line, want := range map[string]string{
		"clients":                  "no client is connected\n",
		"clients --nacking":        "no client rejects anything\n",
		"clients --unsynced":       "no client is out of sync\n",
		"clients --node web-*":     "no client matches\n",
		"nacks":                    "no client has rejected anything\n",
		"nacks --type cds":         "no rejection by a client matches\n",
		"history mesh":             "no change is known\n",
		"history mesh --since 1h":  "no change matches\n",
		"history mesh --states":    "no state is known of any group\n",
		"authz denials":            "no denial is known\n",
		"groups suggest":           "no group: no client has asked for a resource\n",
		"status":                   "\nno group: no client has asked for a resource\n\nno client rejects anything\n",
		"clients --nacking -owide": "no client rejects anything\n",
	} {
		code, stdout, stderr := weir(t, append(strings.Fields(line), "--admin", address)...)
		if code != exitOK || stderr != "" || !strings.HasSuffix(stdout, want) {
			t.Errorf("%s: %d, %q, and\n%s, want\n%s", line, code, stderr, stdout, want)
		}
		for _, heading := range []string{"NODE", "LAST  ", "AGO", "GROUP  ", "REFUSED BY"} {
			if strings.Contains(stdout, heading) {
				t.Errorf("%s: a bare heading %s:\n%s", line, heading, stdout)
			}
		}
	}
	var out bytes.Buffer
	if err := inspectTable(&out, &snapshot.Summary{}); err != nil || !strings.Contains(out.String(), "no origin is in") || !strings.Contains(out.String(), "no resource is in") {
		t.Errorf("an empty snapshot: %v,\n%s", err, out.String())
	}
}

// longPages is an admin port whose only client rejects something with a long message.
func longPages(t *testing.T) (address, message string) {
	message = strings.Repeat("the cluster is wrong ", 40) + "here"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(map[string]any{"total": 1, "clients": []any{map[string]any{
			"node_id": "web-1", "peer": "192.0.2.1:4711", "since": "2026-01-02T15:04:05Z",
			"types": []any{map[string]any{"type": "cds", "rejected": map[string]any{"message": message, "at": "2026-01-02T15:04:05Z"}}},
		}}})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL, message
}

// TestFilesAreNotCut: what is no terminal gets all, without a colour, in each format of a table.
func TestFilesAreNotCut(t *testing.T) {
	address, message := longPages(t)
	for _, format := range []string{"table", "wide"} {
		name := filepath.Join(t.TempDir(), "out")
		file, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		code := run(t.Context(), []string{"clients", "--admin", address, "-o", format}, file, io.Discard)
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if text := readText(t, name); code != exitOK || !strings.Contains(text, message) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: %d, %s", format, code, text)
		}
	}
}
