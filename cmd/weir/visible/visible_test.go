package visible

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// TestText: what a terminal acts on, or nobody sees, is shown.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                                       "",
		"shop/web ~ ä 漢 🙂 \\":                    "shop/web ~ ä 漢 🙂 \\",
		"a\x00b\x1b[31m\x7f":                     `a\u0000b\u001b[31m\u007f`,
		"a\nb\tc\rd":                             `a\nb\tc\rd`,
		"\u0085\u009b":                           `\u0085\u009b`,
		"a\u202eb\u2066\u2069\u200e\u200f\u061c": `a\u202eb\u2066\u2069\u200e\u200f\u061c`,
		"\u200b\u200c\u200d\ufeff\u2060\u00ad":   `\u200b\u200c\u200d\ufeff\u2060\u00ad`,
		"\u2028\u2029\u00a0\u3000":               `\u2028\u2029\u00a0\u3000`,
		"\u3164\ufe0f\u115f":                     `\u3164\ufe0f\u115f`,
		"\U000e0041\ue000":                       `\udb40\udc41\ue000`,
		"a\xffb\xc3":                             `a\xffb\xc3`,
		"\ufffd":                                 "\ufffd",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q is shown as %s, and not %s", in, got, want)
		}
		if Any(in) != (in != want) {
			t.Errorf("Any(%q) is %v", in, Any(in))
		}
	}
	if got := Lines("a\n\tb\r\u202e"); got != "a\n\tb"+`\r\u202e` {
		t.Errorf("several lines are shown as %q", got)
	}
}

// TestWriter: a character may come in pieces, and what is no character at the end is not lost to
// what follows.
func TestWriter(t *testing.T) {
	for _, text := range []string{"a\u202eb ä 🙂\u2028\x1b", "a\xe2b", "\xf0\x9f\xffx", strings.Repeat("\xf0", 9) + "."} {
		for size := 1; size < 6; size++ {
			var out bytes.Buffer
			w := NewWriter(&out)
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if wrote, err := w.Write([]byte(rest[:n])); wrote != n || err != nil {
					t.Fatal(wrote, err)
				}
				rest = rest[n:]
			}
			if out.String() != Lines(text) {
				t.Errorf("in pieces of %d: %q, and not %q", size, out.String(), Lines(text))
			}
		}
	}
}

// FuzzVisible: nothing that is shown is hidden, and JSON and YAML mean what they meant.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"a", "\u202e\x1b\n", "\U000e0041\xff", "'\"\\", "\u2028: -", "\t\r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if shown := Text(s); Any(shown) || !utf8.ValidString(shown) {
			t.Fatalf("%q is shown as %q", s, shown)
		}
		s = strings.ToValidUTF8(s, "?")
		var raw bytes.Buffer
		enc := json.NewEncoder(&raw)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(map[string]string{s: s}); err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		text := JSON(raw.Bytes())
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, map[string]string{s: s}) || Any(strings.TrimSpace(string(text))) {
			t.Fatalf("%q is %s: %v", s, text, err)
		}
		out, err := yaml.Dump(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}}})
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		if text = YAML(out); Any(strings.ReplaceAll(string(text), "\n", "")) {
			t.Fatalf("%q is %q", s, text)
		}
		if err := yaml.Load(text, &list); err != nil || len(list) != 1 || list[0] != s {
			t.Fatalf("%q is %s in YAML, which is %q: %v", s, text, list, err)
		}
	})
}
