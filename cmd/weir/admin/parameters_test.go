package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// variants has clients subscribe to cluster a with env=MAP, for each map, and the origin answer
// with one variant for prod and one for all other values; all have b.
func (w *world) variants(maps ...string) {
	w.t.Helper()
	now := time.Now()
	origin := w.cfg.Table.Origin("mesh")
	group, err := origin.Group(relaytest.Node("n", "c"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, env := range maps {
		p := constraints.Params{}
		if env != "" {
			p = constraints.NewParams(map[string]string{"env": env})
		}
		group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: xds.ClusterType, Delta: true, Params: p}).
			Update(now, []string{"a", "b"}, nil)
	}
	lane := origin.TakeLanes()[0]
	lane.Open(now, 0)
	lane.Take(now, false)
	update := &xds.Update{TypeURL: xds.ClusterType}
	add := func(name string, timeout time.Duration, c *discoveryv3.DynamicParameterConstraints) {
		body, err := proto.Marshal(relaytest.Cluster(name, timeout))
		if err != nil {
			w.t.Fatal(err)
		}
		set, err := constraints.Compile(c)
		if err != nil {
			w.t.Fatal(err)
		}
		update.Resources = append(update.Resources, xds.Resource{Name: name, Version: "1", Any: body, Constraints: set})
	}
	prod := relaytest.Is("env", "prod")
	add("a", time.Second, prod)
	add("a", 2*time.Second, relaytest.Not(prod))
	add("b", time.Second, nil)
	if _, ok := lane.Apply(now, update); !ok {
		w.t.Fatal("the lane never asked for the type")
	}
}

// item is one of a list, as far as these tests look.
type item struct {
	Name        string   `json:"name"`
	Constraints string   `json:"constraints"`
	Parameters  []string `json:"parameters"`
	LeftOut     int      `json:"parameters_left_out"`
	Clients     int      `json:"clients"`
}

func (w *world) items(query string) (all []item) {
	w.t.Helper()
	rec := w.get("/resources?" + query)
	var page struct{ Resources []item }
	if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil || rec.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %v\n%s", query, rec.Code, err, rec.Body)
	}
	return page.Resources
}

// TestResourcesByParameters: each variant tells its constraints, the maps that have it, and how
// many clients do; param= shows what a client of a map gets.
func TestResourcesByParameters(t *testing.T) {
	w := newWorld(t)
	w.variants("", "prod", "test")
	const prod, test = `"env"="prod"`, `"env"="test"`
	for query, want := range map[string][]item{
		"name=a":                   {{"a", "!" + prod, []string{"", test}, 0, 2}, {"a", prod, []string{prod}, 0, 1}},
		"name=a&param=env%3Dprod":  {{"a", prod, []string{prod}, 0, 1}},
		"name=a&param=":            {{"a", "!" + prod, nil, 0, 1}},
		"param=env=test":           {{"a", "!" + prod, []string{test}, 0, 1}, {"b", "", []string{test}, 0, 1}},
		"param=env=test&param=v=1": {{"a", "!" + prod, []string{"", test}, 0, 2}, {"b", "", []string{"", prod, test}, 0, 3}},
		"name=b&param=env=prod":    {{"b", "", []string{prod}, 0, 1}},
		"type=eds&param=env=prod":  {},
	} {
		if got := w.items(query); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\ngot  %v\nwant %v", query, got, want)
		}
	}
	for _, wrong := range []string{"param=env", "param=&param=env=prod", "param=env=prod&param=env=test", "full=x"} {
		want(t, w.get("/resources?"+wrong), http.StatusBadRequest, strings.SplitN(wrong, "=", 2)[0]+"=")
	}
}

