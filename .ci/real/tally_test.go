package real

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// tally counts the requests through one client.
type tally struct {
	mu       sync.Mutex // guards all below
	answered map[string]int
	failed   []string // the first of them
	failures int
	own      int // failed by a fault of the client's own
}

func newTally() *tally { return &tally{answered: map[string]int{}} }

// Answered counts a request that the named backend answered.
func (t *tally) Answered(backend string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered[backend]++
}

// Failed counts a request that nobody answered.
func (t *tally) Failed(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures++
	if len(t.failed) < 20 {
		t.failed = append(t.failed, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// Own counts a request that failed by a fault of the client program, which it has without weir too.
func (t *tally) Own() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own++
}

// By is how many requests a backend answered.
func (t *tally) By(backend string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered[backend]
}

// total is how many requests were answered.
func (t *tally) total() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, by := range t.answered {
		n += by
	}
	return n
}

// Reach waits until requests made from now on are answered by the named backend.
func (t *tally) Reach(tb testing.TB, backend, sentence string) {
	tb.Helper()
	before := t.By(backend)
	if !weirtest.Until(patience, func() bool { return t.By(backend) >= before+3 }) {
		tb.Fatalf("%s: no request reached %s; answered %v, failed %v", sentence, backend, t.answered, t.failed)
	}
}

// More waits for n more requests that are answered.
func (t *tally) More(tb testing.TB, n int, sentence string) {
	tb.Helper()
	before := t.total()
	if !weirtest.Until(patience, func() bool { return t.total() >= before+n }) {
		tb.Fatalf("%s: of %d requests %d were answered; failed %v", sentence, n, t.total()-before, t.failed)
	}
}

// Check fails the test if a request failed.
func (t *tally) Check(tb testing.TB) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own > 0 {
		tb.Logf("%d requests failed by a fault of the client's own", t.own)
	}
	if t.failures > 0 {
		tb.Errorf("%d requests failed, %v were answered; the first that failed:\n%s", t.failures, t.answered, strings.Join(t.failed, "\n"))
	}
}
