package farm

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// Report is what a run found.
type Report struct {
	Config Config `json:"config"`
	// Filled is when the last client had its first state, since the start; the others are from the
	// start, too.
	Filled  time.Duration `json:"filled"`
	FillP50 time.Duration `json:"fill_p50"`
	FillP99 time.Duration `json:"fill_p99"`
	Stages  []*Stage      `json:"stages"`
	// LostResources is what clients held and then did not; WentBack how often a client was sent
	// something older than what it held.
	LostResources int `json:"lost_resources"`
	WentBack      int `json:"went_back"`
	// Virtual is the time that passed in the farm, and Real on the machine.
	Virtual time.Duration `json:"virtual"`
	Real    time.Duration `json:"real"`
	// ClientBytes is the memory in use by the simulation for each client, its Sub with it.
	ClientBytes float64 `json:"bytes_per_client"`
}

// measureMemory reads the memory in use, with all clients connected.
func (r *Report) measureMemory(m *sim) {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	r.ClientBytes = float64(s.HeapAlloc) / float64(max(1, m.cfg.Clients))
}

// links names the kinds of links.
func (r *Report) links() []string {
	names := []string{"origin to tier 1"}
	for i := 1; i < len(r.Config.Tiers); i++ {
		names = append(names, fmt.Sprintf("tier %d to tier %d", i, i+1))
	}
	return append(names, fmt.Sprintf("tier %d to the clients", len(r.Config.Tiers)))
}

// Markdown writes the report for the page.
func (r *Report) Markdown(w io.Writer) error {
	c, b := &r.Config, &strings.Builder{}
	cores := fmt.Sprintf("%d cores each", c.Cores)
	if c.Shared > 0 {
		cores = fmt.Sprintf("%d cores for all, the clients among them", c.Shared)
	}
	fmt.Fprintf(b, "%s clients, tiers of %s weirs with %s, %d clusters of %d bytes, %d changes in each row, one every %v; seed %d.\n",
		thousands(c.Clients), join(c.Tiers), cores, c.Resources, c.Bytes, c.Changes, c.Every, c.Seed)
	fmt.Fprintf(b, "Costs, us: %g a delivery and %g a KiB of it, %g a response from above and %g a KiB, %g a client that comes.\n",
		round(c.Costs.Delivery), round(c.Costs.KiB), round(c.Costs.Change), round(c.Costs.ChangeKiB), round(c.Costs.Connect))
	fmt.Fprintf(b, "The clients come within %v; the last has its first state after %s (p50 %s, p99 %s).\n", c.Over, short(r.Filled), short(r.FillP50), short(r.FillP99))
	fmt.Fprintf(b, "\n| | from the change to a client, p50 | p99 | max | to the last client, median | streams lost | all in sync after |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, s := range r.Stages {
		if s.Changes == 0 {
			continue
		}
		sync := "-"
		if s.killed > 0 {
			sync = short(s.InSync)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %d | %s |\n", s.Name, short(s.P50), short(s.P99), short(s.Max), short(s.LastP50), s.Lost, sync)
	}
	fmt.Fprintf(b, "\n| links | latency | Gbit/s | first fill, down | up | a change, all links, down | up |")
	for _, s := range r.Stages[1:] {
		if s.killed > 0 {
			fmt.Fprintf(b, " %s: more, down |", strings.TrimSuffix(s.Name, " is killed"))
		}
	}
	fmt.Fprintf(b, "\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |%s\n", strings.Repeat(" ---: |", len(r.Config.Kill)))
	for i, name := range r.links() {
		fill, well := r.Stages[0].Traffic[i], r.Stages[1]
		changes := int64(max(1, well.Changes))
		fmt.Fprintf(b, "| %s | %v | %g | %s | %s | %s | %s |", name, c.Links[i].Latency, c.Links[i].BitsPerSecond/1e9,
			bytes(fill.Down), bytes(fill.Up), bytes(well.Traffic[i].Down/changes), bytes(well.Traffic[i].Up/changes))
		for _, s := range r.Stages[2:] {
			fmt.Fprintf(b, " %s |", bytes(max(0, s.Traffic[i].Down-well.Traffic[i].Down*int64(s.Changes)/changes)))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "\nResources taken away from clients: %d. Older ones sent after newer ones: %d. %v of virtual time took %s, and %.0f bytes of memory a client.\n",
		r.LostResources, r.WentBack, r.Virtual.Round(time.Millisecond), short(r.Real), r.ClientBytes)
	_, err := io.WriteString(w, b.String())
	return err
}

func round(x Micros) float64 { return float64(int(float64(x)*100+0.5)) / 100 }

func join(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}

// short writes a duration with three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/1e6)
}

// bytes writes a number of bytes.
func bytes(n int64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}} {
		if x := float64(n) / unit.size; x >= 1 {
			return fmt.Sprintf("%.3g %s", x, unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// ChangeCPU is the CPU that all weirs take for a change while all is well, by the costs alone.
func (r *Report) ChangeCPU() time.Duration {
	c, weirs := &r.Config.Costs, 0
	for _, n := range r.Config.Tiers {
		weirs += n
	}
	sends := r.Config.Clients + weirs - r.Config.Tiers[0]
	body := r.Config.Bytes
	return time.Duration(weirs)*(c.Change.duration()+c.ChangeKiB.of(body)) + time.Duration(sends)*(c.Delivery.duration()+c.KiB.of(body))
}
