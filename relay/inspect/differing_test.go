package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSuggestDiffering: a field in which members of one group differ is told, and whether elsewhere
// the origin answered by it. fleet.group is one client, so two in one group have one key.
func TestSuggestDiffering(t *testing.T) {
	for _, c := range []struct {
		story  string
		groups [][]string // cluster, metadata, answers
		want   string
	}{
		{
			"one namespace was given another's, and elsewhere the answers go by it",
			[][]string{
				{"web", "NAMESPACE=shop", "x=1"},
				{"api", "NAMESPACE=shop", "x=1"},
				{"pay", "NAMESPACE=bill", "x=2"},
				{"mix", "NAMESPACE=shop", "x=1"},
				{"mix", "NAMESPACE=bill"},
				{"mix", "NAMESPACE=team"},
			},
			`metadata.NAMESPACE in 1: "shop" and "bill"; tailored cds "*"`,
		},
		{
			"the answers of one namespace differ elsewhere, so it is not what they go by alone",
			[][]string{
				{"web", "NAMESPACE=shop", "x=1"},
				{"api", "NAMESPACE=shop", "x=2"},
				{"pay", "NAMESPACE=bill", "x=3"},
				{"mix", "NAMESPACE=shop", "x=1"},
				{"mix", "NAMESPACE=bill"},
			},
			`metadata.NAMESPACE in 1: "shop" and "bill"`,
		},
		{
			"two groups, and nothing is known elsewhere; what is known of another field comes first",
			[][]string{
				{"web", "NAMESPACE=shop", "x=1"},
				{"web", "NAMESPACE=bill"},
				{"api", "NAMESPACE=shop,app=a", "x=1"},
				{"api", "NAMESPACE=bill,app=b"},
				{"p", "app=a", "x=1"},
				{"q", "app=b", "x=2"},
			},
			`metadata.app in 1: "a" and "b"; tailored cds "*"` + "\n" + `metadata.NAMESPACE in 2: "shop" and "bill"`,
		},
		{"none differ", [][]string{{"web", "NAMESPACE=shop", "x=1"}, {"api", "NAMESPACE=bill", "x=2"}}, ""},
	} {
		t.Run(c.story, func(t *testing.T) {
			f := newFleet(t, "cluster")
			for _, g := range c.groups {
				f.group(g[0], g[1], g[2:]...)
			}
			f.table.Advance(zero.Add(time.Minute))
			s := Suggest(f.origin)
			var lines []string
			for i := range s.Differing {
				d := &s.Differing[i]
				line := fmt.Sprintf("%s in %d: %q and %q", d.Field, d.Count, d.Values[0], d.Values[1])
				if d.Tailored {
					line += fmt.Sprintf("; tailored %s %q", d.Type, d.Name)
				}
				lines = append(lines, line)
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			differing := 0
			for _, g := range Status(f.origin) {
				differing += len(g.Differing)
			}
			want := 0
			for i := range s.Differing {
				want += s.Differing[i].Count
			}
			if differing != want {
				t.Errorf("the status shows %d, the suggestion %d", differing, want)
			}
		})
	}
}
