package main

import (
	"fmt"
	"strings"

	"github.com/weir-xds/weir/cmd/weirload/bench/farm"
	"github.com/weir-xds/weir/cmd/weirload/bench/leastsq"
)

// formula is a sum of terms, each a coefficient times a factor of a point.
type formula struct {
	name, unit string
	least      float64 // what can be measured well
	terms      []term
	value      func(*sample) float64
	fit        *leastsq.Fit
}

// term is one of them.
type term struct {
	name   string
	factor func(*sample) float64
}

// formulas are what growth fits, in this order.
type formulas struct{ memory, resident, changing, connecting *formula }

// ticks is CPU time that the kernel, which counts in steps of 10 ms, tells within a tenth.
const ticks = 100_000

// sentKiB is the size of the first state that a client is sent, in KiB.
func (p *point) sentKiB() float64 { return float64(p.Resources*(p.Bytes+around)) / 1024 }

func newFormulas() *formulas {
	one := func(*sample) float64 { return 1 }
	clients := func(s *sample) float64 { return float64(s.Clients) }
	groups := func(s *sample) float64 { return float64(s.Groups) }
	return &formulas{
		memory: &formula{name: "memory in use", unit: "bytes", least: mebi, value: func(s *sample) float64 { return s.LiveBytes }, terms: []term{
			{"weir by itself", one},
			{"a client", clients},
			{"a group", groups},
			{"a resource in a group that has it", func(s *sample) float64 { return float64(s.Groups * s.Resources) }},
			{"a byte of a resource, once for all groups that are sent the same", func(s *sample) float64 { return float64(s.Resources * s.Bytes) }},
		}},
		resident: &formula{name: "resident memory", unit: "bytes", least: mebi, value: func(s *sample) float64 { return s.RSSBytes }, terms: []term{
			{"weir by itself", one},
			{"a byte in use", func(s *sample) float64 { return s.LiveBytes }},
		}},
		changing: &formula{name: "CPU while resources change", unit: "us", least: ticks, value: func(s *sample) float64 { return 1e6 * s.CPUSeconds }, terms: []term{
			{"a change, in each group that is sent it", func(s *sample) float64 { return float64(s.Changes * s.Groups) }},
			{"a delivery to a client", func(s *sample) float64 { return float64(s.Deliveries) }},
		}},
		connecting: &formula{name: "CPU while clients connect", unit: "us", least: ticks, value: func(s *sample) float64 { return 1e6 * s.StormCPU }, terms: []term{
			{"a client that connects", clients},
			{"a KiB that it is sent at first", func(s *sample) float64 { return float64(s.Clients) * s.sentKiB() }},
			// the first client, and its group, came before
			{"a KiB that comes from the origin at first, for each group", func(s *sample) float64 { return float64(s.Groups-1) * s.sentKiB() }},
		}},
	}
}

func (f *formulas) all() []*formula {
	return []*formula{f.memory, f.resident, f.changing, f.connecting}
}

// fitGrowth fits all formulas.
func fitGrowth(samples []sample) (*formulas, error) {
	fs := newFormulas()
	for _, f := range fs.all() {
		rows := make([]leastsq.Row, len(samples))
		for i := range samples {
			rows[i] = leastsq.Row{Terms: f.factors(&samples[i]), Value: f.value(&samples[i])}
		}
		var err error
		if f.fit, err = leastsq.Solve(rows, f.least); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return fs, nil
}

func (f *formula) factors(s *sample) []float64 {
	x := make([]float64, len(f.terms))
	for i, t := range f.terms {
		x[i] = t.factor(s)
	}
	return x
}

// of is the coefficient of the i-th term, and at least nothing: noise may make a small one negative.
func (f *formula) of(i int) float64 { return max(0, f.fit.Coefficients[i]) }

// costs are the coefficients as the simulation of farms takes them.
func (f *formulas) costs(samples []sample) farm.Costs {
	sent := f.connecting.of(1)
	client, deliveries := 0.0, 0.0
	for i := range samples {
		client += 1e6 * samples[i].FleetCPU
		deliveries += float64(samples[i].Deliveries)
	}
	return farm.Costs{
		Delivery: farm.Micros(f.changing.of(1)), KiB: farm.Micros(sent), Change: farm.Micros(f.changing.of(0)),
		ChangeKiB: farm.Micros(f.connecting.of(2)), Connect: farm.Micros(f.connecting.of(0)), Client: farm.Micros(client / max(1, deliveries)),
	}
}

func (f *formulas) markdown(b *strings.Builder, samples []sample) {
	b.WriteString("| formula | term | takes |\n| --- | --- | ---: |\n")
	for _, x := range f.all() {
		for i, t := range x.terms {
			fmt.Fprintf(b, "| %s | %s | %s %s |\n", x.name, t.name, significant(x.fit.Coefficients[i]), x.unit)
		}
	}
	b.WriteString("\n| formula | R² | worst | at |\n| --- | ---: | ---: | --- |\n")
	for _, x := range f.all() {
		fmt.Fprintf(b, "| %s | %.4f | %.0f %% | %s |\n", x.name, x.fit.R2, 100*x.fit.Worst, samples[x.fit.WorstAt].grown())
	}
	b.WriteString("\n| point | in use MiB | formula | resident MiB | formula | CPU of a delivery, all changes in it, us | formula | CPU of connecting, ms | formula |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for i := range samples {
		s := &samples[i]
		at := func(x *formula) float64 { return x.fit.At(x.factors(s)) }
		fmt.Fprintf(b, "| %s | %.1f | %.1f | %.0f | %.0f | %.1f | %.1f | %.0f | %.0f |\n", s.grown(), s.LiveBytes/mebi, at(f.memory)/mebi,
			s.RSSBytes/mebi, at(f.resident)/mebi, 1e6*s.CPUSeconds/float64(s.Deliveries), at(f.changing)/float64(s.Deliveries), 1e3*s.StormCPU, at(f.connecting)/1e3)
	}
}

// grown names a point of the grid.
func (p *point) grown() string {
	rate := "changes one by one"
	if p.Rate > 0 {
		rate = fmt.Sprint(p.Rate, " changes/s")
	}
	return fmt.Sprintf("%d clients, %d groups, %d resources of %d bytes, %s", p.Clients, p.Groups, p.Resources, p.Bytes, rate)
}

// significant writes a number with three digits.
func significant(x float64) string {
	if x >= 1000 || x <= -1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}
