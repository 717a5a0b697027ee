package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// shownBy has every file of deploy, and the tests that start it by what it is for.
var shownBy = map[string]string{
	"deploy/docs/authorization.md":                        "TestRulesOfThePage",
	"deploy/docs/behaviour.md":                            "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/client-status.md":                        "TestGenericTools TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/compatibility.md":                        "TestPage TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/configuration.md":                        "TestReadmeTellsTheTruth TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/contributing.md":                         "TestCommandsAreThere TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/dynamic-parameters.md":                   "TestExamplesServe TestReadmeFiles",
	"deploy/docs/fallback.md":                             "TestExamplesServe",
	"deploy/docs/files-out.md":                            "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/last-good.md":                            "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/operations.md":                           "TestMetricsAreDocumented TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/performance.md":                          "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/promises.md":                             "TestPromisesAreHeld",
	"deploy/docs/rest.md":                                 "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/security.md":                             "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/scale.md":                                "TestPagesHaveOnlyWhatIsStarted",
	"deploy/examples/examples.go":                         "TestConfigExample",
	"deploy/examples/full.yaml":                           "TestExamplesServe",
	"deploy/examples/minimal.yaml":                        "TestExamplesServe",
	"deploy/examples/tp2/config/clusters.yaml":            "TestTP2Example",
	"deploy/examples/tp2/config/endpoints.yaml":           "TestTP2Example",
	"deploy/examples/tp2/config/staging.yaml":             "TestTP2Example",
	"deploy/examples/tp2/control-plane.yaml":              "TestExamplesServe TestTP2Example",
	"deploy/examples/tp2/relay.yaml":                      "TestExamplesServe TestTP2Example",
	"deploy/helm/examples/edge.yaml":                      "TestValuesServe TestTiers",
	"deploy/helm/examples/regional.yaml":                  "TestValuesServe",
	"deploy/helm/examples/tiers.yaml":                     "TestValuesServe TestTiers",
	"deploy/helm/weir/Chart.yaml":                         "TestLint",
	"deploy/helm/weir/templates/NOTES.txt":                "TestLint",
	"deploy/helm/weir/templates/_helpers.tpl":             "TestDefaults TestGracePeriod TestRestartKey",
	"deploy/helm/weir/templates/configmap.yaml":           "TestDefaults TestValuesServe",
	"deploy/helm/weir/templates/deployment.yaml":          "TestDefaults TestToggles TestClaim TestPodRuns",
	"deploy/helm/weir/templates/poddisruptionbudget.yaml": "TestDefaults",
	"deploy/helm/weir/templates/service.yaml":             "TestDefaults TestOutside",
	"deploy/helm/weir/templates/serviceaccount.yaml":      "TestDefaults TestToggles",
	"deploy/helm/weir/values.schema.json":                 "TestRefused",
	"deploy/helm/weir/values.yaml":                        "TestDefaults",
	"deploy/image/Dockerfile":                             "TestImageIsReproducible",
	"deploy/kubernetes/sidecar.yaml":                      "TestPlainManifests TestSidecar",
	"deploy/systemd/weir.service":                         "TestUnit TestUnitServes",
}

// blocksShownBy has the first line of every kind of fenced block in the pages, and its tests.
var blocksShownBy = map[string]string{
	"# weir.yaml":            "TestExamplesServe",
	"# envoy-bootstrap.yaml": "TestReadme",
	"common_tls_context:":    "TestEnvoyTLS",
	"# spiffe.yaml":          "TestSPIFFEOfThePage",
	"authorization:":         "TestRulesOfThePage",
	"# rules-test.yaml":      "TestRulesOfThePage",
	"# secrets by identity":  "TestSecretsOfThePage",
	"# rotate-ticket-keys":   "TestRotateTicketKeys",
	"origin mesh: 4000 groups, 4000 of them answered; group_by: [cluster, metadata]":              "TestGroupsSuggest",
	"LAST  FIRST  ORIGIN  TYPE  RESOURCE  VERSION  CLIENTS  HAVE IT  TIMES  FOR EXAMPLE  BECAUSE": "TestNacks",
	"rules in force: 2 since 3h2m10s ago; 8123 allowed, 12 denied, 1 streams ended":               "TestDenialsAreTold",
	"# config/endpoints.yaml": "TestReadmeFiles",
	"# Every setting that works in this version, at its default, unless a comment calls it a sample. Durations are written 30s,": "TestReadmeTellsTheTruth",
}

