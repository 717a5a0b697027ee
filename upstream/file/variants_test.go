package file

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// variantOf is a variant of a cluster in YAML, as an item of a list; of is its constraints in
// short: "env=prod region=eu|us".
func variantOf(name string, seconds int, of string) string {
	var all []string
	for _, part := range strings.Fields(of) {
		key, values, _ := strings.Cut(part, "=")
		var any []string
		for value := range strings.SplitSeq(values, "|") {
			any = append(any, fmt.Sprintf("{constraint: {key: %s, value: %s}}", key, value))
		}
		all = append(all, fmt.Sprintf("{or_constraints: {constraints: [%s]}}", strings.Join(any, ", ")))
	}
	return fmt.Sprintf("- resource_name:\n    name: %s\n    dynamic_parameter_constraints: {and_constraints: {constraints: [%s]}}\n"+
		"  resource: {\"@type\": %s, name: %s, connect_timeout: %ds}\n", name, strings.Join(all, ", "), xds.ClusterType, name, seconds)
}

func params(of string) constraints.Params {
	m := map[string]string{}
	for _, part := range strings.Fields(of) {
		key, value, _ := strings.Cut(part, "=")
		m[key] = value
	}
	return constraints.NewParams(m)
}

// subscribeAs subscribes to clusters with parameters.
func (w *world) subscribeAs(of string, names ...string) *client {
	w.t.Helper()
	g, err := w.table.Origin("files").Group(nil)
	w.must(err)
	c := &client{w: w, group: g, owner: relay.NewSubscriber(), has: map[string]string{}}
	c.sub = g.Open(c.owner, relay.SubOptions{TypeURL: xds.ClusterType, Delta: true, Params: params(of)})
	c.sub.Update(time.Now(), names, nil)
	w.t.Cleanup(c.close)
	return c
}

// wantTimeouts waits until the client holds clusters of just these connect timeouts, by name.
func (c *client) wantTimeouts(sentence string, want map[string]int) {
	c.w.t.Helper()
	c.until(sentence, func() bool {
		return c.answers > 0 && maps.EqualFunc(c.has, want, func(body string, seconds int) bool {
			// Cluster.connect_timeout
			return strings.HasSuffix(body, string([]byte{0x22, 0x02, 0x08, byte(seconds)}))
		})
	})
}

func newTP2World(t *testing.T, path string, hold map[string]string, edit ...func(*Config)) *world {
	t.Helper()
	edit = append(edit, func(cfg *Config) { cfg.TP2 = true })
	return newWorldOf(t, relay.OriginConfig{Name: "files", TP2: true}, path, hold, edit...)
}

// Two variants of one name side by side; who matches none is told that there is none (DYN-8,
// DYN-13); a change of one reaches whom it concerns.
func TestVariants(t *testing.T) {
	w := newTP2World(t, "c.yaml", map[string]string{"c.yaml": variantOf("a", 1, "env=prod") + variantOf("a", 2, "env=dev")})
	prod, dev, test, plain := w.subscribeAs("env=prod x=y", "a"), w.subscribeAs("env=dev", "a"), w.subscribeAs("env=test", "a"), w.subscribeAs("", "a")
	prod.wantTimeouts("production should get its variant", map[string]int{"a": 1})
	dev.wantTimeouts("development should get its own", map[string]int{"a": 2})
	for _, c := range []*client{test, plain} {
		c.until("who matches none should be told so", func() bool { return slices.Equal(c.removed, []string{"a"}) })
	}

	w.put("c.yaml", variantOf("a", 3, "env=prod")+variantOf("a", 2, "env=dev"))
	prod.wantTimeouts("the changed variant should come", map[string]int{"a": 3})
	for _, c := range []*client{dev, test, plain} {
		c.wantNothing("nobody else should hear of it")
	}
	w.put("c.yaml", variantOf("a", 3, "env=prod")+variantOf("a", 2, "env=dev")+variantOf("a", 4, "env=test"))
	test.wantTimeouts("the absent one should come", map[string]int{"a": 4})
	w.put("c.yaml", variantOf("a", 2, "env=dev"))
	prod.want("the variant should go")
	test.want("and this")
	dev.wantNothing("the variant that stays should not be told again")
}

