package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// fencedBlocks are the fenced blocks of a page of deploy/docs, by their first line.
func fencedBlocks(t *testing.T, page string) map[string]block {
	t.Helper()
	fenced, _ := blocksOf(t)
	found := map[string]block{}
	for _, b := range fenced {
		if filepath.Base(b.page) == page {
			found[b.first] = b
		}
	}
	return found
}

// TestRecipesOfThePage: each recipe is the file that TestExamplesServe starts, and what clients are
// to have is what Envoy takes.
func TestRecipesOfThePage(t *testing.T) {
	page := fencedBlocks(t, "recipes.md")
	recipes := 0
	for _, name := range []string{"go-control-plane", "java-control-plane", "sovereign", "istiod", "envoy-gateway", "consul"} {
		text := readText(t, root+"/deploy/examples/"+name+".yaml")
		first, _, _ := strings.Cut(text, "\n")
		if page[first].text != text {
			t.Errorf("recipes.md does not have deploy/examples/%s.yaml as it is:\n%s", name, page[first].text)
		}
		recipes++
	}
	for first := range page {
		if strings.HasPrefix(first, "# Before ") {
			recipes--
		}
	}
	if recipes != 0 {
		t.Errorf("recipes.md has %d recipes more than there are files", -recipes)
	}
	code, _, stderr := weir(t, "validate", write(t, page["# istio's gateways"].text))
	if code != exitOK || !strings.Contains(stderr, "istio treats all clients as this one proxy") {
		t.Errorf("istio's gateways: %d, %s", code, stderr)
	}
	node, cluster := &corev3.Node{}, &clusterv3.Cluster{}
	strict(t, dataOf(page["# a sidecar of istio's"])["node"], node)
	if strings.Count(node.Id, "~") != 3 {
		t.Errorf("istio refuses %s", node.Id)
	}
	strict(t, dataOf(page["# xds_cluster of an Envoy of Envoy Gateway"]), cluster)
}

// strict decodes YAML's values into a message.
func strict(t *testing.T, tree any, into proto.Message) {
	t.Helper()
	text, err := json.Marshal(tree)
	if err == nil {
		err = protojson.Unmarshal(text, into)
	}
	if err != nil {
		t.Errorf("%T: %v", into, err)
	}
}

// TestFilesOfThePage: the page's file for a start without a control plane serves its cluster.
func TestFilesOfThePage(t *testing.T) {
	served := newFiles(t)
	served.put(t, "cds.yaml", fencedBlocks(t, "kubernetes.md")["# cds.yaml"].text)
	w := startWeir(t, freePorts+filesOrigin(served))
	if code, stdout, stderr := weir(t, "get", "cds", "backend", "--from", w.listenAddress()); code != exitOK {
		t.Errorf("%d, %s%s", code, stdout, stderr)
	}
}

// TestMigrationOfThePage: the page says of each key of xds-relay's bootstrap what it becomes, by
// keys that weir has, and shows the file that TestExamplesServe starts.
func TestMigrationOfThePage(t *testing.T) {
	page := fencedBlocks(t, "migration.md")
	after := readText(t, root+"/deploy/examples/from-xds-relay.yaml")
	first, _, _ := strings.Cut(after, "\n")
	if page[first].text != after {
		t.Errorf("migration.md does not have deploy/examples/from-xds-relay.yaml as it is:\n%s", page[first].text)
	}
	if tree := dataOf(page["# xds-relay's aggregation rules"]); tree["fragments"] == nil {
		t.Error("the rules are no rules")
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (?:`([\\w.\\[\\]]+)`|nothing) \\|").FindAllStringSubmatch(readText(t, pagesDir+"/migration.md"), -1) {
		rows[m[1]] = m[2]
	}
	shown := map[string]bool{}
	keysOf("", dataOf(page["# xds-relay's bootstrap"]), shown)
	// Its bootstrap.proto has these besides.
	for key := range shown {
		key = strings.TrimSuffix(strings.TrimSuffix(key, ".address"), ".port_value")
		if _, told := rows[key]; !told && rows[key+".address"] == "" {
			t.Errorf("migration.md has no row for %s", key)
		}
	}
	for _, key := range []string{"origin_server.timeout", "cache.ttl", "cache.max_entries"} {
		if _, told := rows[key]; !told {
			t.Errorf("migration.md has no row for %s", key)
		}
	}
	ours := map[string]bool{}
	keysOf("", dataOf(block{text: readText(t, root+"/deploy/examples/full.yaml")}), ours)
	for theirs, key := range rows {
		if key != "" && !ours[key] {
			t.Errorf("%s becomes %s, which is no key", theirs, key)
		}
	}
}

