package config

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-xds/weir/downstream/authz"
)

// FuzzParse: whatever the file, Parse returns a configuration or problems that
// have a place, and takes no more memory than its bounds say.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "../../../deploy/examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	for _, s := range []string{
		"", "a: &a [*a]", "? {a: b}\n: c", "origins: [*x]", "- - -", "---\n---\n", "\x00", "<<: 1", "name: ${",
		"&a a: *a\n", "log: &l {level: info}\nadmin: *l\n", "headers: {\"\": 1}", "\xff\xfe", "%YAML 1.2\n---\n...\n",
		"origins: [{name: a, rest: &r [*r]}]",
		ruled + "- {who: ['spiffe://a/{x}/**', 'uid:{x}'], types: [cds], names: ['{x}/*'], claims: {node.id: '{x}'}, set: {parameters.a: b}}\n",
		ruled + "- {who: &w ['dns:*.a'], names: *w, claims: {node.id: *w, node.metadata.a: [b, 'c**']}, set: {'': ''}}\n- *w\n",
		"questions: [{identity: a, type: cds, name: x, answer: denied, node: {metadata: {a: b}}}]",
		"a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\norigins: [*c, *c, *c, *c]\n", "a: &a {b: &b {c: *b}, d: *a}\norigins: [*a, *b]",
		ruled + "- &r {who: &w ['uid:1', 'dns:{a}.**'], names: &n [a, '{a}/*'], claims: &c {node.id: *n, node.cluster: *n}}\n- *r\n- {who: *w, names: *n, claims: *c}\n",
		"[[[[[[[[[[", "{a: {b: {c: {d: [[{e: ", "- - - - - - -", "a: &a ${V}${V}${V}\nname: *a\nready: {types: [*a, *a]}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c *Config
		var err error
		took := allocated(func() { c, err = Parse("f", data, func(name string) (string, bool) { return name, len(name) > 1 }) })
		if took > 512<<20 {
			t.Fatalf("%d MiB were allocated", took>>20)
		}
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v and %v", c, err)
		}
		if err != nil && len(Problems(err)) == 0 {
			t.Fatalf("an error that is no problem: %v", err)
		}
		for _, p := range Problems(err) {
			if p.Line < 1 || p.Column < 1 || p.Msg == "" {
				t.Fatalf("no place or message: %v", p)
			}
		}
		if err == nil {
			// The rules are of use to the last: they decide, whatever they are.
			rules := cmp.Or(c.Rules(), &authz.Rules{})
			if a := rules.Explain(authz.Question{Identity: "uid:1", Said: func(string) (string, bool) { return "", false }}); (a.Rule < 0) != (len(c.Authorization) == 0) {
				t.Fatalf("%d rules are explained as %+v", len(c.Authorization), a)
			}
		}
		if q, err := ParseQuestions("f", data, nil); (q == nil) == (err == nil) || err != nil && len(Problems(err)) == 0 {
			t.Fatalf("questions: got %v and %v", q, err)
		}
	})
}