// The split of a variant, and the merge of two, are one update to each client and no removal
// (DYN-10).
func TestVariantSplitAndMerge(t *testing.T) {
	one := variantOf("a", 1, "env=prod")
	w := newTP2World(t, "d", map[string]string{"d/a.yaml": one})
	eu, us, asia := w.subscribeAs("env=prod region=eu", "a"), w.subscribeAs("env=prod region=us", "a"), w.subscribeAs("env=prod region=asia", "a")
	for _, c := range []*client{eu, us, asia} {
		c.wantTimeouts("all should get the one variant", map[string]int{"a": 1})
	}
	w.put("d/a.yaml", variantOf("a", 2, "env=prod region=eu")+variantOf("a", 3, "env=prod region=us"))
	eu.wantTimeouts("Europe should get its part", map[string]int{"a": 2})
	us.wantTimeouts("America should get its part", map[string]int{"a": 3})
	asia.want("who matches neither should lose it")
	w.put("d/a.yaml", one)
	for _, c := range []*client{eu, us, asia} {
		c.wantTimeouts("all should get the one variant again", map[string]int{"a": 1})
	}
	if eu.answers != 3 || us.answers != 3 || len(eu.removed)+len(us.removed) > 0 {
		t.Errorf("Europe was told %d times, with the removals %q, America %d times, with %q; want 3 updates and no removal",
			eu.answers, eu.removed, us.answers, us.removed)
	}
}

// Files that change together, as those of a mounted ConfigMap do, are one update, wherever the
// variants move (DYN-10).
func TestSplitAcrossFilesOfOneSwap(t *testing.T) {
	dir := &world{t: t, dir: t.TempDir()}
	dir.mount("mnt", "..v1", map[string]string{"a.yaml": variantOf("a", 1, "env=prod"), "b.yaml": "resources: []"})
	w := newTP2World(t, "", nil, func(c *Config) { c.Path = filepath.Join(dir.dir, "mnt") })
	named, all := w.subscribeAs("env=prod region=us", "a"), w.subscribeAs("env=prod region=us", "*")
	for _, c := range []*client{named, all} {
		c.wantTimeouts("the variant should come", map[string]int{"a": 1})
	}
	dir.mount("mnt", "..v2", map[string]string{
		"a.yaml": variantOf("a", 2, "env=prod region=eu"), "b.yaml": variantOf("a", 3, "env=prod region=us"),
	})
	for _, c := range []*client{named, all} {
		c.wantTimeouts("its half should come out of the other file", map[string]int{"a": 3})
		if len(c.removed) > 0 || c.answers != 2 {
			t.Errorf("as one update, not %d, with the removal of %q", c.answers-1, c.removed)
		}
	}
}

// A selector with parameters is answered with what matches, and 'that is all' is said to that map
// alone.
func TestSelectorsWithParameters(t *testing.T) {
	const in = "xdstp://o/envoy.config.cluster.v3.Cluster/in/"
	w := newTP2World(t, "c.yaml", map[string]string{"c.yaml": variantOf("a", 1, "env=prod") + variantOf("a", 2, "env=dev") + cluster("b", 3) +
		variantOf(in+"x", 4, "env=prod")})
	prod, plain := w.subscribeAs("env=prod", "*"), w.subscribeAs("", "*")
	prod.wantTimeouts("the wildcard should bring what matches, and what everybody gets", map[string]int{"a": 1, "b": 3, in + "x": 4})
	plain.wantTimeouts("without parameters there is only what everybody gets", map[string]int{"b": 3})
	dev, glob, none := w.subscribeAs("env=dev", "*"), w.subscribeAs("env=prod", in+"*"), w.subscribeAs("env=dev", in+"*")
	dev.wantTimeouts("who comes later should get what matches", map[string]int{"a": 2, "b": 3})
	glob.wantTimeouts("a glob should bring what matches", map[string]int{in + "x": 4})
	none.until("a glob that covers nothing that matches should be said to be empty", func() bool { return slices.Equal(none.removed, []string{in + "*"}) })
	for _, c := range []*client{prod, plain} {
		c.wantNothing("that this was all for one map should be nothing to the others")
	}

	w.put("c.yaml", variantOf("a", 5, "env=prod|dev")+variantOf(in+"x", 4, "env=dev"))
	prod.wantTimeouts("merged, and the rest gone", map[string]int{"a": 5})
	dev.wantTimeouts("merged, and something new", map[string]int{"a": 5, in + "x": 4})
	none.wantTimeouts("the glob should have its first member", map[string]int{in + "x": 4})
	glob.want("and the other its last no longer")
	plain.want("what everybody got is gone")
	for _, c := range []*client{prod, dev} {
		if slices.Contains(c.removed, "a") {
			t.Errorf("DYN-10: a was removed in between: %q", c.removed)
		}
	}
}

