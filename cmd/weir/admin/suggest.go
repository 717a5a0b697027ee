package admin

import (
	"cmp"
	"net/http"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
)

// Suggestions is the answer of /groups/suggest.
type Suggestions struct {
	Origins []Suggestion `json:"origins"`
}

// Suggestion says which fields of an origin's group keys made a difference to its answers so far.
type Suggestion struct {
	Origin  string   `json:"origin"`
	GroupBy []string `json:"group_by"`
	Groups  int      `json:"groups"` // without dedicated ones
	// Compared is how many of them were answered, and so looked at.
	Compared int `json:"compared"`
	// Suggested is a key that tells apart all that was answered differently, and would make so many
	// groups of those compared.
	Suggested       []string        `json:"suggested"`
	SuggestedGroups int             `json:"suggested_groups"`
	Fields          []FieldEvidence `json:"fields"`
	// Differing are fields that may have to be added to the key.
	Differing []DifferingField `json:"differing"`
}

// DifferingField is a field that control planes tailor by, that the key leaves out, and in which
// members of groups differ.
type DifferingField struct {
	Differing        // in
	Group     string `json:"group"` // one of
	Groups    int    `json:"groups"`
	// Tailored: elsewhere the answers went by it. Between, Type and Name are as in FieldEvidence.
	Tailored bool     `json:"tailored"`
	Between  []string `json:"between,omitempty"`
	Type     string   `json:"type,omitempty"`
	Name     string   `json:"name,omitempty"`
}

// FieldEvidence is what is known of one field of the keys.
type FieldEvidence struct {
	Field  string `json:"field"`
	Values int    `json:"values"`
	// Verdict is no_difference, difference or no_evidence: no two groups differ in it alone.
	Verdict inspect.FieldVerdict `json:"verdict"`
	// FewerGroups is how many groups fewer there would be without it.
	FewerGroups int `json:"fewer_groups,omitempty"`
	// Of a difference, one: the keys of two groups, and what they were answered differently.
	Between []string `json:"between,omitempty"`
	Type    string   `json:"type,omitempty"`
	Name    string   `json:"name,omitempty"` // "*" is the set of all
}

func (a *Admin) suggest(w http.ResponseWriter, r *http.Request) {
	out, only := Suggestions{Origins: []Suggestion{}}, r.URL.Query().Get("origin")
	if err := cmp.Or(known(r.URL.RawQuery, []string{"origin"}), knownOrigin(only, a.cfg.Table.Origins())); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, o := range a.cfg.Table.Origins() {
		if only == "" || o.Name() == only {
			out.Origins = append(out.Origins, suggestionOf(inspect.Suggest(o)))
		}
	}
	writeJSON(w, http.StatusOK, out)
}

func suggestionOf(s inspect.Suggestion) Suggestion {
	out := Suggestion{
		Origin: s.Origin, GroupBy: s.GroupBy, Groups: s.Groups, Compared: s.Compared,
		Suggested: s.Suggested, SuggestedGroups: s.After, Fields: []FieldEvidence{}, Differing: []DifferingField{},
	}
	for _, e := range s.Fields {
		f := FieldEvidence{Field: e.Field, Values: e.Values, Verdict: e.Verdict, FewerGroups: e.Merged}
		if e.Verdict == inspect.Difference {
			f.Between, f.Type, f.Name = e.Groups[:], metrics.ShortName(e.TypeURL), e.Name
		}
		out.Fields = append(out.Fields, f)
	}
	for i := range s.Differing {
		d := &s.Differing[i]
		f := DifferingField{Differing: Differing{d.Field, d.Values, d.IDs}, Group: d.Group, Groups: d.Count, Tailored: d.Tailored}
		if d.Tailored {
			f.Between, f.Type, f.Name = d.Groups[:], metrics.ShortName(d.TypeURL), d.Name
		}
		out.Differing = append(out.Differing, f)
	}
	return out
}
