package fleet

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHistogramIsExactToAHundredth(t *testing.T) {
	var h histogram
	var all []time.Duration
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		d := time.Duration(math.Exp(rng.Float64() * 23)) // from a nanosecond to some seconds
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[min(max(int(q*float64(len(all))+0.5), 1), len(all))-1]
		if got := h.quantile(q); got < want || float64(got) > 1.01*float64(want) {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestHistogramTakesEverything(t *testing.T) {
	for _, d := range []time.Duration{-5, 0, 1, 127, 128, 255, 256, math.MaxInt64} {
		var h histogram
		h.add(d)
		if got := h.quantile(0.5); got != max(d, 0) {
			t.Errorf("of %d alone the median is %d", d, got)
		}
	}
	var none histogram
	if got := none.quantile(0.5); got != 0 {
		t.Errorf("of nothing the median is %v", got)
	}
}

func timeOf(s world.Stamp) time.Time { return time.Unix(0, int64(s)) }

func TestBoardTellsWhenAChangeHasReachedAll(t *testing.T) {
	b := newBoard()
	began := world.Now()
	b.note([]world.Stamp{began}, timeOf(began).Add(2*time.Millisecond)) // before anybody waits
	done := make(chan bool)
	go func() { done <- b.await(t.Context(), began, 3, time.Minute) }()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		waits = b.awaiting != nil
		b.mu.Unlock()
	}
	b.note([]world.Stamp{began - 1, began}, timeOf(began).Add(9*time.Millisecond))
	select {
	case <-done:
		t.Fatal("two of three were enough")
	case <-time.After(20 * time.Millisecond):
	}
	b.note([]world.Stamp{began}, timeOf(began).Add(5*time.Millisecond))
	if !<-done {
		t.Error("three of three were not enough")
	}
	if b.await(t.Context(), began, 4, time.Millisecond) {
		t.Error("a fourth was seen")
	}
	if got := b.lasts(); got.count.Load() != 2 || got.most.Load() != int64(9*time.Millisecond)+1 {
		t.Errorf("%d changes, the slowest took %d ns to the last", got.count.Load(), got.most.Load())
	}
	if n := b.each.count.Load(); n != 4 {
		t.Errorf("%d deliveries, not 4", n)
	}
}

// TestHinderedConn: what a bad client does not read stays with its server.
func TestHinderedConn(t *testing.T) {
	here, there := net.Pipe()
	c := &hinderedConn{Conn: here, rate: 1000, closed: make(chan struct{})}
	go func() {
		_, _ = there.Write(make([]byte, 100))
		_ = there.Close()
	}()
	began := time.Now()
	if b, err := io.ReadAll(c); err != nil || len(b) != 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if d := time.Since(began); d < 95*time.Millisecond {
		t.Errorf("100 bytes at 1000 a second came within %v", d)
	}
	_ = c.Close()

	here, there = net.Pipe()
	c = &hinderedConn{Conn: here, hush: make(chan struct{}), closed: make(chan struct{})}
	close(c.hush)
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	_, _ = there.Write([]byte{1})
	select {
	case err := <-read:
		t.Fatalf("the deaf one has read: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	_ = c.Close()
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed, its error is %v", err)
	}
	_ = there.Close()
}

func TestParseStat(t *testing.T) {
	u, err := parseStat("12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 7 0 99 1000 33 4 5\n")
	if want := (usage{cpu: 3 * time.Second, rss: 33 * int64(os.Getpagesize())}); err != nil || u != want {
		t.Errorf("%+v, %v; want %+v", u, err, want)
	}
	for _, text := range []string{"", "12 (a) S 1", "12 (a) S 1 2 3 4 5 6 7 8 9 10 x 50 0 0 20 0 7 0 99 1000 33"} {
		if _, err := parseStat(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	if u, err := readUsage(os.Getpid()); err != nil || u.rss < 1<<20 {
		t.Errorf("of this process: %+v, %v", u, err)
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	good := func() Config {
		return Config{Server: "127.0.0.1:1", Dialect: Delta, TypeURL: "t", Clients: 1, Resources: 10, Control: "127.0.0.1:2"}
	}
	for field, spoil := range map[string]func(*Config){
		"server":  func(c *Config) { c.Server = "" },
		"dialect": func(c *Config) { c.Dialect = "rest" },
		"type":    func(c *Config) { c.TypeURL = "" },
		"clients": func(c *Config) { c.Clients = MaxClients + 1 },
		"names":   func(c *Config) { c.Names = 11 },
		"changes": func(c *Config) { c.Changes, c.For = 1, time.Second },
		"rate":    func(c *Config) { c.Rate = 1 },
		"for":     func(c *Config) { c.For = time.Hour },
		"idle":    func(c *Config) { c.Idle = -1 },
		"rest":    func(c *Config) { c.Rest = MaxFor + 1 },
		"control": func(c *Config) { c.Control, c.Changes = "", 1 },
		"deaf":    func(c *Config) { c.Deaf = -1 },
		"groups":  func(c *Config) { c.Groups = -1 },
	} {
		c := good()
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains("\n"+err.Error(), "\n"+field+":") {
			t.Errorf("%s: the error is %v", field, err)
		}
	}
	if _, err := New(good()); err != nil {
		t.Error(err)
	}
}

// TestWantedCountsWhoNames compares the short way with the long one.
func TestWantedCountsWhoNames(t *testing.T) {
	for _, c := range []Config{{Clients: 7, Names: 3, Resources: 10}, {Clients: 2, Names: 3, Resources: 10}, {Clients: 4, Names: 10, Resources: 10}} {
		want := make([]int, c.Resources)
		for i := range c.Clients {
			for j := range c.Names {
				want[(i*c.Names+j)%c.Resources]++
			}
		}
		for i := range want {
			if got := c.wanted(i); got != want[i] {
				t.Errorf("%d clients with %d of %d names: number %d is wanted by %d, not %d", c.Clients, c.Names, c.Resources, i, got, want[i])
			}
		}
	}
}

func TestTooMuchForThisMachine(t *testing.T) {
	if err := checkFiles(1 << 30); err == nil || !strings.Contains(err.Error(), "open files") {
		t.Errorf("files: %v", err)
	}
	if err := checkPorts("127.0.0.1:1", 65_537); err == nil || !strings.Contains(err.Error(), "local port") {
		t.Errorf("ports: %v", err)
	}
	if err := checkFiles(1); err != nil {
		t.Error(err)
	}
	if err := checkPorts("127.0.0.1:1", 1); err != nil {
		t.Error(err)
	}
}

func TestReadInUse(t *testing.T) {
	const text = "heap profile: 1: 2\n# runtime.MemStats\n# HeapAlloc = 1000\n# HeapInuse = 5000\n# Stack = 200 / 300\n# MSpan = 30 / 400\n# MCache = 9 / 9\n"
	if got, err := readInUse(strings.NewReader(text)); err != nil || got != 1200 {
		t.Errorf("in use are %v, %v, want 1200", got, err)
	}
	if _, err := readInUse(strings.NewReader("# HeapAlloc = 1000\n")); err == nil {
		t.Error("a profile that lacks lines was taken")
	}
}
