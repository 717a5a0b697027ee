package main

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// truth is a model whose samples are to give it back.
var truth = model{
	BaseBytes: 10e6, ResourceBytes: 1500, NamedResourceBytes: 1000, BodyBytes: 436, GroupBytes: 50_000, ClientBytes: 30_000, NameBytes: 80, RSSFactor: 1.7,
	DeltaUS: 40, NamedUS: 60, SotWUS: 200, ConnectUS: 300,
}

func samplesOf(m *model) []sample {
	var out []sample
	for _, axis := range axisNames {
		for _, p := range axes()[axis] {
			s := sample{point: p, BaseBytes: m.BaseBytes, ConnectUS: m.ConnectUS, DeliveryUS: m.DeltaUS}
			s.LiveBytes = m.at(&p)
			s.RSSBytes = m.RSSFactor * s.LiveBytes
			if p.Names > 0 {
				s.DeliveryUS = m.NamedUS
			}
			if p.Dialect == "sotw" {
				s.DeliveryUS = m.SotWUS
			}
			out = append(out, s)
		}
	}
	return out
}

func TestFit(t *testing.T) {
	got, err := fit(samplesOf(&truth))
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }
	for what, pair := range map[string][2]float64{
		"base": {got.BaseBytes, truth.BaseBytes}, "resource": {got.ResourceBytes, truth.ResourceBytes}, "named resource": {got.NamedResourceBytes, truth.NamedResourceBytes}, "body": {got.BodyBytes, truth.BodyBytes},
		"group": {got.GroupBytes, truth.GroupBytes}, "client": {got.ClientBytes, truth.ClientBytes}, "name": {got.NameBytes, truth.NameBytes},
		"resident": {got.RSSFactor, truth.RSSFactor}, "delta": {got.DeltaUS, truth.DeltaUS}, "named": {got.NamedUS, truth.NamedUS},
		"sotw": {got.SotWUS, truth.SotWUS}, "connect": {got.ConnectUS, truth.ConnectUS},
	} {
		if !near(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	if _, err := fit(samplesOf(&truth)[:3]); err == nil {
		t.Error("a model was made of one axis")
	}
	same := samplesOf(&truth)
	for i := range same { // as many resources as names, everywhere
		if same[i].Axis == "names" {
			same[i].Resources = 10_000_000
		}
	}
	if _, err := fit(same); err == nil {
		t.Error("resources and names were told apart where there are as many of each")
	}
}

func TestPlan(t *testing.T) {
	each := replica{cores: 4, bytes: 8 << 30, streams: 50_000, full: 0.5}
	for name, row := range map[string]struct {
		region   region
		replicas float64
		why      string
	}{
		"little":  {region{clients: 1000, groups: 1, clusters: 10, bytes: 436}, 2, "one is enough"},
		"streams": {region{clients: 100_001, groups: 1, clusters: 10, bytes: 436}, 4, "streams"},
		// 12 cores of 2 each
		"CPU": {region{clients: 100_000, groups: 1, clusters: 10, bytes: 436, clusterChanges: 3}, 7, "CPU"},
		// the same
		"CPU, by name": {region{clients: 100_000, groups: 1, endpoints: 1000, names: 100, bytes: 436, endpointChanges: 20}, 7, "CPU"},
		// 400 us each
		"CPU, SotW": {region{clients: 100_000, groups: 1, clusters: 2000, bytes: 436, clusterChanges: 1, sotw: true}, 21, "CPU"},
		// 10,000 * 430 KB * 1.7 in 4 GiB
		"memory":          {region{clients: 10_000, groups: 1, clusters: 1000, bytes: 436, names: 5000}, 3, "memory"},
		"too much itself": {region{clients: 10, groups: 1, clusters: 10_000_000, bytes: 436}, 1001, "memory"},
	} {
		got := truth.plan(&row.region, &each)
		if got.replicas != row.replicas || got.why != row.why {
			t.Errorf("%s: %v replicas for %s, want %v for %s: %+v", name, got.replicas, got.why, row.replicas, row.why, got)
		}
		if got.streams != got.replicas*row.region.groups {
			t.Errorf("%s: %v streams at the origin", name, got.streams)
		}
	}
}

// TestLive: each of the ways to ask for resources has its own cost, and what is held encoded costs
// its bytes.
func TestLive(t *testing.T) {
	none := truth.live(&load{groups: 1, bytes: 500})
	for name, row := range map[string]struct {
		load load
		want float64
	}{
		"by *":          {load{groups: 1, all: 10, bytes: 500}, 10 * (truth.ResourceBytes + 500 - truth.BodyBytes)},
		"by * encoded":  {load{groups: 1, all: 10, bytes: 500, encoded: true}, 10 * (truth.ResourceBytes + 500 - truth.BodyBytes + 500 + around)},
		"by name":       {load{groups: 1, named: 10, bytes: 500, encoded: true}, 10 * (truth.NamedResourceBytes + 500 - truth.BodyBytes)},
		"names":         {load{groups: 1, clients: 2, names: 3, bytes: 500}, 2 * (truth.ClientBytes + 3*truth.NameBytes)},
		"another group": {load{groups: 2, bytes: 500}, truth.GroupBytes},
	} {
		if got := truth.live(&row.load) - none; math.Abs(got-row.want) > 1e-6 {
			t.Errorf("%s: %v bytes, want %v", name, got, row.want)
		}
	}
}

// TestPoints measures small points of every kind with real processes, and prints them.
func TestPoints(t *testing.T) {
	c := &scaling{study: smallStudy(t)}
	c.pause = 10 * time.Second // the processes of other packages are run beside these
	if err := c.programs.build(t.Context(), c.dir); err != nil {
		t.Fatal(err)
	}
	found := scaled{Machine: thisMachine()}
	for _, p := range []point{
		{Axis: "clients", Clients: 5, Resources: 20, Bytes: 300, Groups: 1, Dialect: "delta"},
		{Axis: "names", Clients: 5, Resources: 20, Bytes: 300, Groups: 2, Names: 4, Rate: 50, Dialect: "delta"},
		{Axis: "sotw", Clients: 5, Resources: 20, Bytes: 300, Groups: 1, Dialect: "sotw"},
	} {
		if err := c.add(t.Context(), &found, &p); err != nil {
			t.Fatal(err)
		}
		s := found.Samples[len(found.Samples)-1]
		if s.BaseBytes < mebi || s.LiveBytes < mebi || s.RSSBytes < s.LiveBytes/2 || s.StormRSSBytes < mebi || s.StormS <= 0 || s.Deliveries == 0 || s.P50MS <= 0 {
			t.Errorf("found was %+v", s)
		}
	}
	// One that cannot be measured is told, and the others stay.
	if err := c.add(t.Context(), &found, &point{Axis: "corner", Clients: 1, Resources: 5, Names: 6, Bytes: 300, Groups: 1, Dialect: "delta"}); err == nil {
		t.Error("six names of five resources were measured")
	}
	for _, want := range []string{"| sotw | sotw |", "names: 5 clients, 4 names of 20 resources, 2 groups, delta, rate 50 took ", "not measured: corner: 1 clients, 6 names"} {
		if said := c.log.(*bytes.Buffer).String(); !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
	var b strings.Builder
	if err := found.markdown(&b); err != nil || strings.Count(b.String(), "\n| ") != 5 || !strings.Contains(b.String(), "No model") ||
		!strings.Contains(b.String(), "\nNot measured: corner: 1 clients, 6 names") {
		t.Errorf("%v: the table is\n%s", err, b.String())
	}
}

func TestScaleFromFiles(t *testing.T) {
	c := &scaling{study: study{json: filepath.Join(t.TempDir(), "all.json")}}
	found := scaled{Machine: machine{Date: "2026-01-02"}, Samples: samplesOf(&truth)}
	half := len(found.Samples) / 2
	// in the other order
	for i, part := range [][]sample{found.Samples[half:], found.Samples[:half]} {
		one := &scaled{Machine: found.Machine, Samples: part, Missing: []missing{{part[0].point, "it was late"}}}
		name := filepath.Join(t.TempDir(), string(rune('a'+i)))
		if err := writeJSON(name, one); err != nil {
			t.Fatal(err)
		}
		c.from = append(c.from, name)
	}
	var b strings.Builder
	if err := c.run(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| weir by itself, in use | 10 MiB |", "| the same that they ask for by its name | 1000 bytes |", "Not measured: it was late", "| a name that a client subscribes to | 80 bytes |", "| region of 100,000 clients |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	if strings.Index(b.String(), "| clients |") > strings.Index(b.String(), "| corner |") {
		t.Error("the axes are not in order")
	}
}
