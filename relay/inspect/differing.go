package inspect

import (
	"slices"

	"github.com/weir-xds/weir/relay"
)

// NodeType is the one Field of a DifferingField that is no term of a key: of terms only id has it.
const NodeType = relay.NodeType

// DifferingField is a watched field in which members of one group differ, and are given one answer.
type DifferingField struct {
	relay.Differing        // of Group
	Group           string // one such, and
	Count           int    // how many there are
	// Tailored: the origin seems to go by it. Of the groups whose members all have one value, those
	// with the same were answered alike, and others were not: of these, one difference, as in
	// FieldEvidence.
	Tailored      bool
	Groups        [2]string
	TypeURL, Name string
}

// differ adds the fields in which members of a group differ.
func (s *Suggestion) differ(key string, differing []relay.Differing) {
	for _, d := range differing {
		i := slices.IndexFunc(s.Differing, func(f DifferingField) bool { return f.Field == d.Field })
		if i < 0 {
			i, s.Differing = len(s.Differing), append(s.Differing, DifferingField{Differing: d, Group: key})
		}
		s.Differing[i].Count++
	}
}

// differing adds the evidence, and puts the fields with evidence first.
func (c *comparison) differing(fields []DifferingField) (sorted []DifferingField) {
	var others []DifferingField
	for _, f := range fields {
		if c.tailored(&f); f.Tailored {
			sorted = append(sorted, f)
		} else {
			others = append(others, f)
		}
	}
	return append(sorted, others...)
}

// tailored looks for evidence that the origin goes by a field that no key has.
func (c *comparison) tailored(f *DifferingField) {
	value := func(g *comparedGroup) (string, bool) {
		v, agreed := g.agreed[f.Field]
		return v, agreed
	}
	var e FieldEvidence
	if c.differ(value, &e) {
		return // the field does not explain the answers
	}
	one := func(g *comparedGroup) (string, bool) {
		_, agreed := value(g)
		return "", agreed
	}
	if f.Tailored = c.differ(one, &e); f.Tailored {
		f.Groups, f.TypeURL, f.Name = e.Groups, e.TypeURL, e.Name
	}
}
