package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// allocated returns how many bytes f allocates, garbage included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostileConfigurations: a file is refused, with a line, before it has cost much. Each of these took
// hundreds of megabytes or more, or is a small copy of one that did.
func TestHostileConfigurations(t *testing.T) {
	lists := "x0: &x0 [" + strings.Repeat("a, ", 100) + "]\n"
	for i := 1; i < 4; i++ {
		lists += fmt.Sprintf("x%d: &x%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 30), ", "))
	}
	long := strings.Repeat("k", 1<<20)
	big := func(string) (string, bool) { return strings.Repeat("v", 100<<10), true }
	for name, row := range map[string]struct {
		text string
		env  func(string) (string, bool)
		want string
	}{
		"aliases of aliases": {
			ruled + "- &r {who: &w ['uid:1'], names: &n [" + strings.Repeat("a,", 1000) + "]}\n" + strings.Repeat("- *r\n", 1000), nil,
			"more than 500000 values",
		},
		"unknown keys":     {lists + "authorization: *x3\n", nil, "more than 500000 values"},
		"values of a list": {"sinks: [" + strings.Repeat("a,", 1<<20) + "]", nil, "more than 500000 values"},
		"keys":             {"{" + strings.Repeat("a,", 1<<20) + "}", nil, "more than 500000 values"},
		"lines":            {strings.Repeat("a:\n", 1<<20), nil, "weir.yaml:250000:1: may have more than 500000 values"},
		"length":           {"# " + strings.Repeat("x", 4<<20), nil, "has more than 4194304 bytes"},
		"a long key":       {"log:\n  levels: {" + long + ": info}\n", nil, "weir.yaml:2:12: log.levels: a key has more than 512 bytes"},
		"a long key often": {
			"log: {levels: &l {" + long + ": info}}\norigins: [" + strings.Repeat("{rest: {headers: *l}},", 100) + "]\n", nil,
			"more than 500000 values",
		},
		"a long value often": {
			"x: &x " + long + "\nlisteners: [" + strings.Repeat("{address: *x},", 100) + "]\n", nil,
			"more than 500000 values",
		},
		"variables":          {"name: " + strings.Repeat("${V}", 1000), big, "with its variables written out the file has more than 4194304 bytes"},
		"variables in lists": {"ready: {types: [" + strings.Repeat("'${V}',", 1000) + "]}", big, "with its variables written out the file has more than 4194304 bytes"},
		"problems":           {"log: {" + strings.Repeat("a: b, ", 20000) + "}", nil, "further problems are not listed"},
		"nesting":            {"name: " + strings.Repeat("[", 20000), nil, "exceeded max depth"},
		"a long list": {
			"origins: [{name: mesh, grpc: {addresses: [" + strings.Repeat("a,", 10001) + "]}}]", nil,
			"origins[0].grpc.addresses: has 10001 entries; at most 10000 are possible",
		},
		"who times names": {
			ruled + "- {who: [" + manyOf(2000, "'uid:%d'") + "], names: [" + manyOf(2000, "'n%d'") + "]}\n", nil,
			"authorization[0]: its patterns of who, each with what the rule says, are more than 2000000 with those of the rules before it; divide it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocated(func() { _, err = Parse("weir.yaml", []byte(row.text), row.env) })
			text := fmt.Sprint(err)
			if err == nil || len(Problems(err)) == 0 || !strings.Contains(text, row.want) {
				t.Errorf("%.300s\nand not\n%s", text, row.want)
			}
			if len(text) > 1<<20 {
				t.Errorf("the error has %d bytes", len(text))
			}
			// What is read once may take what the file's values take.
			if most := uint64(32<<20 + 32*len(row.text)); took > most {
				t.Errorf("%d MiB were allocated for a file of %d bytes", took>>20, len(row.text))
			}
		})
	}
}

// manyOf is a list of n texts that differ.
func manyOf(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ",")
}

// TestLongFiles: of a file that is too long only so much is read.
func TestLongFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	for name, load := range map[string]func() error{
		"configuration": func() error { _, err := Load(path); return err },
		"questions":     func() error { _, err := LoadQuestions(path); return err },
		"text":          func() error { _, err := ReadFile(path); return err },
	} {
		var err error
		took := allocated(func() { err = load() })
		if err == nil || !strings.Contains(err.Error(), "weir.yaml") || !strings.Contains(err.Error(), "has more than 4194304 bytes") {
			t.Errorf("%s: %v", name, err)
		}
		if took > 32<<20 {
			t.Errorf("%s: %d MiB were allocated", name, took>>20)
		}
	}
}

// TestLargeFiles: what people write stays far from the bounds.
func TestLargeFiles(t *testing.T) {
	text := ruled + manyRules(10_000)
	c, err := Parse("weir.yaml", []byte(text), nil)
	if err != nil || c.Rules().Len() != 10_000 {
		t.Errorf("10,000 rules in %d bytes: %v", len(text), err)
	}
}

func manyRules(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "- who: [\"spiffe://cluster.local/ns/team-%d/sa/{sa}\"]\n  origins: [mesh]\n  types: [cds, eds]\n", i)
		fmt.Fprintf(&b, "  names: [\"team-%d/{sa}/*\", \"team-%d/shared\"]\n  claims: { node.cluster: \"{sa}\" }\n", i, i)
	}
	return b.String()
}