// TestManyParameterMapsAreReadable: 500 of them are one row of a type and of a variant, ten maps
// long unless all are asked for.
func TestManyParameterMapsAreReadable(t *testing.T) {
	w := newWorld(t)
	const maps = 500
	envs := make([]string, maps)
	for i := range envs {
		envs[i] = fmt.Sprintf("e%03d", i)
	}
	w.variants(envs...)
	for query, listed := range map[string]int{"name=a": shownMaps, "name=a&full=true": maps} {
		got := w.items(query)
		if len(got) != 1 || got[0].Clients != maps || len(got[0].Parameters) != listed || got[0].LeftOut != maps-listed {
			t.Errorf("%s: %d rows, the first %+v", query, len(got), got[0])
		}
	}
	var page struct {
		Groups []struct {
			ParameterSets int `json:"parameter_sets"`
			Types         []struct {
				Type                            string
				ParameterSets                   int `json:"parameter_sets"`
				Names, Resources, Copies, Bytes int
				ByParameters                    []struct {
					Parameters       string
					Resources, Bytes int
				} `json:"by_parameters"`
			}
		}
	}
	for query, listed := range map[string]int{"": shownMaps, "?full=true": maps} {
		if err := json.Unmarshal(w.get("/groups"+query).Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Groups) != 1 || len(page.Groups[0].Types) != 1 || page.Groups[0].ParameterSets != maps {
			t.Fatalf("/groups%s: %+v", query, page)
		}
		cds := page.Groups[0].Types[0]
		if cds.Type != "cds" || cds.ParameterSets != maps || cds.Names != 2*maps || cds.Resources != 2 || cds.Copies != 2*maps || len(cds.ByParameters) != listed {
			t.Errorf("/groups%s: %+v", query, cds)
		}
		if row := cds.ByParameters[0]; row.Parameters != `"env"="e000"` || row.Resources != 2 || row.Bytes != cds.Bytes {
			t.Errorf("/groups%s: %+v, of a sum of %d bytes that all maps share", query, row, cds.Bytes)
		}
	}
	shown := w.get("/groups?origin=mesh&limit=100000") // as the page asks
	want(t, shown, http.StatusOK, fmt.Sprintf(`"parameter_sets": %d`, maps))
	if n := strings.Count(shown.Body.String(), `"type": "cds"`); n != 1 {
		t.Errorf("the page has %d lines for the type, want one", n)
	}
	want(t, w.get("/groups?full=x"), http.StatusBadRequest, "full=")
}

// TestGroupsWithoutParametersAreAsBefore: nothing is said of parameters where nobody has any.
func TestGroupsWithoutParametersAreAsBefore(t *testing.T) {
	w := newWorld(t)
	w.variants("")
	for _, path := range []string{"/groups", "/groups?full=true", "/resources", "/", "/overview"} {
		if body := w.get(path).Body.String(); strings.Contains(body, "parameter") {
			t.Errorf("%s speaks of parameters:\n%s", path, body)
		}
	}
}

// TestClientsTellTheirParameters: those they named and those of their node, few of many.
func TestClientsTellTheirParameters(t *testing.T) {
	w := newWorld(t)
	of := func(n int) (parts []downstream.PartStatus) {
		for i := range n {
			parts = append(parts, downstream.PartStatus{Origin: "mesh", Group: "g", Params: fmt.Sprintf("env=e%02d", i), Located: i > 0, Names: 1})
		}
		return parts
	}
	w.clients = []downstream.ClientStatus{{Stream: 7, Types: []downstream.TypeStatus{
		{TypeURL: xds.ClusterType, Names: 12, Parts: of(12)}, {TypeURL: xds.EndpointType, Names: 2, Parts: of(2)},
	}}}
	few := w.get("/clients")
	want(t, few, http.StatusOK, `"parameter_sets": 12`, `"origins_left_out": 2`, `"parameters": "env=e09"`, `"located": true`)
	if n := strings.Count(few.Body.String(), `"located": true`); n != 9+1 {
		t.Errorf("%d parts are located, want all but one of each type that are listed", n)
	}
	all := w.get("/clients?full=true")
	want(t, all, http.StatusOK, `"parameters": "env=e11"`)
	if strings.Contains(all.Body.String(), "left_out") {
		t.Errorf("something is left out:\n%s", all.Body)
	}
	want(t, w.get("/clients?node=&full=true"), http.StatusOK, `"parameter_sets": 12`)
	want(t, w.get("/clients?full="+url.QueryEscape("1x")), http.StatusBadRequest, "full=")
}
