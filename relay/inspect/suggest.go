package inspect

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// maxFacts bounds what Suggest looks at: some 50 bytes each while it runs.
const maxFacts = 5_000_000

// Suggestion says which fields of the groups' keys made a difference to what the origin answered so
// far. It is evidence and no proof: what an origin will answer nobody knows.
type Suggestion struct {
	Origin  string   `json:"origin"`
	GroupBy []string `json:"group_by"` // as configured
	// Groups is how many there are, without dedicated ones, and Compared how many of them were
	// answered, and so looked at.
	Groups   int `json:"groups"`
	Compared int `json:"compared"`
	// Suggested is a key that tells apart all that was answered differently, sorted. After is how
	// many groups those compared would be. It is GroupBy if no field can be left out.
	Suggested []string `json:"suggested"`
	After     int      `json:"suggested_groups"`
	// Fields are those of the keys, the ones that can be left out first, then by their values.
	Fields []FieldEvidence `json:"fields"`
	// Differing are fields that may have to be added to the key, those with evidence first.
	Differing []DifferingField `json:"differing"`
}

// FieldVerdict says whether a field makes a difference.
type FieldVerdict string

const (
	// NoDifference: groups that differ in it, and in no field that is needed, were answered alike.
	NoDifference FieldVerdict = "no_difference"
	// Difference: groups that differ in it alone, or in it and in what can be left out, were
	// answered differently.
	Difference FieldVerdict = "difference"
	// NoEvidence: no two groups differ in it alone.
	NoEvidence FieldVerdict = "no_evidence"
)

// FieldEvidence is what is known of one field of the keys.
type FieldEvidence struct {
	Field   string       `json:"field"`  // a term, or metadata.KEY
	Values  int          `json:"values"` // that it has in the groups compared, "none" among them
	Verdict FieldVerdict `json:"verdict"`
	// Merged is how many groups fewer there would be without it, if it can be left out.
	Merged int `json:"fewer_groups,omitempty"`
	Evidence
}

// Evidence is a difference: the keys of two groups, and what they were answered differently. Name
// is "*" for the set of all. Type is a short name.
type Evidence struct {
	Between []string `json:"between,omitempty"`
	Type    string   `json:"type,omitempty"`
	Name    string   `json:"name,omitempty"`
}

// Suggest compares what the origin's groups were answered. Two groups were answered alike if the
// sets of `*` that are complete in both are equal, and so is every resource that both hold by name.
func Suggest(o *relay.Origin) Suggestion {
	s := Suggestion{Origin: o.Name(), GroupBy: slices.Clone(o.GroupBy()), Fields: []FieldEvidence{}, Differing: []DifferingField{}}
	c := comparison{facts: map[factKey]uint32{}, classes: map[[sha256.Size]byte]int{}}
	for _, g := range o.Groups() {
		if g.Dedicated {
			continue
		}
		s.Groups++
		s.differ(g.Key, g.Differing())
		if c.held < maxFacts {
			c.add(&g)
		}
	}
	s.Compared = len(c.groups)
	s.Differing = c.differing(s.Differing)
	keep := c.fields()
	for _, f := range slices.Clone(keep) {
		if o.Told(f) {
			continue // it may refuse one of them tomorrow
		}
		e := FieldEvidence{Field: f, Values: c.values(f)}
		rest := slices.DeleteFunc(slices.Clone(keep), func(x string) bool { return x == f })
		switch merged := c.partitions(keep) - c.partitions(rest); {
		case merged == 0:
			e.Verdict = NoEvidence
		case c.differ(byKey(rest), &e.Evidence):
			e.Verdict = Difference
		default:
			e.Verdict, e.Merged, keep = NoDifference, merged, rest
		}
		s.Fields = append(s.Fields, e)
	}
	slices.SortStableFunc(s.Fields, func(a, b FieldEvidence) int { return cmp.Compare(b.Merged, a.Merged) })
	s.After, s.Suggested = c.partitions(keep), slices.Sorted(slices.Values(keep))
	if !slices.ContainsFunc(s.Fields, func(e FieldEvidence) bool { return e.Verdict == NoDifference }) {
		s.Suggested = s.GroupBy
	}
	return s
}

// comparison holds what groups were answered.
type comparison struct {
	groups  []comparedGroup
	facts   map[factKey]uint32 // their numbers
	keys    []factKey          // by number
	classes map[[sha256.Size]byte]int
	members []int // of each class, a group
	held    int   // facts
}

type comparedGroup struct {
	key    string
	fields map[string]string
	agreed map[string]string
	class  int // groups of one class were answered the same
	facts  []fact
}

// factKey is what may be answered: a resource by name, or the set of all.
type factKey struct{ typeURL, params, name string }

// fact is what was answered, the zero digest being that there is nothing.
type fact struct {
	of uint32
	is xds.SetDigest
}

