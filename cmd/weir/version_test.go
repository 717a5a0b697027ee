package main

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestVersionForPrograms: JSON and YAML say what the text says.
func TestVersionForPrograms(t *testing.T) {
	_, text, _ := weir(t, "version")
	for format, read := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(b []byte, v any) error { return yaml.Load(b, v) },
	} {
		code, stdout, stderr := weir(t, "version", "-o", format)
		var is map[string]any
		if err := read([]byte(stdout), &is); err != nil || code != exitOK || stderr != "" {
			t.Fatalf("%s: %d, %v, %q, %s", format, code, err, stderr, stdout)
		}
		_, modified := is["modified"].(bool)
		for key, part := range map[string]string{"version": "weir %s\n", "revision": "revision %s", "go": "go %s\n"} {
			value, _ := is[key].(string)
			if value == "" || !modified || !strings.Contains(text, strings.ReplaceAll(part, "%s", value)) {
				t.Errorf("%s: %s is %q, and the text says\n%s", format, key, value, text)
			}
		}
	}
	if code, _, stderr := weir(t, "version", "-o", "table"); code != exitUsage || !strings.Contains(stderr, "text, json, yaml") {
		t.Errorf("-o table: %d, %q", code, stderr)
	}
	got := buildOf(&debug.BuildInfo{
		GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	})
	if want := (build{"v0.1.0", "abc", true, "go1.26.0"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := buildOf(nil); got.Version != "unknown" || got.Go == "" {
		t.Errorf("without build information: %+v", got)
	}
}
