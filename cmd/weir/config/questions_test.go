package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestQuestions: a file of questions is read as strictly as a configuration.
func TestQuestions(t *testing.T) {
	const whole = "{identity: 'uid:1', type: cds, name: x, answer: allowed}"
	q, err := ParseQuestions("/dir/test.yaml", []byte("questions: ["+whole+", {identity: 'uid:1', listener: l, origin: o, node: {id: i, cluster: c, metadata: {A: b}}, "+
		"parameters: {p: '${V}'}, type: a/b.C, name: '*', answer: ended}]\n"), func(string) (string, bool) { return "v", true })
	if err != nil {
		t.Fatal(err)
	}
	if x := q.Questions[1]; filepath.ToSlash(q.Config) != "/dir/weir.yaml" || q.Questions[0].Type != typeHost+"envoy.config.cluster.v3.Cluster" || x.Node.Metadata["A"] != "b" ||
		x.Parameters["p"] != "v" || x.Type != "a/b.C" || x.Answer != AnswerEnded {
		t.Errorf("got %+v", q)
	}
	if p := q.Problemf(1, "is %s", "wrong"); !strings.HasPrefix(p.Error(), "/dir/test.yaml:1:") || !strings.HasSuffix(p.Error(), ": questions[1]: is wrong") {
		t.Errorf("got %v", p)
	}
	for text, want := range map[string]string{
		"":                                     "1:1: questions: at least one is needed",
		"questions: []":                        "1:12: questions: at least one is needed",
		"[]":                                   "1:1: must be a mapping, not a list",
		"questions: [" + whole + "]\nconfg: x": `2:1: confg: unknown key; did you mean "config"?`,
		"questions: [{identity: 'uid:1', type: cds, name: x}]":                         "questions[0].answer: is required",
		"questions: [{type: cds, name: x, answer: denied}]":                            "questions[0].identity: is required",
		"questions: [{identity: a, name: x, answer: denied}]":                          "questions[0].type: is required",
		"questions: [{identity: a, type: cds, answer: denied}]":                        "questions[0].name: is required",
		"questions: [{identity: a, type: xds, name: x, answer: denied}]":               `1:33: questions[0].type: "xds" is no type`,
		"questions: [{identity: a, type: cds, name: x, answer: allowd}]":               `questions[0].answer: "allowd" is not one of allowed, denied, ended; did you mean "allowed"?`,
		"questions: [{identity: a, type: cds, name: x, answer: denied, node: {x: y}}]": "questions[0].node.x: unknown key",
		"questions: [": "not valid YAML",
	} {
		_, err := ParseQuestions("test.yaml", []byte(text), nil)
		if got := Problems(err); len(got) != 1 || !strings.Contains(got[0].Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
