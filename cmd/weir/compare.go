package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/client"
	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream/descriptors"
)

// comparison is what two sides answer, and the difference.
type comparison struct {
	TypeURL string `json:"type_url"`
	A       string `json:"a"`
	B       string `json:"b"`
	// Same is how many resources are equal.
	Same        int        `json:"same"`
	Differences []variance `json:"differences"`
}

// variance is a name that the sides answer differently.
type variance struct {
	Name string `json:"name"`
	// A and B say what each side has of it: "present", "absent", "no answer" or an error.
	A string `json:"a"`
	B string `json:"b"`
	// Changes are the fields that differ, if both have it. Of secrets none are shown.
	Changes []fieldChange `json:"changes,omitempty"`
}

// fieldChange is a field with its value on both sides; absent is nil.
type fieldChange struct {
	Path string `json:"path"`
	A    any    `json:"a"`
	B    any    `json:"b"`
}

const present = "present"

// compare compares two answers to one subscription.
func compare(sub client.Subscription, a, b *side, versions bool, known *descriptors.Types) *comparison {
	c := &comparison{TypeURL: sub.TypeURL, A: a.at, B: b.at, Differences: []variance{}}
	inA, inB := a.answer.byName(known), b.answer.byName(known)
	names := slices.DeleteFunc(slices.Clone(sub.Names), func(name string) bool { return name == client.Wildcard })
	names = slices.AppendSeq(slices.AppendSeq(names, maps.Keys(inA)), maps.Keys(inB))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		x, y := inA[name], inB[name]
		d := variance{Name: name, A: a.answer.state(name, x), B: b.answer.state(name, y)}
		if x != nil && y != nil {
			d.Changes = changes(x, y, versions, len(sub.Params) > 0)
			if len(d.Changes) > 0 && xds.IsSecret(sub.TypeURL) {
				d.Changes, d.B = nil, "present, another one"
			}
		}
		switch {
		case d.A != d.B || len(d.Changes) > 0:
			c.Differences = append(c.Differences, d)
		case x != nil:
			c.Same++
		}
	}
	return c
}

// byName has the resources of an answer. Those without a name go by their content.
func (a *answer) byName(known *descriptors.Types) map[string]*printed {
	doc := a.document(known)
	all := map[string]*printed{}
	for i := range doc.Resources {
		p := &doc.Resources[i]
		name := p.Name
		if name == "" {
			var text bytes.Buffer
			_ = json.Compact(&text, p.Resource) // JSON of ours
			name = text.String()
		}
		all[name] = p
	}
	return all
}

// state says what the answer has of a name.
func (a *answer) state(name string, p *printed) string {
	e, failed := a.errors[name]
	switch {
	case p != nil:
		return present
	case a.pending[name]:
		return "no answer"
	case failed && !e.NotFound():
		return fmt.Sprintf("error %s: %s", e.Code, e.Message)
	}
	return "absent"
}

// complete reports whether everything that was asked has an answer.
func (a *answer) complete() bool { return a.last != nil && len(a.pending) == 0 }

// changes are the fields in which two resources differ. Versions and constraints count only where
// they mean the same on both sides.
func changes(a, b *printed, versions, located bool) []fieldChange {
	var all []fieldChange
	if versions && a.Version != b.Version {
		all = append(all, fieldChange{Path: "version", A: a.Version, B: b.Version})
	}
	if located && a.when != b.when {
		all = append(all, fieldChange{Path: "constraints", A: a.when, B: b.when})
	}
	return fieldChanges(all, tree(a.Resource), tree(b.Resource))
}

// tree decodes JSON of ours, numbers as they are written.
func tree(text json.RawMessage) (v any) {
	decode := json.NewDecoder(bytes.NewReader(text))
	decode.UseNumber()
	_ = decode.Decode(&v) // it was just encoded; an empty text is nil
	return v
}

// fieldChanges appends the paths at which two trees differ.
func fieldChanges(all []fieldChange, a, b any) []fieldChange {
	admin.Differences("", a, b, func(path string, a, b any) {
		all = append(all, fieldChange{Path: strings.TrimPrefix(path, "."), A: a, B: b})
	})
	return all
}

// mostChanges is how many fields of a resource the table lists.
const mostChanges = 10

// mostValue is how many bytes of a value the table has.
const mostValue = 200

// comparisonLines prints the differences as diff does: - is what only A has, + what only B has. Of
// a resource it prints at most so many fields, and so many bytes of each value.
func comparisonLines(w io.Writer, c *comparison, most, bytes int) error {
	var text strings.Builder
	say := func(format string, args ...any) {
		text.WriteString(visible.Text(fmt.Sprintf(format, args...)) + "\n")
	}
	sub := func(format string, args ...any) { text.WriteString("    "); say(format, args...) }
	for i := range c.Differences {
		d := &c.Differences[i]
		switch {
		case d.A == present && d.B == "absent":
			say("- %s", d.Name)
		case d.A == "absent" && d.B == present:
			say("+ %s", d.Name)
		case d.A != d.B:
			say("~ %s: %s, %s", d.Name, d.A, d.B)
		default:
			say("~ %s", d.Name)
		}
		for j, f := range d.Changes {
			if j == most {
				sub("and %d more; -o wide has all", len(d.Changes)-j)
				break
			}
			sub("%s: %s -> %s", f.Path, valueText(f.A, bytes), valueText(f.B, bytes))
		}
	}
	if len(c.Differences) == 0 {
		say("%d resources, all equal", c.Same)
	} else {
		say("%d different, %d equal; - only %s, + only %s", len(c.Differences), c.Same, c.A, c.B)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// valueText is a value, of which at most so many bytes are shown.
func valueText(v any, most int) string {
	if v == nil {
		return "none"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // cannot happen: it was decoded from JSON
	}
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "..."
	}
	return string(text)
}
