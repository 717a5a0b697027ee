package main

import (
	"fmt"
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
	"deploy/docs/admin.md":                                "TestWeirInText TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/authorization.md":                        "TestRulesOfThePage",
	"deploy/docs/behaviour.md":                            "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/canary.md":                               "TestExamplesServe TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/explain.md":                              "TestExplainOrder",
	"deploy/docs/client-status.md":                        "TestGenericTools TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/compatibility.md":                        "TestPage TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/configuration.md":                        "TestReference TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/contributing.md":                         "TestCommandsAreThere TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/control.md":                              "TestAllReplicas TestRollbackOfAllReplicas TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/dynamic-parameters.md":                   "TestExamplesServe TestReadmeFiles",
	"deploy/docs/fallback.md":                             "TestExamplesServe",
	"deploy/docs/glossary.md":                             "TestLinks",
	"deploy/docs/questions.md":                            "TestLinks TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/files-out.md":                            "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/inspect.md":                              "TestGroupsSuggest TestHistoryCommand TestNacks TestDiff TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/last-good.md":                            "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/metrics.md":                              "TestMetricsAreDocumented TestAlertsAreExplained",
	"deploy/docs/performance.md":                          "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/promises.md":                             "TestPromisesAreHeld",
	"deploy/docs/rest.md":                                 "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/security.md":                             "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/siblings.md":                             "TestSiblingsOfThePage TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/runbooks.md":                             "TestRunbooks TestRunbookCommands",
	"deploy/docs/running.md":                              "TestRotateTicketKeys TestKeyOfThePage TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/scale.md":                                "TestPagesHaveOnlyWhatIsStarted",
	"deploy/docs/kubernetes.md":                           "TestWeirOfThePages TestHelmOfThePages",
	"deploy/docs/migration.md":                            "TestMigrationOfThePage",
	"deploy/docs/recipes.md":                              "TestRecipesOfThePage",
	"deploy/docs/sizing.md":                               "TestSizesOfThePage",
	"deploy/docs/tracing.md":                              "TestTracingFollowsAnUpdate TestTracingUnfinished TestTracingDeadCollector",
	"deploy/docs/upgrade.md":                              "TestWeirOfThePages TestHelmOfThePages",
	"deploy/examples/consul.yaml":                         "TestExamplesServe TestRecipesOfThePage TestConsul",
	"deploy/examples/envoy-gateway.yaml":                  "TestExamplesServe TestRecipesOfThePage TestEnvoyGateway",
	"deploy/examples/examples.go":                         "TestConfigExample",
	"deploy/examples/from-xds-relay.yaml":                 "TestExamplesServe TestMigrationOfThePage",
	"deploy/examples/go-control-plane.yaml":               "TestExamplesServe TestRecipesOfThePage TestRecipes",
	"deploy/examples/istiod.yaml":                         "TestExamplesServe TestRecipesOfThePage TestIstio",
	"deploy/examples/java-control-plane.yaml":             "TestExamplesServe TestRecipesOfThePage TestRecipes",
	"deploy/examples/sovereign.yaml":                      "TestExamplesServe TestRecipesOfThePage TestSovereign",
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
	"deploy/helm/weir/.helmignore":                        "TestLint",
	"deploy/helm/weir/README.md":                          "TestReadme",
	"deploy/helm/weir/Chart.yaml":                         "TestLint",
	"deploy/helm/weir/files/dashboard.json":               "TestMetricsExist TestRulesAndDashboard",
	"deploy/helm/weir/files/rules.yaml":                   "TestPromtool TestAlertsAreExplained",
	"deploy/helm/weir/templates/NOTES.txt":                "TestLint",
	"deploy/helm/weir/templates/_checks.tpl":              "TestAutoscaling TestRefused",
	"deploy/helm/weir/templates/_config.tpl":              "TestTLS TestRestartKey TestSeed",
	"deploy/helm/weir/templates/_container.tpl":           "TestDefaults TestToggles",
	"deploy/helm/weir/templates/_names.tpl":               "TestDefaults",
	"deploy/helm/weir/templates/_network.tpl":             "TestNetworkPolicy",
	"deploy/helm/weir/templates/_pod.tpl":                 "TestDefaults TestOverrides",
	"deploy/helm/weir/templates/_quantities.tpl":          "TestGracePeriod TestSnapshotSize",
	"deploy/helm/weir/templates/_services.tpl":            "TestServices",
	"deploy/helm/weir/templates/_workload.tpl":            "TestStatefulSet TestClaim",
	"deploy/helm/weir/templates/certificate.yaml":         "TestCertificate",
	"deploy/helm/weir/templates/configmap.yaml":           "TestDefaults TestValuesServe",
	"deploy/helm/weir/templates/dashboard.yaml":           "TestRulesAndDashboard",
	"deploy/helm/weir/templates/extraobjects.yaml":        "TestExtraObjects",
	"deploy/helm/weir/templates/autoscaler.yaml":          "TestAutoscaling",
	"deploy/helm/weir/templates/monitors.yaml":            "TestMonitors",
	"deploy/helm/weir/templates/networkpolicy.yaml":       "TestNetworkPolicy",
	"deploy/helm/weir/templates/poddisruptionbudget.yaml": "TestDefaults",
	"deploy/helm/weir/templates/prometheusrule.yaml":      "TestRulesAndDashboard",
	"deploy/helm/weir/templates/service-external.yaml":    "TestOutside",
	"deploy/helm/weir/templates/service-headless.yaml":    "TestServices",
	"deploy/helm/weir/templates/service-metrics.yaml":     "TestServices",
	"deploy/helm/weir/templates/service.yaml":             "TestServices TestOutside",
	"deploy/helm/weir/templates/serviceaccount.yaml":      "TestDefaults TestToggles",
	"deploy/helm/weir/templates/tests/get.yaml":           "TestHelmTest",
	"deploy/helm/weir/templates/workload.yaml":            "TestDefaults TestToggles TestStatefulSet TestPodRuns",
	"deploy/helm/weir/values.schema.json":                 "TestSchema TestMisspelt",
	"deploy/helm/weir/values.yaml":                        "TestDefaults",
	"deploy/image/Dockerfile":                             "TestImageOfSource TestDockerfiles",
	"deploy/image/Dockerfile.binary":                      "TestImageIsReproducible TestDockerfiles",
	"deploy/kubernetes/inject/patch.yaml":                 "TestInject",
	"deploy/kubernetes/sidecar.yaml":                      "TestPlainManifests TestSidecar",
	"deploy/docs/screenshots/canary-stopped.png":          "TestScreenshots",
	"deploy/docs/screenshots/clients-2000.png":            "TestScreenshots",
	"deploy/docs/screenshots/dark.png":                    "TestScreenshots",
	"deploy/docs/screenshots/demo.png":                    "TestScreenshots",
	"deploy/docs/screenshots/nacks.png":                   "TestScreenshots",
	"deploy/docs/screenshots/origin-down.png":             "TestScreenshots",
	"deploy/docs/screenshots/phone.png":                   "TestScreenshots",
	"deploy/systemd/credentials.conf":                     "TestUnitCredentials TestUnit",
	"deploy/systemd/weir.service":                         "TestUnit TestUnitServes TestUnitLimits",
	"deploy/systemd/weir.yaml":                            "TestUnitCredentials",
}

