package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// fleet has groups of one client each, whose nodes have a cluster and metadata.
type fleet struct{ *rig }

func newFleet(t *testing.T, groupBy ...string) *fleet {
	return &fleet{newRig(t, relay.OriginConfig{GroupBy: groupBy})}
}

// group answers one of them. The cluster is followed by @ and an identity if that counts. Metadata is k=v,k=v; answers are as in rig.says, to a subscription to
// `*` of Clusters, and, those that begin with @, to Endpoints by name.
func (f *fleet) group(cluster, metadata string, answers ...string) {
	f.tb.Helper()
	cluster, who, _ := strings.Cut(cluster, "@")
	n := &corev3.Node{Id: "one of them", Cluster: cluster, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
	for _, word := range strings.FieldsFunc(metadata, func(r rune) bool { return r == ',' }) {
		k, v, _ := strings.Cut(word, "=")
		n.Metadata.Fields[k] = structpb.NewStringValue(v)
	}
	g, err := f.origin.GroupFor(n, who, nil)
	if err != nil {
		f.tb.Fatal(err)
	}
	r := &rig{tb: f.tb, origin: f.origin, group: g}
	var star, named, names []string
	for _, a := range answers {
		if a, is := strings.CutPrefix(a, "@"); is {
			name, _, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
			named, names = append(named, a), append(names, name)
		} else {
			star = append(star, a)
		}
	}
	if star != nil {
		r.sub(xds.ClusterType, "", xds.Wildcard)
	}
	if names != nil {
		r.sub(xds.EndpointType, "", names...)
	}
	r.open()
	if star != nil {
		r.says(xds.ClusterType, star...)
	}
	if names != nil {
		r.says(xds.EndpointType, named...)
	}
}

// suggests is the suggestion in a line, and a line for each field.
func (f *fleet) suggests() string {
	f.table.Advance(zero.Add(time.Minute))
	s := Suggest(f.origin)
	lines := []string{fmt.Sprintf("%d of %d: %s, %d groups", s.Compared, s.Groups, strings.Join(s.Suggested, " "), s.After)}
	for _, e := range s.Fields {
		line := fmt.Sprintf("%s %d %s", e.Field, e.Values, e.Verdict)
		if e.Merged > 0 {
			line += fmt.Sprintf(" -%d", e.Merged)
		}
		if e.Name != "" {
			line += fmt.Sprintf(" %s %q", e.Type, e.Name)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestSuggest: a field that made no difference can be left out of the key, one that made a
// difference cannot, and of one that never differs alone nothing is known.
func TestSuggest(t *testing.T) {
	for _, c := range []struct {
		story  string
		key    string
		groups [][]string // cluster, metadata, answers
		want   string
	}{
		{
			"an address in the metadata splits groups that are answered alike", "cluster metadata",
			[][]string{
				{"web", "IP=1,NS=a", "x=1"},
				{"web", "IP=2,NS=a", "x=1"},
				{"web", "IP=3,NS=b", "x=2"},
				{"web", "IP=4,NS=b", "x=2"},
			},
			"4 of 4: cluster metadata.NS, 2 groups\nmetadata.IP 4 no_difference -2\nmetadata.NS 2 difference cds \"*\"\ncluster 1 no_evidence",
		},
		{
			"nothing can be left out", "cluster metadata.NS",
			[][]string{{"web", "NS=a", "x=1"}, {"web", "NS=b", "x=2"}, {"api", "NS=a", "x=3"}},
			"3 of 3: cluster metadata.NS, 3 groups\ncluster 2 difference cds \"*\"\nmetadata.NS 2 difference cds \"*\"",
		},
		{
			"of two fields that always differ together one is enough, whichever it is", "metadata.A metadata.B",
			[][]string{{"", "A=1,B=1", "x=1"}, {"", "A=2,B=2", "x=2"}},
			"2 of 2: metadata.A metadata.B, 2 groups\nmetadata.A 2 no_evidence\nmetadata.B 2 no_evidence",
		},
		{
			"other names of the same endpoints are no difference, another body is", "cluster metadata.NS",
			[][]string{{"web", "NS=a", "@e=1", "@f=1"}, {"web", "NS=b", "@e=1", "@g=1"}, {"api", "NS=b", "@g=2"}},
			"3 of 3: cluster, 2 groups\nmetadata.NS 2 no_difference -1\ncluster 2 difference eds \"g\"",
		},
		{
			"a name that one group was told does not exist", "cluster",
			[][]string{{"web", "", "@e=1"}, {"api", "", "@-e"}},
			"2 of 2: cluster, 2 groups\ncluster 2 difference eds \"e\"",
		},
		{
			"an identity made a difference, and one made none", "identity cluster",
			[][]string{{"web@uid:1", "", "x=1"}, {"web@uid:2", "", "x=2"}, {"api@anonymous", "", "x=2"}},
			"3 of 3: identity cluster, 3 groups\nidentity 3 difference cds \"*\"\ncluster 2 no_evidence",
		},
		{
			"identities that are answered alike", "cluster identity",
			[][]string{{"web@uid:1", "", "x=1"}, {"web@uid:2", "", "x=1"}},
			"2 of 2: cluster, 1 groups\nidentity 2 no_difference -1\ncluster 1 no_evidence",
		},
		{
			"an absent key is a value", "cluster metadata",
			[][]string{{"web", "", "x=1"}, {"web", "IP=1", "x=1"}},
			"2 of 2: cluster, 1 groups\nmetadata.IP 2 no_difference -1\ncluster 1 no_evidence",
		},
	} {
		t.Run(c.story, func(t *testing.T) {
			f := newFleet(t, strings.Fields(c.key)...)
			for _, g := range c.groups {
				f.group(g[0], g[1], g[2:]...)
			}
			got := strings.Replace(f.suggests(), fmt.Sprintf("of %d:", len(c.groups)+1), fmt.Sprintf("of %d:", len(c.groups)), 1)
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestSuggestGoesByAnswers: groups that were not answered, and secrets, are no evidence.
func TestSuggestGoesByAnswers(t *testing.T) {
	f := newFleet(t, "cluster")
	f.group("web", "", "x=1")
	f.group("api", "")
	for i, body := range []string{"1", "2"} {
		g, err := f.origin.Group(&corev3.Node{Cluster: fmt.Sprint("s", i)})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{tb: t, origin: f.origin, group: g}
		r.sub(xds.SecretType, "", "key")
		r.open()
		r.says(xds.SecretType, "key="+body)
	}
	f.table.Advance(zero.Add(time.Minute))
	s := Suggest(f.origin)
	if s.Compared != 1 || !slices.Equal(s.Suggested, []string{"cluster"}) {
		t.Errorf("%+v", s)
	}
}
