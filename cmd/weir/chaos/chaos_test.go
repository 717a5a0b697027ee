package chaos

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"
)

// schedule is one kind of bad day.
type schedule struct {
	name  string
	needs func() string // why it cannot be run here; nil or empty: it can
	setup setup
	// makes the fault; what is healed and judged after it is the same for all
	run func(*bed)
	// instead of all that: brings up what it needs, and gives what to tell
	alone func(*testing.T, *rand.Rand) []string
}

// TestChaos runs every schedule once, and then drawn ones until CHAOS_FOR has passed. CHAOS_SEED
// repeats a run's draws, CHAOS_ONLY picks schedules by a part of their names, CHAOS_AT_ONCE is how
// many run at a time.
func TestChaos(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("CHAOS_FOR"))
	if err != nil {
		t.Skip("CHAOS_FOR does not say for how long; make chaos does")
	}
	var drawn uint64
	if s := os.Getenv("CHAOS_SEED"); s != "" {
		if drawn, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED: %v", err)
		}
	}
	drawn = seed.Of(t, drawn)
	atOnce, err := strconv.Atoi(os.Getenv("CHAOS_AT_ONCE"))
	if err != nil {
		atOnce = 3
	}
	only := os.Getenv("CHAOS_ONLY")
	mine := slices.DeleteFunc(slices.Concat(acceptance, schedules, gated, onDisk, machine), func(s schedule) bool { return !strings.Contains(s.name, only) })
	fmt.Printf("chaos: seed %d, %d schedules, %v\n", drawn, len(mine), length)
	deadline := time.Now().Add(length)
	var next atomic.Int64
	var running sync.WaitGroup
	for range atOnce {
		running.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				round := uint64(n / len(mine))
				if round > 0 && time.Now().After(deadline) {
					return
				}
				// what is accepted once is not asked again
				if s := mine[n%len(mine)]; round == 0 || s.alone == nil || len(mine) == 1 {
					run(t, s, drawn+round)
				}
			}
		})
	}
	running.Wait()
}

// TestSmoke runs a few short schedules, in every run of the tests.
func TestSmoke(t *testing.T) {
	for _, s := range schedules {
		if s.name == "origin killed" || s.name == "flapping" || s.name == "weir killed" {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				run(t, s, 1)
			})
		}
	}
}

// crc makes the draws of schedules differ.
func crc(name string) uint64 { return uint64(crc32.ChecksumIEEE([]byte(name))) }

// run runs one schedule as a subtest and prints a line about it.
func run(t *testing.T, s schedule, seed uint64) {
	begin := time.Now()
	verdict, notes := "passed", []string(nil)
	why := ""
	if s.needs != nil {
		why = s.needs()
	}
	ok := t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(s.name, " ", "_"), seed), func(t *testing.T) {
		if why != "" {
			t.Skip(why)
		}
		rng := rand.New(rand.NewPCG(seed, crc(s.name)))
		if s.alone != nil {
			notes = s.alone(t, rng)
			return
		}
		b := newBed(t, rng, s.setup)
		defer func() { notes = append([]string{string(b.setup.dialect) + " origin"}, b.notes...) }()
		s.run(b)
		b.finish()
	})
	switch {
	case why != "":
		verdict, notes = "skipped", []string{why}
	case !ok:
		verdict = "FAILED"
	}
	fmt.Printf("chaos: %s %s (CHAOS_SEED=%d CHAOS_ONLY='%s'), %v: %s\n", verdict, s.name, seed, s.name,
		time.Since(begin).Round(100*time.Millisecond), strings.Join(notes, ", "))
}
