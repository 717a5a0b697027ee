package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// truth is a model whose samples are to give it back.
var truth = model{
	BaseBytes: 10e6, ResourceBytes: 1000, BodyBytes: 436, GroupBytes: 50_000, ClientBytes: 30_000, NameBytes: 80, RSSFactor: 1.7,
	DeltaUS: 40, NamedUS: 60, SotWUS: 200, ConnectUS: 300,
}

func samplesOf(m *model) []sample {
	var out []sample
	for _, axis := range axisNames {
		for _, p := range axes()[axis] {
			s := sample{point: p, BaseBytes: m.BaseBytes, ConnectUS: m.ConnectUS, DeliveryUS: m.DeltaUS}
			s.LiveBytes = m.live(float64(p.Clients), p.held(), float64(p.Bytes), float64(p.Groups), float64(p.Names))
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
		"base": {got.BaseBytes, truth.BaseBytes}, "resource": {got.ResourceBytes, truth.ResourceBytes}, "body": {got.BodyBytes, truth.BodyBytes},
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
}

func TestPlan(t *testing.T) {
	each := replica{cores: 4, bytes: 8 << 30, streams: 50_000, full: 0.5}
	for name, row := range map[string]struct {
		region   region
		replicas float64
		why      string
	}{
		"little":          {region{clients: 1000, groups: 1, clusters: 10, bytes: 436}, 2, "one is enough"},
		"streams":         {region{clients: 100_001, groups: 1, clusters: 10, bytes: 436}, 4, "streams"},
		"CPU":             {region{clients: 100_000, groups: 1, clusters: 10, bytes: 436, clusterChanges: 3}, 7, "CPU"},                  // 12 cores of 2 each
		"CPU, by name":    {region{clients: 100_000, groups: 1, endpoints: 1000, names: 100, bytes: 436, endpointChanges: 20}, 7, "CPU"}, // the same
		"CPU, SotW":       {region{clients: 100_000, groups: 1, clusters: 2000, bytes: 436, clusterChanges: 1, sotw: true}, 21, "CPU"},   // 400 us each
		"memory":          {region{clients: 10_000, groups: 1, clusters: 1000, bytes: 436, names: 5000}, 3, "memory"},                    // 10,000 * 430 KB * 1.7 in 4 GiB
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

// TestPoints measures small points of every kind with real processes, and prints them.
func TestPoints(t *testing.T) {
	var programs programs
	if err := programs.build(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	found := scaled{Machine: thisMachine()}
	for _, p := range []point{
		{Axis: "clients", Clients: 5, Resources: 20, Bytes: 300, Groups: 1, Dialect: "delta"},
		{Axis: "names", Clients: 5, Resources: 20, Bytes: 300, Groups: 2, Names: 4, Rate: 50, Dialect: "delta"},
		{Axis: "sotw", Clients: 5, Resources: 20, Bytes: 300, Groups: 1, Dialect: "sotw"},
	} {
		s, err := p.measure(t.Context(), &programs, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if s.BaseBytes < mebi || s.LiveBytes < mebi || s.RSSBytes < s.LiveBytes/2 || s.StormS <= 0 || s.Deliveries == 0 || s.P50MS <= 0 {
			t.Errorf("found was %+v", s)
		}
		found.Samples = append(found.Samples, *s)
	}
	var b strings.Builder
	if err := found.markdown(&b); err != nil || strings.Count(b.String(), "\n| ") != 5 || !strings.Contains(b.String(), "No model") {
		t.Errorf("%v: the table is\n%s", err, b.String())
	}
}

func TestScaleFromFiles(t *testing.T) {
	c := &scaling{json: filepath.Join(t.TempDir(), "all.json"), from: nil}
	found := scaled{Machine: machine{Date: "2026-01-02"}, Samples: samplesOf(&truth)}
	half := len(found.Samples) / 2
	for i, part := range [][]sample{found.Samples[half:], found.Samples[:half]} { // in the other order
		one := scaled{Machine: found.Machine, Samples: part}
		name := filepath.Join(t.TempDir(), string(rune('a'+i)))
		if err := one.write(name); err != nil {
			t.Fatal(err)
		}
		c.from = append(c.from, name)
	}
	var b strings.Builder
	if err := c.run(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| weir by itself, live | 10 MiB |", "| a name that a client subscribes to | 80 bytes |", "| region of 100,000 clients |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	if strings.Index(b.String(), "| clients |") > strings.Index(b.String(), "| corner |") {
		t.Error("the axes are not in order")
	}
}
