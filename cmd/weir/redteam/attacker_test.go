package redteam

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// attackerRole is the environment variable that makes the test binary an attacker, with its target.
const attackerRole = "WEIR_REDTEAM_ATTACKER"

// target is whom an attacker attacks, how, from where, and for how long.
type target struct {
	Attack      string
	Addr, Admin string // host:port
	Polls       bool   // both are that of a listener of polls
	PollsAt     string // a listener of polls beside Addr, in a pod
	Strangers   string // one whose clients no rule admits, in a pod
	Seed        uint64 // of what is drawn
	From        string // the attacker's own address
	For         time.Duration
}

// attackerMain is an attacker's process.
func attackerMain() int {
	var t target
	if err := json.Unmarshal([]byte(os.Getenv(attackerRole)), &t); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	raiseDescriptors()
	ctx, cancel := context.WithTimeout(context.Background(), t.For)
	defer cancel()
	a := &attacker{target: t, counts: map[string]*atomic.Int64{}}
	if err := attacks[t.Attack](ctx, a); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := checkNice(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(a)
	return 0
}

// leastPriority is the attacker's nice value: in life he has a machine of his own.
const leastPriority = 19

// checkNice looks at the priority of each thread of the process. setpriority changes that of one
// thread and of those it starts later, so the program nice sets it before there are any.
func checkNice() error {
	stats, err := filepath.Glob("/proc/self/task/*/stat") // none but on Linux
	if err != nil {
		return err
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		// The name, in parentheses, is field 2 and may have blanks; the nice value is field 19.
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) < 17 || f[16] != strconv.Itoa(leastPriority) {
			return fmt.Errorf("%s: a thread of the attacker does not have nice %d: %s", path, leastPriority, text)
		}
	}
	return nil
}

func raiseDescriptors() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil {
		l.Cur = l.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // then there are fewer connections
	}
}

// attacker counts what he did and what became of it.
type attacker struct {
	target

	mu     sync.Mutex // guards the two
	order  []string
	counts map[string]*atomic.Int64
}

// add counts; what is a plural.
func (a *attacker) add(what string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.counts[what]
	if c == nil {
		c = new(atomic.Int64)
		a.counts[what], a.order = c, append(a.order, what)
	}
	c.Add(int64(n))
}

// String is one line of it all.
func (a *attacker) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var parts []string
	for _, what := range a.order {
		parts = append(parts, fmt.Sprintf("%d %s", a.counts[what].Load(), what))
	}
	return strings.Join(parts, ", ")
}

// raws has n goroutines do something on one raw connection after another until ctx ends; an error
// of it is the end of that connection.
func (a *attacker) raws(ctx context.Context, n int, do func(*raw) error) error {
	return a.each(ctx, n, func(int) {
		c, err := dialRaw(ctx, a.target)
		if err != nil {
			a.add("connections refused", 1)
			pause(ctx, 10*time.Millisecond)
			return
		}
		a.add("connections", 1)
		for ctx.Err() == nil {
			c.patient()
			if do(c) != nil {
				break
			}
		}
		c.close()
		a.add("streams ended by weir", int(c.ended.Load()))
		if c.calm.Load() {
			a.add("connections told to calm down", 1)
		}
	})
}

// each has n goroutines do something again and again until ctx ends.
func (a *attacker) each(ctx context.Context, n int, do func(i int)) error {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				do(i)
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// noise is n bytes of it.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.IntN(256))
	}
	return b
}

// attack runs an attacker and returns what he has to say.
func attack(t *testing.T, target target) string {
	t.Helper()
	text, err := json.Marshal(target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), target.For+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nice", "-n", strconv.Itoa(leastPriority), os.Args[0])
	cmd.Env = append(os.Environ(), attackerRole+"="+string(text))
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Errorf("the attacker: %v\n%s", errors.Join(err, ctx.Err()), complaints.String())
	}
	return strings.TrimSpace(out.String())
}