// An alias is resolved for each map by itself.
func TestAliasesOfVariants(t *testing.T) {
	alias := func(item string) string {
		return strings.Replace(item, "\n  resource:", "\n  aliases: [z]\n  resource:", 1)
	}
	w := newTP2World(t, "c.yaml", map[string]string{"c.yaml": alias(variantOf("a", 1, "env=prod")) + alias(variantOf("b", 2, "env=dev"))})
	for of, want := range map[string]map[string]int{"env=prod": {"a": 1}, "env=dev": {"b": 2}} {
		w.subscribeAs(of, "z").wantTimeouts("the alias should stand for what matches", want)
	}
}

// Variants that parameters match alike are an error of the one that came last: it names both places
// and an example. What is in force stays.
func TestOverlappingVariants(t *testing.T) {
	for _, row := range []struct {
		name     string
		hold     map[string]string
		at, part string
		want     map[string]int // with env=prod region=eu
	}{
		{
			"in one file",
			map[string]string{"a.yaml": variantOf("a", 1, "env=prod") + variantOf("a", 2, "region=eu") + cluster("b", 3)},
			"a.yaml", `:5:3: Cluster "a", the variant "region"="eu" overlaps the variant "env"="prod" at `,
			map[string]int{"a": 1, "b": 3},
		},
		{
			"in two",
			map[string]string{"a.yaml": variantOf("a", 1, "env=prod"), "b.yaml": variantOf("b", 1, "env=prod") + variantOf("a", 2, "region=eu")},
			"b.yaml", "a.yaml:1:3: both match the parameters {env=prod, region=eu}",
			map[string]int{"a": 1, "b": 1},
		},
		{
			"with everybody's",
			map[string]string{"a.yaml": variantOf("a", 1, "env=prod"), "b.yaml": cluster("a", 2)},
			"b.yaml", `the variant without constraints overlaps the variant "env"="prod" at `,
			map[string]int{"a": 1},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			hold := map[string]string{}
			for name, text := range row.hold {
				hold["d/"+name] = text
			}
			w := newTP2World(t, "d", hold)
			w.wantError(row.at, row.part)
			w.until("it should be counted", func() bool { return w.loads("error") > 0 })
			c := w.subscribeAs("env=prod region=eu", slices.Collect(maps.Keys(row.want))...)
			c.wantTimeouts("the first should count, and the rest", row.want)
			w.put("d/"+row.at, cluster("c", 1))
			w.wantNoErrors()
		})
	}
}

// What was to be replaced by variants that overlap stays until they do not.
func TestOverlapHoldsWhatWasInForce(t *testing.T) {
	w := newTP2World(t, "d", map[string]string{"d/a.yaml": variantOf("a", 1, "env=prod"), "d/b.yaml": variantOf("a", 2, "env=test")})
	prod, test, dev := w.subscribeAs("env=prod", "a"), w.subscribeAs("env=test", "a"), w.subscribeAs("env=dev", "a")
	prod.wantTimeouts("the first variant should come", map[string]int{"a": 1})
	test.wantTimeouts("and the second", map[string]int{"a": 2})
	dev.until("and that there is no third", func() bool { return len(dev.removed) == 1 })

	w.put("d/a.yaml", variantOf("a", 3, "env=prod|test")+variantOf("a", 4, "env=dev"))
	w.wantError("a.yaml", `b.yaml:1:3: both match the parameters {env=test}`)
	dev.wantTimeouts("what overlaps nothing should count", map[string]int{"a": 4})
	prod.wantNothing("what was to be replaced should stay")
	test.wantNothing("and what is in the way")
	if e := w.origin.Status(); e.Resources != 3 {
		t.Errorf("%d resources are in force, want 3", e.Resources)
	}
	late := w.subscribeAs("env=prod", "a")
	late.wantTimeouts("newcomers should get what is in force", map[string]int{"a": 1})

	w.put("d/b.yaml", variantOf("a", 5, "env=other"))
	w.wantNoErrors()
	for _, c := range []*client{prod, test} {
		c.wantTimeouts("mended, the new variant should come", map[string]int{"a": 3})
		if len(c.removed) > 0 || c.answers != 2 {
			t.Errorf("it should come as one update, not %d, with the removal of %q", c.answers-1, c.removed)
		}
	}
}

// While a file's content is not known, a variant is not replaced by others that leave some of its
// clients without.
func TestUnknownContentHoldsVariants(t *testing.T) {
	w := newTP2World(t, "d", map[string]string{"d/a.yaml": variantOf("a", 1, "env=prod")})
	c := w.subscribeAs("env=prod region=us", "a")
	c.wantTimeouts("the variant should come", map[string]int{"a": 1})
	w.put("d/b.yaml", "- [broken")
	w.wantError("b.yaml", "not valid YAML")
	w.put("d/a.yaml", variantOf("a", 2, "env=prod region=eu"))
	w.wantError("a.yaml", "does not count yet")
	c.wantNothing("the part for this client may be in the broken file")
	w.put("d/b.yaml", variantOf("a", 3, "env=prod region=us"))
	c.wantTimeouts("and so it was", map[string]int{"a": 3})
	if len(c.removed) > 0 {
		t.Errorf("it was removed in between")
	}
	w.wantNoErrors()
}

