package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/visible"
)

// hostile is a name as a peer may choose it, and hostileShown as it is shown in a line.
const (
	hostile      = "shop/\u202ebew\x1b[2J\x7f\u200b\u2028\U000e0041\tx\ny"
	hostileShown = `shop/\u202ebew\u001b[2J\u007f\u200b\u2028\udb40\udc41\tx\ny`
)

// TestPrintersShowHostileNames: in each format a name is shown with what is hidden in it, and what
// programs read has the name itself.
func TestPrintersShowHostileNames(t *testing.T) {
	body, err := json.Marshal(map[string]string{"@type": "x", hostile: hostile})
	if err != nil {
		t.Fatal(err)
	}
	d := document{
		TypeURL: "x", Version: hostile, Nonce: hostile, ControlPlane: hostile, Removed: []string{hostile},
		Resources: []printed{{Name: hostile, Version: hostile, TTL: hostile, Resource: body, located: true, when: hostile}},
		Errors:    []resourceError{{Name: hostile, Code: hostile, Message: hostile}},
	}
	c := &comparison{TypeURL: "x", A: hostile, B: hostile, Differences: []variance{{Name: hostile, A: present, B: hostile, Changes: []fieldChange{{hostile, hostile, nil}}}}}
	for _, format := range formats {
		for what, print := range map[string]func(io.Writer) error{
			"final":    func(w io.Writer) error { return newPrinter(format, w).final(d) },
			"response": func(w io.Writer) error { return newPrinter(format, w).response(d) },
			"diff": func(w io.Writer) error {
				return printAs(w, format, c, func(w io.Writer) error { return comparisonLines(w, c, mostChanges, mostValue) })
			},
		} {
			var out bytes.Buffer
			if err := print(&out); err != nil {
				t.Errorf("%s in %s: %v", what, format, err)
				continue
			}
			for line := range strings.Lines(out.String()) {
				if visible.Any(strings.TrimSuffix(line, "\n")) {
					t.Errorf("%s in %s: %q", what, format, line)
				}
			}
			var has any
			switch format {
			case "table":
				if !strings.Contains(out.String(), hostileShown) {
					t.Errorf("%s: %s", what, out.String())
				}
				continue
			case "json":
				err = json.Unmarshal(out.Bytes(), &has)
			default:
				err = yaml.Load(out.Bytes(), &has)
			}
			if err != nil || !holds(has, hostile) {
				t.Errorf("%s in %s: %v in\n%s", what, format, err, out.String())
			}
		}
	}
}

// holds reports whether a text is somewhere in a tree.
func holds(tree any, text string) bool {
	switch x := tree.(type) {
	case map[string]any:
		for key, value := range x {
			if key == text || holds(value, text) {
				return true
			}
		}
	case []any:
		for _, value := range x {
			if holds(value, text) {
				return true
			}
		}
	}
	return tree == text
}

// TestYAMLOfPages: what YAML cannot read of JSON is printed all the same, and numbers and their order
// stay.
func TestYAMLOfPages(t *testing.T) {
	long := strings.Repeat("k", 3000)
	var out bytes.Buffer
	if err := writeYAML(&out, []byte(`{"z": 1.50, "a": [], "🙂": "\ud83d\ude42", "`+long+`": null, "t": "true", "n": "1", "b": true, "o": {}}`)); err != nil {
		t.Fatal(err)
	}
	want := "z: 1.50\na: []\n\"\\U0001F642\": \"\\U0001F642\"\n? " + long + "\n: null\nt: 'true'\nn: '1'\nb: true\no: {}\n"
	if out.String() != want {
		t.Errorf("%s\nand not\n%s", out.String(), want)
	}
	if err := writeYAML(io.Discard, []byte(strings.Repeat("[", 20000))); err == nil {
		t.Error("what is no JSON is printed")
	}
}

// TestRowsShowHostileNames: no cell begins another one, or another line.
func TestRowsShowHostileNames(t *testing.T) {
	var out bytes.Buffer
	tw := newTable(&out)
	tw.Row(hostile, "b")
	if err := tw.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := hostileShown + "  b\n"; out.String() != want {
		t.Errorf("%q, and not %q", out.String(), want)
	}
	if got := eventLine(`{"event": "subscribed", "name": "a\u202e\nb"}`); !strings.HasSuffix(got, ` subscribed name=a\u202e\nb`) {
		t.Errorf("an event is shown as %q", got)
	}
}

// TestCommandsShowHostileErrors: what goes wrong is shown like all else, whatever the command.
func TestCommandsShowHostileErrors(t *testing.T) {
	for _, args := range [][]string{{"validate", "no\u202e\x1b"}, {"get", "x\u202e\x1b", "--from", "x"}, {"status", "x\u202e\x1b"}, {"\u202e\x1b"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code == exitOK {
			t.Errorf("%q: exit code 0", args)
		}
		if said := errs.String(); !strings.Contains(said, `\u202e\u001b`) && !strings.Contains(said, `\u202e\x1b`) || visible.Any(strings.TrimSuffix(said, "\n")) {
			t.Errorf("%q: %q", args, said)
		}
	}
}

// TestLogShowsHostileNames: a line of the log is one line, in either format, and JSON stays JSON.
func TestLogShowsHostileNames(t *testing.T) {
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		log := newLogger(config.Log{Format: format}, &out)
		log.Info("a name: "+strings.ReplaceAll(hostile, "\n", ""), zap.String("name", hostile), zap.Error(errors.New(hostile)))
		line := strings.TrimSuffix(out.String(), "\n")
		if visible.Any(strings.ReplaceAll(line, "\t", "")) || !strings.Contains(line, `\u202ebew\u001b[2J\u007f\u200b\u2028`) {
			t.Errorf("%s: %q", format, line)
		}
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); format == "json" && (err != nil || entry["name"] != hostile) {
			t.Errorf("%v: %s", err, line)
		}
	}
}