// keysOf puts the dotted paths of all values in found, of maps and of lists of maps.
func keysOf(at string, tree any, found map[string]bool) {
	switch v := tree.(type) {
	case map[string]any:
		for key, value := range v {
			keysOf(strings.TrimPrefix(at+"."+key, "."), value, found)
		}
	case []any:
		for _, value := range v {
			if _, deep := value.(map[string]any); deep {
				keysOf(at+"[]", value, found)
			}
		}
		found[at] = true
	default:
		found[at] = true
	}
}

// TestSizesOfThePage: the examples are what the formula gives, with the coefficients that scale.md
// has.
func TestSizesOfThePage(t *testing.T) {
	scale, sizing := readText(t, pagesDir+"/scale.md"), readText(t, pagesDir+"/sizing.md")
	number := func(pattern string) float64 {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(scale)
		if m == nil {
			t.Fatalf("scale.md has no %s", pattern)
		}
		if !strings.Contains(sizing, m[1]) {
			t.Errorf("sizing.md has not the %s of scale.md that is found by %s", m[1], pattern)
		}
		return atof(t, m[1])
	}
	base, client, group := number(`memory in use \| weir by itself \| (\d+)`), number(`memory in use \| a client \| (\d+)`), number(`memory in use \| a group \| (\d+)`)
	resource, body := number(`a resource in a group that has it \| (\d+)`), number(`a byte of a resource.*? \| ([\d.]+)`)
	name := number(`a name that a client subscribes to \| (\d+)`)
	resident, factor := number(`resident memory \| weir by itself \| (\d+)`), number(`a byte in use \| ([\d.]+)`)
	change, delivery := number(`a change, in each group that is sent it \| ([\d.]+)`), number(`a delivery to a client \| ([\d.]+)`)
	if change+200*delivery < 7350 || change+200*delivery > 7450 {
		t.Errorf("the edge's change takes %f us", change+200*delivery)
	}
	rows := regexp.MustCompile(`(?m)^\| [^|]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) MiB \| (\d+) MiB \| (\d+) MiB \| (\d+) MiB \|$`).FindAllStringSubmatch(sizing, -1)
	if len(rows) < 4 {
		t.Errorf("only %d examples are found", len(rows))
	}
	for _, row := range rows {
		var v [9]float64
		for i := range v {
			v[i] = atof(t, row[i+1])
		}
		clients, groups, resources, bytes, names := v[0], v[1], v[2], v[3], v[4]
		used := base + client*clients + group*groups + resource*resources*groups + body*resources*bytes + name*clients*names
		for i, want := range []float64{used, resident + factor*used} {
			if math.Abs(want/(1<<20)-v[5+i]) > 0.6 {
				t.Errorf("%s: %.1f MiB by the formula", row[0], want/(1<<20))
			}
		}
		if v[7] < 1.9*v[5] || v[7] < v[6] {
			t.Errorf("%s: the limit is below what it has to be", row[0])
		}
		if v[8]*(1<<20) < 4*groups*resources*(100+bytes) {
			t.Errorf("%s: the snapshot has no room for all", row[0])
		}
	}
	if !strings.Contains(scale, "`groups * resources * (100 + bytes)`") || !strings.Contains(sizing, "`4 * groups * resources * (100 + bytes)`") {
		t.Error("the pages reckon the snapshot in another way")
	}
	for _, measured := range []string{"| corner | delta | 10000 | 100000 | 100 | 1 | 1000 | 495 | 620 | 686 | 5.42 |", " | 39 | 0.4 | 1.1 | 0.5 |"} {
		if !strings.Contains(scale, measured) {
			t.Errorf("scale.md has not measured %s", measured)
		}
	}
}

func atof(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
