package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// sample is what weir uses at a moment.
type sample struct{ goroutines, descriptors, rss int }

func (s sample) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MiB", s.goroutines, s.descriptors, float64(s.rss)/(1<<20))
}

func measure(t *testing.T, weir *weirtest.Process) sample {
	t.Helper()
	goroutines, _ := weir.Metric("go_goroutines")
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", weir.PID()))
	if err != nil {
		t.Skipf("no /proc tells what a process has open: %v", err)
	}
	return sample{int(goroutines), len(descriptors), weir.RSS()}
}

// middle is the median of each figure.
func middle(samples []sample) sample {
	of := func(figure func(sample) int) int {
		var all []int
		for _, s := range samples {
			all = append(all, figure(s))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return sample{
		of(func(s sample) int { return s.goroutines }), of(func(s sample) int { return s.descriptors }),
		of(func(s sample) int { return s.rss }),
	}
}

// TestSoak has a thousand clients and an origin that never rests for SOAK_FOR, while some clients
// are always coming back. What weir uses in the last quarter is what it used in the second, and in
// the end everybody holds what the origin states.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SOAK_FOR"))
	if err != nil {
		t.Skip("SOAK_FOR does not say for how long; make soak does")
	}
	const size = 1_000
	rng := rand.New(rand.NewPCG(1, 1))
	b := newBed(t, rng, setup{dialect: relaytest.Delta, launch: weirtest.Launch{Program: plainWeir(t)}})
	b.all = append(b.all, crowd(t, b.down[0], size-len(b.all))...)
	for _, r := range b.all {
		r.mu.Lock()
		r.forgets = true
		r.mu.Unlock()
	}
	var samples []sample
	begin, returns := time.Now(), 0
	for next := begin; time.Since(begin) < length; {
		if time.Now().After(next) {
			samples = append(samples, measure(t, b.weir))
			next = next.Add(length / 60)
		}
		pick(rng, b.all...).reconnect()
		returns++
		time.Sleep(200 * time.Millisecond)
	}
	n := len(samples)
	early, late := middle(samples[n/4:n/2]), middle(samples[3*n/4:])
	b.churn.pause()
	took := b.converge("at the end", patience)
	_, messages := b.all[len(b.all)-1].counts()
	notes := fmt.Sprintf("%d clients, %d changes, %d reconnects; second quarter: %v; last quarter: %v; converged in %v; %d responses to the last client",
		size, b.churn.made, returns, early, late, took.Round(time.Millisecond), messages)
	verdict := "passed"
	defer func() { fmt.Printf("chaos: %s soak, %v: %s\n", verdict, length, notes) }()
	fail := func(what string, was, is int) {
		verdict = "FAILED"
		t.Errorf("%s grow: %d in the second quarter, %d in the last", what, was, is)
	}
	// One client in flight has two goroutines and is no leak, and the heap breathes.
	if late.goroutines > early.goroutines+early.goroutines/50+20 {
		fail("goroutines", early.goroutines, late.goroutines)
	}
	if late.descriptors > early.descriptors+5 {
		fail("descriptors", early.descriptors, late.descriptors)
	}
	if late.rss > early.rss+early.rss/10+(8<<20) {
		fail("bytes of memory", early.rss, late.rss)
	}
}