// blocksShownBy has the first line of every kind of fenced block in the pages, and its tests. Those
// of indented ones are in commandsShownBy.
var blocksShownBy = map[string]string{
	"waiting: waits for the client to acknowledge CDS web version w1rUemtFrYmTO_3FXLrZ8ipw, sent 12s ago": "TestExplainOrder",
	"# values.yaml":                              "TestHelmOfThePages",
	"# cds.yaml":                                 "TestFilesOfThePage",
	"# files.yaml":                               "TestHelmOfThePages",
	"# xds-relay's bootstrap":                    "TestMigrationOfThePage",
	"# xds-relay's aggregation rules":            "TestMigrationOfThePage",
	"# istio's gateways":                         "TestRecipesOfThePage",
	"# a sidecar of istio's":                     "TestRecipesOfThePage",
	"# xds_cluster of an Envoy of Envoy Gateway": "TestRecipesOfThePage",
	"# Before a go-control-plane with a snapshot cache keyed by node id (cache.IDHash): deploy/docs/recipes.md.":                          "TestExamplesServe TestRecipesOfThePage",
	"# Before a java-control-plane whose NodeGroup is keyed by node id: deploy/docs/recipes.md.":                                          "TestExamplesServe TestRecipesOfThePage",
	"# Before a sovereign (polled, renders templates): deploy/docs/recipes.md.":                                                           "TestExamplesServe TestRecipesOfThePage",
	"# Before istio's discovery server: deploy/docs/recipes.md.":                                                                          "TestExamplesServe TestRecipesOfThePage",
	"# Before an Envoy Gateway with one Gateway: deploy/docs/recipes.md. Towards proxies weir is Envoy Gateway, with its certificate and": "TestExamplesServe TestRecipesOfThePage",
	"# Before Consul's servers: deploy/docs/recipes.md.":                                                                                  "TestExamplesServe TestRecipesOfThePage",
	"# The result of deploy/docs/migration.md: xds-relay's bootstrap and aggregation rules as a weir.yaml.":                               "TestExamplesServe TestMigrationOfThePage",
	"# weir.yaml":            "TestExamplesServe",
	"# envoy-bootstrap.yaml": "TestReadme",
	"common_tls_context:":    "TestEnvoyTLS",
	"# spiffe.yaml":          "TestSPIFFEOfThePage",
	"# siblings.yaml":        "TestSiblingsOfThePage",
	"authorization:":         "TestRulesOfThePage",
	"# rules-test.yaml":      "TestRulesOfThePage",
	"# secrets by identity":  "TestSecretsOfThePage",
	"# rotate-ticket-keys":   "TestRotateTicketKeys",
	"# percentages of plays": "TestWorldTable",
	"origin mesh: 4000 groups, 4000 of them answered; group_by: [cluster, metadata]":              "TestGroupsSuggest",
	"GROUP     STATE         REVISION  AGO    CHANGES         GOOD SINCE  NOW  WHOLE":             "TestHistoryCommand",
	"AGO    GROUP     TYPE  NAME  CHANGE   VERSION  WAS  FROM":                                    "TestHistoryCommand",
	"LAST  FIRST  ORIGIN  TYPE  RESOURCE  VERSION  CLIENTS  HAVE IT  TIMES  FOR EXAMPLE  BECAUSE": "TestNacks",
	"rules in force: 2 since 3h2m10s ago; 8123 allowed, 12 denied, 1 streams ended":               "TestDenialsAreTold",
	"# config/endpoints.yaml": "TestReadmeFiles",
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
			ca.IssueDNS("origin", 2, firstOr(regexp.MustCompile(`server_name: ([\w.-]+)`).FindStringSubmatch(text), "origin"))
			ca.IssueDNS("proxy", 3, "web.proxies.example.com") // a client of who have to show something
			t.Setenv("CONSUL_TOKEN", "hush")
			text = strings.NewReplacer("/etc/weir/", filepath.Join(dir, "etc")+"/", "/var/lib/weir/", filepath.Join(dir, "lib")+"/").Replace(text)
			put("weir.yaml", text)
			put("config/cds.yaml", clusters("a"))
			put("last/cds.yaml", clusters("b")) // a last resort
			for _, m := range regexp.MustCompile(`\b(?:cert|ca|client_ca): (/[\w./-]+)`).FindAllStringSubmatch(text, -1) {
				name, err := filepath.Rel(dir, filepath.Dir(m[1]))
				if err != nil {
					t.Fatal(err)
				}
				put(name+"/tls.crt", readText(t, ca.Path("server.pem")))
				put(name+"/tls.key", readText(t, ca.Path("server.key")))
				put(name+"/ca.crt", readText(t, ca.Path("ca.pem")))
			}
			put("etc/admin/token", "hush")
			put("etc/snapshot.key", strings.Repeat("0", 64))
			put("etc/filter.pb", exampleDescriptors(t))
			// Nothing is shared where an origin tells each node something of its own: that is so.
			ofItsOwn := regexp.MustCompile(`(?m)^.*warning: origins\[0\].group_by\[0\]: each client will have its own group.*\n`)
			code, _, stderr := weir(t, "validate", path)
			if code != exitOK || strings.Contains(text, "group_by: [id") != ofItsOwn.MatchString(stderr) || ofItsOwn.ReplaceAllString(stderr, "") != "" {
				t.Errorf("validate: %d, %s", code, stderr)
			}
			served := newFiles(t)
			served.put(t, "cds.yaml", clusters("a"))
			files := strings.Replace(filesOrigin(served), "name: disk", "name: disk, tp2: true", 1)
			secured := ports
			if regexp.MustCompile(`(?m)^      tls: .*\bca: `).MatchString(text) {
				secured = strings.Replace(ports, "}", fmt.Sprintf(`, tls: { cert: %q, key: %q } }`, ca.Path("origin.pem"), ca.Path("origin.key")), 1)
			}
			plane, rest := startWeir(t, secured+files), startWeir(t, strings.Replace(ports, "}", ", rest: true }", 1)+files)
			put("weir.yaml", moved(t, text, plane.listenAddress(), rest.listenAddress()))
			w := spawn(t, os.Args[0], "run", path)
			listener, adminPort := w.addresses()
			get := []string{"get", "cds", "a", "--from", listener, "--node-id", "web"}
			if regexp.MustCompile(`(?m)^    tls: .*client_ca: /`).MatchString(text) {
				get = append(get, "--ca", ca.Path("ca.pem"), "--cert", ca.Path("proxy.pem"), "--key", ca.Path("proxy.key"))
			}
			if code, stdout, stderr := weir(t, get...); code != exitOK || !strings.Contains(stdout, "\na ") {
				t.Errorf("get: %d, %s, %s", code, stdout, stderr)
			}
			args := []string{"status", "--admin", adminPort}
			if regexp.MustCompile(`(?m)^  tls: .*etc/tls`).MatchString(text) { // of admin
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

// firstOr is the first group of a match, or another text where there is none.
func firstOr(m []string, otherwise string) string {
	if m == nil {
		return otherwise
	}
	return m[1]
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
