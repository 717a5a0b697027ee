package config

import (
	"fmt"
	"os"
	"reflect"
)

// Questions is a file of weir authz test: questions to the rules of a configuration, with the
// answers that are expected.
type Questions struct {
	// Config is the configuration. Default: weir.yaml.
	Config string `yaml:"config" path:"file"`
	// Questions are asked one by one. At least one is required.
	Questions []Question `yaml:"questions"`

	source *report
}

// Question is one of them.
type Question struct {
	// Identity is the client's, as in /clients. Required.
	Identity string `yaml:"identity"`
	// Listener is the address of the listener. Default: empty, the first of the configuration.
	Listener string `yaml:"listener"`
	// Origin is asked. Default: empty, the one that the name's authority or the listener leads to.
	Origin string `yaml:"origin"`
	// Node is what the client says of itself. Default: nothing.
	Node QuestionNode `yaml:"node"`
	// Parameters are what it asks with. Default: none.
	Parameters map[string]string `yaml:"parameters"`
	// Type is a short name or a full type URL, and a full type URL after ParseQuestions. Required.
	Type string `yaml:"type"`
	// Name is what it asks for. Required.
	Name string `yaml:"name"`
	// Answer is allowed, denied, or ended: no rule fits the node, and the stream ends. Required.
	Answer string `yaml:"answer"`
}

// QuestionNode is what a client says of itself.
type QuestionNode struct {
	ID       string            `yaml:"id"`
	Cluster  string            `yaml:"cluster"`
	Metadata map[string]string `yaml:"metadata"`
}

// Values of Question.Answer.
const (
	AnswerAllowed = "allowed"
	AnswerDenied  = "denied"
	AnswerEnded   = "ended"
)

// LoadQuestions reads and checks a file. Its errors are those of Load.
func LoadQuestions(path string) (*Questions, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the questions: %w", err)
	}
	return ParseQuestions(path, data, os.LookupEnv)
}

// ParseQuestions reads and checks one YAML document, as Parse does.
func ParseQuestions(name string, data []byte, env func(string) (string, bool)) (*Questions, error) {
	src := newReport(name)
	root, err := parseYAML(src, data)
	if err != nil {
		return nil, err
	}
	d := newDecoder(src, env)
	q := &Questions{Config: d.absolute("weir.yaml"), source: src}
	if root != nil && !isNull(root) {
		d.value("", root, reflect.ValueOf(q).Elem())
	}
	k := checker{report: src, undecoded: src.problems}
	if len(q.Questions) == 0 && len(src.problems) == 0 {
		k.addf("questions", "at least one is needed")
	}
	for i := range q.Questions {
		k.question(fmt.Sprintf("questions[%d]", i), &q.Questions[i])
	}
	if err := src.err(); err != nil {
		return nil, err
	}
	return q, nil
}

func (k checker) question(path string, q *Question) {
	for _, x := range []struct{ key, value string }{{"identity", q.Identity}, {"name", q.Name}, {"type", q.Type}, {"answer", q.Answer}} {
		if x.value == "" {
			k.addf(path+"."+x.key, "is required")
		}
	}
	if q.Answer != "" {
		k.oneOf(path+".answer", q.Answer, AnswerAllowed, AnswerDenied, AnswerEnded)
	}
	url, ok := TypeURL(q.Type)
	if q.Type != "" && !ok {
		k.unknownType(path+".type", q.Type)
	}
	q.Type = url
}

// Problemf makes a problem at a question.
func (q *Questions) Problemf(i int, format string, args ...any) *Problem {
	return q.source.problem(fmt.Sprintf("questions[%d]", i), fmt.Sprintf(format, args...))
}