// What is in order and hardly meant is logged once.
func TestVariantWarnings(t *testing.T) {
	never := strings.Replace(variantOf("c", 1, "env=prod"), "and_constraints: {constraints: [", "not_constraints: {and_constraints: {constraints: [", 1)
	never = strings.Replace(never, "]}}]}}\n", "]}}]}}}\n", 1)
	never = strings.Replace(never, "{or_constraints: {constraints: [{constraint: {key: env, value: prod}}]}}", "", 1)
	all := variantOf("a", 1, "env=prod") + variantOf("a", 2, "env=dev region=eu") + variantOf("b", 1, "env=prod") + never
	w := newWorld(t, "c.yaml", map[string]string{"c.yaml": all})
	c := w.subscribeAs("", "*")
	c.until("the files should be served", func() bool { return c.answers > 0 })
	warnings := func() (all []string) {
		for _, e := range w.logs.FilterMessage("the files are valid, with a warning").All() {
			all = append(all, e.ContextMap()["warning"].(string))
		}
		return all
	}
	at := filepath.Join(w.dir, "c.yaml")
	for i, want := range []string{
		at + `:1:3: Cluster "a", the variant "env"="prod" is for clients with parameters`,
		at + `:5:3: Cluster "a", the variant and("env"="dev","region"="eu") uses other parameters (env, region) than the variant "env"="prod" at ` + at + `:1:3 (env)`,
		at + `:13:3: Cluster "c", the variant !and() matches no parameters, so no client gets it`,
	} {
		if got := warnings(); len(got) != 3 || !strings.HasPrefix(got[i], want) {
			t.Fatalf("want %s, got\n%s", want, strings.Join(got, "\n"))
		}
	}
	w.put("c.yaml", all+cluster("new", 1))
	c.want("the new one should come", "new")
	if n := len(warnings()); n != 3 {
		t.Errorf("%d warnings, want each once", n)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", variantOf("a", 1, "env=prod")+variantOf("a", 1, "env=dev|prod")+variantOf("b", 1, "env=dev"))
	write("b.yaml", "- {oops: 1}")
	found, warnings, err := Check(Config{Path: dir})
	if err != nil || len(found) != 2 || len(warnings) != 1 || !strings.Contains(found[0].Error(), "b.yaml:1:3: [0]: has no") ||
		!strings.Contains(found[1].Error(), "a.yaml:5:3: Cluster \"a\", ") || !strings.Contains(warnings[0].Error(), "`tp2: true`") {
		t.Errorf("found %v, warnings %v, %v", found, warnings, err)
	}
	if _, _, err := Check(Config{Path: filepath.Join(dir, "none")}); err == nil {
		t.Error("a missing path should be said")
	}
}

// BenchmarkMergeVariants puts 1,000 variants of one name into force: the first time, when every
// pair is looked at, and after a change of one, when none is.
func BenchmarkMergeVariants(b *testing.B) {
	load := func(changed int) *source {
		var text strings.Builder
		for i := range 1000 {
			seconds := 1
			if i == 0 {
				seconds = changed
			}
			text.WriteString(variantOf("a", seconds, fmt.Sprintf("env=e%d region=r%d", i%30, i)))
		}
		good, ps, _ := parse("a.yaml", []byte(text.String()), testLimits)
		if len(ps) > 0 {
			b.Fatal(ps)
		}
		return &source{files: map[string]*file{"a.yaml": {path: "a.yaml", good: good, known: true}}}
	}
	before, after := load(1), load(2)
	prev := merge(&content{}, before)
	if len(prev.problems)+len(prev.warnings) > 0 {
		b.Fatal(prev.problems, prev.warnings)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			merge(&content{}, before)
		}
	})
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			merge(prev, after)
		}
	})
	b.Run("tell 500 maps", func(b *testing.B) {
		now := merge(prev, after)
		var names []*name
		for i := range 500 {
			names = append(names, &name{key: "a", params: params(fmt.Sprintf("env=e%d region=r%d", i%30, i))})
		}
		for b.Loop() {
			was := newAnswers(xds.ClusterType, prev)
			for _, n := range names {
				n.stated, n.sent = false, nil
				n.answer(was)
			}
			s := newAnswers(xds.ClusterType, now)
			for _, n := range names {
				n.answer(s)
			}
			if len(s.all.Resources) != 1 {
				b.Fatal(len(s.all.Resources))
			}
		}
	})
}
