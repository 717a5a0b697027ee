package chart

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Between these lines README.md has a table made of values.yaml.
const (
	tableBegins = "<!-- values -->\n"
	tableEnds   = "<!-- end of values -->\n"
)

// TestReadme: the chart's README has each value with its default, as values.yaml explains it.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	rows := strings.Builder{}
	rows.WriteString("|Value|Default|Meaning|\n|---|---|---|\n")
	valueRows(t, &rows, "", document.Content[0])
	readme, err := os.ReadFile(chart + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(readme), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("README.md lacks the lines %q and %q", tableBegins, tableEnds)
	}
	generated(t, "README.md", []byte(before+tableBegins+rows.String()+tableEnds+after))
}

// valueRows writes a row for each value below a path, and for maps that are explained. A map in one
// line is one value.
func valueRows(t *testing.T, out *strings.Builder, path string, node *yaml.Node) {
	t.Helper()
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		said := comment(key.HeadComment, key.LineComment, value.LineComment)
		if path == "" && i == 0 {
			said = ""
		}
		if value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0 {
			if said != "" {
				fmt.Fprintf(out, "|`%s`||%s|\n", name, said)
			}
			valueRows(t, out, name, value)
			continue
		}
		fmt.Fprintf(out, "|`%s`|`%s`|%s|\n", name, oneLine(t, value), said)
	}
}

// comment is the text of comments, in one line.
func comment(parts ...string) string {
	var lines []string
	for _, part := range parts {
		for line := range strings.Lines(part) {
			lines = append(lines, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
		}
	}
	return strings.ReplaceAll(strings.Join(lines, " "), "|", `\|`)
}

// oneLine is a value as one would write it in one line.
func oneLine(t *testing.T, value *yaml.Node) string {
	t.Helper()
	flow := *value
	flow.HeadComment, flow.LineComment, flow.FootComment = "", "", ""
	if flow.Kind != yaml.ScalarNode {
		flow.Style = yaml.FlowStyle
	}
	for _, c := range flow.Content {
		c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	}
	var text strings.Builder
	encoder := yaml.NewEncoder(&text)
	if err := encoder.Encode(&flow); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(text.String()), " ")
}
