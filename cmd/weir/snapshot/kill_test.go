package snapshot

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"
)

// writerDir makes TestKilled the process that is killed. writerBytes is its max_bytes.
const (
	writerDir   = "WEIR_SNAPSHOT_WRITER"
	writerBytes = "WEIR_SNAPSHOT_WRITER_BYTES"
)

const (
	killedItems = 100
	killedPad   = 20000 // so that the file is made anew now and then
)

// killedState is what the origin has at step k: a counter, items of which each changes every fifth
// step, and one that comes and goes.
func killedState(k int) map[string]int {
	state := map[string]int{"counter": k}
	for i := range killedItems {
		if at := k - ((k-i)%5+5)%5; at >= 0 {
			state[fmt.Sprint("item", i)] = at
		}
	}
	if k%3 == 0 {
		state["temp"] = k
	}
	return state
}

// TestKilled: a process that writes all the time is killed again and again, at any moment. What it
// leaves is whole: a state that once was, and never older than one that was found before.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(writerDir); dir != "" {
		writeForEver(t, dir)
	}
	rounds := 30
	if testing.Short() {
		rounds = 8
	}
	killed(t, rounds, 0)
}

// TestKilledWithinBounds: so it is where the directory is bounded, so that the file is made anew
// much more often; and the directory keeps to the bound.
func TestKilledWithinBounds(t *testing.T) {
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	killed(t, rounds, 8<<20)
}

func killed(t *testing.T, rounds int, maxBytes int64) {
	random := seed.Rand(t) // repeats the moments, as far as a machine does
	dir, last, cut := t.TempDir(), -1, 0
	for range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), writerDir+"="+dir, fmt.Sprintf("%s=%d", writerBytes, maxBytes))
		ready, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		steps := bufio.NewReader(ready)
		for range 1 + random.IntN(6) {
			if _, err := steps.ReadString('\n'); err != nil { // it begins to write a step
				t.Fatal(err)
			}
		}
		<-time.After(time.Duration(random.IntN(10_000)) * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed, as it should be
		if n := used(dir); maxBytes > 0 && n > maxBytes {
			t.Errorf("the directory has %d bytes", n)
		}
		k, cutOff := checkKilled(t, dir)
		if k < last {
			t.Fatalf("step %d is found, after step %d was", k, last)
		}
		if last = k; cutOff {
			cut++
		}
	}
	t.Logf("%d kills, %d of them within a write, %d steps", rounds, cut, last)
	if last < rounds {
		t.Errorf("only %d steps: the test is not what it seems", last)
	}
}

// checkKilled gives the step of the state on disk; -1: there is none yet.
func checkKilled(t *testing.T, dir string) (k int, cutOff bool) {
	t.Helper()
	if !Exists(dir) {
		return -1, false
	}
	c, err := Read(File(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	s := c.Summary(true)
	if len(s.Types) != 1 || len(s.Types[0].Sets) != 1 || !s.Types[0].Sets[0].Settled {
		t.Fatalf("%+v", s.Types)
	}
	got := map[string]int{}
	for _, r := range s.Types[0].Listed {
		step, err := strconv.Atoi(r.Version[len("v-"):][:6])
		if err != nil {
			t.Fatal(err)
		}
		got[r.Name] = step
	}
	want := killedState(got["counter"])
	for name := range want {
		if got[name] != want[name] {
			t.Fatalf("at step %d, %s is of step %d, want %d", got["counter"], name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("at step %d there are %d resources, want %d", got["counter"], len(got), len(want))
	}
	return got["counter"], c.Report.CutOff > 0
}

// writeForEver goes on where the one before it was killed.
func writeForEver(t *testing.T, dir string) {
	maxBytes, err := strconv.ParseInt(os.Getenv(writerBytes), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, dir, func(cfg *Config) { cfg.MaxBytes = maxBytes })
	w.load()
	k, _ := checkKilled(t, dir)
	w.want(clusters, "*")
	had := map[string]int{}
	if k >= 0 {
		had = killedState(k) // as one that resumes
	}
	for k++; ; k++ {
		update := map[string]string{}
		now := killedState(k)
		for name, step := range now {
			if at, ok := had[name]; !ok || at != step {
				update[name] = fmt.Sprintf("%06d%s", step, strings.Repeat("x", killedPad))
			}
		}
		for name := range had {
			if _, ok := now[name]; !ok {
				update[name] = ""
			}
		}
		w.apply(clusters, update)
		fmt.Println(k)
		w.save()
		had = now
	}
}