const root = "../.."

// TestEveryExampleIsStarted: each file of deploy is started by a test, which there is, and nothing
// else is listed.
func TestEveryExampleIsStarted(t *testing.T) {
	left := maps.Clone(shownBy)
	err := filepath.WalkDir(filepath.Join(root, "deploy"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err = filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if left[name] == "" {
			t.Errorf("%s: which test starts it by what it is for? Say so in shownBy", name)
		}
		delete(left, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range left {
		t.Errorf("there is no %s", name)
	}
	tests := testNames(t)
	for what, names := range shownBy {
		for name := range strings.FieldsSeq(names + " " + blocksShownBy[what]) {
			if !tests[name] {
				t.Errorf("%s: there is no %s", what, name)
			}
		}
	}
}

// testNames are those of all modules.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	tests, function := map[string]bool{}, regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "bin" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range function.FindAllStringSubmatch(readText(t, name), -1) {
				tests[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// block is code in a page.
type block struct{ page, first, text string }

// blocksOf are the fenced blocks of all pages, and the indented ones, which have no first.
func blocksOf(t *testing.T) (fenced, indented []block) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "deploy", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	fence := regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")
	indent := regexp.MustCompile(`(?m)(^    [^\n]*\n)+`)
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text := readText(t, page)
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(m[1], "\n")
			fenced = append(fenced, block{page, first, m[1]})
		}
		for _, m := range indent.FindAllString(fence.ReplaceAllString(text, ""), -1) {
			indented = append(indented, block{page: page, text: strings.ReplaceAll("\n"+m, "\n    ", "\n")})
		}
	}
	return fenced, indented
}

// TestPagesHaveOnlyWhatIsStarted: each fenced block is of a kind that a test starts, and a line of
// configuration among the commands is one that weir takes.
func TestPagesHaveOnlyWhatIsStarted(t *testing.T) {
	fenced, indented := blocksOf(t)
	tests := testNames(t)
	if len(fenced) < 6 || len(indented) < 6 {
		t.Fatalf("%d fenced blocks and %d indented ones are found", len(fenced), len(indented))
	}
	for _, b := range fenced {
		if names := blocksShownBy[b.first]; names == "" || !tests[strings.Fields(names)[0]] {
			t.Errorf("%s: which test starts the block that begins with %q?", b.page, b.first)
		}
	}
	found := 0
	for _, b := range indented {
		var tree map[string]any
		if yaml.Load([]byte(b.text), &tree) != nil || tree["origins"] == nil && tree["listeners"] == nil && tree["static_resources"] == nil {
			continue // commands
		}
		found++
		if code, _, stderr := weir(t, "validate", write(t, b.text)); code != exitOK {
			t.Errorf("%s: refused: %s\n%s", b.page, stderr, b.text)
		}
	}
	if found == 0 {
		t.Error("no configuration is found among the commands: is the pattern right?")
	}
}

// exampleConfigs are all configurations of deploy/examples and of the pages, by a name.
func exampleConfigs(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "deploy", "examples"), func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".yaml" {
			return err
		}
		if text := readText(t, name); regexp.MustCompile(`(?m)^origins:`).MatchString(text) {
			all[strings.TrimPrefix(name, root+"/deploy/examples/")] = text
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fenced, _ := blocksOf(t)
	for _, b := range fenced {
		if b.first == "# weir.yaml" {
			all[filepath.Base(b.page)+" "+string(rune('a'+len(all)))] = b.text
		}
	}
	return all
}

// TestExamplesServe: each configuration is taken as it is, and serves a client in a process of its
// own, with nothing changed but where it listens and where its control plane is.
func TestExamplesServe(t *testing.T) {
	all := exampleConfigs(t)
	if len(all) < 7 {
		t.Fatalf("only %v", slices.Sorted(maps.Keys(all)))
	}
	for name, text := range all {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "weir.yaml")
			put := func(name, text string) {
				t.Helper()
				name = filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ca := weirtest.NewAuthority(t, "ca")
			ca.Issue("server", 1)
			text = strings.ReplaceAll(text, "/etc/weir/", filepath.Join(dir, "etc")+"/")
			put("weir.yaml", text)
			put("config/cds.yaml", clusters("a"))
			put("last/cds.yaml", clusters("b")) // a last resort
			put("etc/tls/tls.crt", readText(t, ca.Path("server.pem")))
			put("etc/tls/tls.key", readText(t, ca.Path("server.key")))
			put("etc/admin/token", "hush")
			put("etc/filter.pb", exampleDescriptors(t))
			if code, _, stderr := weir(t, "validate", path); code != exitOK || stderr != "" {
				t.Errorf("validate: %d, %s", code, stderr)
			}
			served := newFiles(t)
			served.put(t, "cds.yaml", clusters("a"))
			files := strings.Replace(filesOrigin(served), "name: disk", "name: disk, tp2: true", 1)
			plane, rest := startWeir(t, freePorts+files), startWeir(t, strings.Replace(ports, "}", ", rest: true }", 1)+files)
			put("weir.yaml", moved(t, text, plane.listenAddress(), rest.listenAddress()))
			w := spawn(t, os.Args[0], "run", path)
			listener, adminPort := w.addresses()
			if code, stdout, stderr := weir(t, "get", "cds", "a", "--from", listener); code != exitOK || !strings.Contains(stdout, "\na ") {
				t.Errorf("get: %d, %s, %s", code, stdout, stderr)
			}
			args := []string{"status", "--admin", adminPort}
			if regexp.MustCompile(`(?m)^  tls: .*etc/tls`).MatchString(text) {
				args = append(args, "--ca", ca.Path("ca.pem"), "--token-file", filepath.Join(dir, "etc/admin/token"))
			}
			if code, _, stderr := weir(t, args...); code != exitOK {
				t.Errorf("status: %d, %s", code, stderr)
			}
			w.signal(syscall.SIGTERM)
			if code := w.waitEnd(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// exampleDescriptors are those of the message that the pages take for an example.
func exampleDescriptors(t *testing.T) string {
	t.Helper()
	b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("filter.proto"), Package: proto.String("example"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Filter")}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// moved is a configuration with ports that are free, and with its control planes at an address,
// that of REST at another.
func moved(t *testing.T, text, plane, rest string) string {
	t.Helper()
	var tree map[string]any
	if err := yaml.Load([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	if tree["listeners"] == nil {
		tree["listeners"] = []any{map[string]any{}}
	}
	for _, l := range tree["listeners"].([]any) {
		l.(map[string]any)["address"] = loopback
	}
	if tree["admin"] == nil {
		tree["admin"] = map[string]any{}
	}
	tree["admin"].(map[string]any)["address"] = loopback
	if probes, ok := tree["probes"].(map[string]any); ok && probes["address"] != "" {
		probes["address"] = loopback
	}
	for _, o := range tree["origins"].([]any) {
		if g, ok := o.(map[string]any)["grpc"].(map[string]any); ok {
			g["addresses"] = []any{plane}
		}
		if r, ok := o.(map[string]any)["rest"].(map[string]any); ok {
			r["urls"] = []any{"http://" + rest}
		}
	}
	out, err := yaml.Dump(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestReadmeFiles: the page's file of a variant, beside the README's weir.yaml of files, serves who
// asks with the parameter.
func TestReadmeFiles(t *testing.T) {
	fenced, _ := blocksOf(t)
	at := slices.IndexFunc(fenced, func(b block) bool { return b.first == "# config/endpoints.yaml" })
	conf := slices.IndexFunc(fenced, func(b block) bool { return b.first == "# weir.yaml" && strings.Contains(b.text, "path: ./config") })
	if at < 0 || conf < 0 {
		t.Fatal("the README and its pages do not have them any more")
	}
	path := write(t, freePorts+strings.Replace(fenced[conf].text, "files: {", "tp2: true\n    files: {", 1))
	dir := filepath.Join(filepath.Dir(path), "config")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files(dir).put(t, "endpoints.yaml", fenced[at].text)
	listener, _ := spawn(t, os.Args[0], "run", path).addresses()
	if code, stdout, stderr := weir(t, "get", "eds", "backend", "--param", "env=prod", "--from", listener); code != exitOK {
		t.Errorf("%d, %s, %s", code, stdout, stderr)
	}
	if code, _, stderr := weir(t, "get", "eds", "backend", "--param", "env=dev", "--from", listener); code != exitFailed || !strings.Contains(stderr, "does not exist") {
		t.Errorf("with another parameter: %d, %s", code, stderr)
	}
}