// add looks at a group, unless nothing was answered to it yet.
func (c *comparison) add(g *relay.GroupView) {
	x := comparedGroup{key: g.Key, fields: g.Fields(), agreed: g.Agreed()}
	for v := range g.Types() {
		for _, m := range v.Maps() {
			status, _ := m.Status(nil)
			if status.Settled {
				sum := sha256.Sum256([]byte(m.Digest().Set))
				x.facts = append(x.facts, fact{c.number(factKey{v.TypeURL, status.Params, xds.Wildcard}), xds.SetDigest(sum[:16])})
			}
			x.facts = c.names(x.facts, v.TypeURL, status.Params, m.Rows("", nil))
		}
	}
	if len(x.facts) == 0 {
		return
	}
	slices.SortFunc(x.facts, func(a, b fact) int { return cmp.Compare(a.of, b.of) })
	h := sha256.New()
	for _, f := range x.facts {
		_ = binary.Write(h, binary.BigEndian, f.of)
		h.Write(f.is[:])
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	class, known := c.classes[sum]
	if x.class = class; !known {
		x.class = len(c.members)
		c.classes[sum], c.members = x.class, append(c.members, len(c.groups))
		c.held += len(x.facts)
	} else {
		x.facts = nil // those of the class's first group
	}
	c.groups = append(c.groups, x)
}

// names adds what was answered by name. Variants of one name are one answer.
func (c *comparison) names(facts []fact, typeURL, params string, rows []relay.Row) []fact {
	if xds.IsSecret(typeURL) {
		return facts // whether two are equal is nobody's to know (RELAY-76)
	}
	variants := map[string][]xds.Digest{}
	for i := range rows {
		r := &rows[i]
		if r.Set != nil || r.Variant == nil && !r.Absent {
			continue
		}
		all := variants[r.Name]
		if r.Variant != nil {
			all = append(all, r.Variant.Digest)
		}
		variants[r.Name] = all
	}
	for name, all := range variants {
		facts = append(facts, fact{c.number(factKey{typeURL, params, name}), xds.SetOf(all)})
	}
	return facts
}

func (c *comparison) number(k factKey) uint32 {
	n, known := c.facts[k]
	if !known {
		n = uint32(len(c.keys))
		c.facts[k], c.keys = n, append(c.keys, k)
	}
	return n
}

// fields are those of the keys, with the most values first: what differs in every group is what
// most likely should not be in the key.
func (c *comparison) fields() []string {
	all, values := map[string]bool{}, map[string]int{}
	for i := range c.groups {
		for f := range c.groups[i].fields {
			all[f] = true
		}
	}
	for f := range all {
		values[f] = c.values(f)
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), strings.Compare(a, b))
	})
}

// values is how many values a field has.
func (c *comparison) values(field string) int {
	seen := map[string]bool{}
	for i := range c.groups {
		seen[c.groups[i].fields[field]] = true
	}
	return len(seen)
}

// partition is what a group would be in if these were the fields of the key.
func (g *comparedGroup) partition(fields []string) string {
	var b []byte
	for _, f := range fields {
		v := g.fields[f]
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	return string(b)
}

func (c *comparison) partitions(fields []string) int {
	seen := map[string]bool{}
	for i := range c.groups {
		seen[c.groups[i].partition(fields)] = true
	}
	return len(seen)
}

// byKey puts a group where it would be if these were the fields of the key.
func byKey(fields []string) func(*comparedGroup) (string, bool) {
	return func(g *comparedGroup) (string, bool) { return g.partition(fields), true }
}

// differ reports whether two groups that would be one were answered differently, and says which.
// Groups that have no place take no part.
func (c *comparison) differ(place func(*comparedGroup) (string, bool), e *Evidence) bool {
	type answered struct {
		is    xds.SetDigest
		group int
	}
	type partition struct {
		classes map[int]bool
		answers map[uint32]answered
	}
	all := map[string]partition{}
	for i := range c.groups {
		g := &c.groups[i]
		at, has := place(g)
		if !has {
			continue
		}
		p, known := all[at]
		if !known {
			p = partition{map[int]bool{}, map[uint32]answered{}}
			all[at] = p
		}
		if p.classes[g.class] {
			continue
		}
		p.classes[g.class] = true
		for _, f := range c.groups[c.members[g.class]].facts {
			switch a, known := p.answers[f.of]; {
			case !known:
				p.answers[f.of] = answered{f.is, i}
			case a.is != f.is:
				e.Between = []string{c.groups[a.group].key, g.key}
				e.Type, e.Name = metrics.ShortName(c.keys[f.of].typeURL), c.keys[f.of].name
				return true
			}
		}
	}
	return false
}

// NodeType is the one Field of a DifferingField that is no term of a key: of terms only id has it.
const NodeType = relay.NodeType

// DifferingField is a watched field in which members of one group differ, and are given one answer.
type DifferingField struct {
	relay.Differing        // of Group
	Group           string `json:"group"`  // one such, and
	Count           int    `json:"groups"` // how many there are
	// Tailored: the origin seems to go by it. Of the groups whose members all have one value, those
	// with the same were answered alike, and others were not: of these, one difference.
	Tailored bool `json:"tailored"`
	Evidence
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
func (c *comparison) differing(fields []DifferingField) []DifferingField {
	sorted := []DifferingField{}
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
	var e Evidence
	if c.differ(value, &e) {
		return // the field does not explain the answers
	}
	one := func(g *comparedGroup) (string, bool) {
		_, agreed := value(g)
		return "", agreed
	}
	f.Tailored = c.differ(one, &f.Evidence)
}
