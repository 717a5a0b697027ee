package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

func TestBudget(t *testing.T) {
	for _, c := range []struct{ configured, env, group, limit, soft int64 }{
		{0, 0, 0, 0, 0},
		{0, 900, 0, 600, 900},
		{0, 0, 1000, 532, 800},
		{0, 900, 2000, 600, 900},
		{0, 1800, 1000, 1200, 1800}, // who sets GOMEMLIMIT knows better
		{500, 0, 0, 500, 625},
		{500, 0, 1000, 500, 800},
		{500, 1000, 2000, 500, 1000},
	} {
		if limit, soft := budget(c.configured, c.env, c.group); limit != c.limit || soft != c.soft {
			t.Errorf("%+v: %d, %d", c, limit, soft)
		}
	}
}

func TestCgroupLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no such system": {nil, 0},
		"two, in a container": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 536870912},
		"two, none": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 0},
		"two, the one above is smaller": {map[string]string{
			"proc/self/cgroup": "0::/pods/a\n", "sys/fs/cgroup/pods/a/memory.max": "2000\n", "sys/fs/cgroup/pods/memory.max": "1000\n",
			"sys/fs/cgroup/memory.max": "max\n",
		}, 1000},
		"one": {map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/docker/a\n0::/other\n",
			"sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes": "3000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712\n",
		}, 3000},
		"one, none": {map[string]string{
			"proc/self/cgroup": "4:memory:/a\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := cgroupLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestMemoryIsKnownAtOnce: clients who have waited for weir to start meet a table that knows what
// it may hold.
func TestMemoryIsKnownAtOnce(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	const limit = 1 << 40
	if openMemory(limit, table, zap.NewNop()); table.MemoryLimit() != limit {
		t.Errorf("the table knows of %d bytes, want %d", table.MemoryLimit(), limit)
	}
}

// TestMemoryIsMeasured: garbage does not count, and what is held does; both turns are logged once.
func TestMemoryIsMeasured(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	runtime.GC()
	m := newMemory(table, zap.New(core))
	_, live, _ := m.read()
	const room = 64 << 20
	m.limit.Store(live + room)
	now := time.Unix(1e9, 0)
	look := func(words string, tight bool) {
		t.Helper()
		now = now.Add(time.Minute)
		if m.look(now); table.Tight() != tight {
			t.Errorf("%s: tight is %v, with %d used of %d", words, table.Tight(), m.used.Load(), m.limit.Load())
		}
	}
	look("at first", false)
	for range 16 {
		_ = make([]byte, room/4)
	}
	look("with garbage", false)
	held := make([]byte, room*2)
	runtime.GC()
	look("with a large thing held", true)
	runtime.KeepAlive(held)
	look("when it is let go", false)
	if lines := logs.FilterMessageSnippet("memory is").Len(); lines != 2 {
		t.Errorf("%d lines of log, want one for each turn", lines)
	}
}

// TestVainCollection: a forced collection that frees nothing is logged once for as long as memory
// is short, and again when it is short the next time; one that frees something is not.
func TestVainCollection(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	runtime.GC()
	m := newMemory(table, zap.New(core))
	_, live, _ := m.read()
	const room = 64 << 20
	m.limit.Store(live + room)
	now := time.Unix(1e9, 0)
	look := func(times, want int) {
		t.Helper()
		for range times {
			now = now.Add(memoryCollect)
			m.look(now)
		}
		if n := logs.FilterMessageSnippet("freed nothing").Len(); n != want {
			t.Errorf("%d lines say that nothing was freed, want %d", n, want)
		}
	}
	for want := 1; want <= 2; want++ {
		held := make([]byte, room*2)
		runtime.GC()
		look(10, want)
		runtime.KeepAlive(held)
		look(2, want)
		if table.Tight() {
			t.Fatal("memory is short though all is let go")
		}
	}
}

// TestCollectedSoonAfter: what clients held who have gone is found to be free within a second, else
// within five.
func TestCollectedSoonAfter(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	m := newMemory(table, zap.NewNop())
	_, live, _ := m.read()
	const room = 64 << 20
	m.limit.Store(live + room)
	now := time.Unix(1e9, 0)
	look := func() {
		now = now.Add(memoryLook)
		m.look(now)
	}
	var streams sync.WaitGroup
	leave := make(chan struct{})
	for range 100 {
		streams.Go(func() { <-leave })
	}
	for _, gone := range []bool{true, false} {
		held := make([]byte, room*2)
		runtime.GC()
		for look(); now.Sub(m.collected) > memoryLook; { // its garbage was just collected
			look()
		}
		look()
		runtime.KeepAlive(held)
		if !table.Tight() {
			t.Fatal("memory is not short")
		}
		if gone {
			close(leave)
			streams.Wait()
		}
		began := now
		for table.Tight() && now.Sub(began) < time.Minute {
			look()
		}
		if d := now.Sub(began); gone && d > memoryFreed+memoryLook || !gone && d < memoryCollect/2 {
			t.Errorf("clients gone: %v: there is room after %v", gone, d)
		}
	}
}

// TestShortage: /readyz fails once nobody could be admitted for a minute, says why, and no longer
// when there is room or somebody was admitted.
func TestShortage(t *testing.T) {
	s, at := &shortage{}, func(seconds int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(seconds) * time.Second) }
	for _, step := range []struct {
		at       int
		reason   string
		admitted uint64
		why      string
	}{
		{0, "", 7, ""},
		{1, "limits.streams is reached", 7, ""},
		{60, "limits.streams is reached", 7, ""},
		{61, "limits.memory is reached", 7, "no client could be admitted for 1m0s: limits.memory is reached"},
		{90, "limits.streams is reached", 8, ""}, // one was
		{149, "limits.streams is reached", 8, ""},
		{150, "limits.streams is reached", 8, "no client could be admitted for 1m0s: limits.streams is reached"},
		{151, "", 8, ""},
		{152, "limits.streams is reached", 8, ""},
	} {
		s.note(at(step.at), step.reason, step.admitted)
		if why := s.why(at(step.at)); why != step.why {
			t.Errorf("after %d s: %q, want %q", step.at, why, step.why)
		}
	}
}

// TestReadyWithoutRoom: a process that can admit nobody is not ready, says why, and goes on
// serving; an origin that is away has no part in it.
func TestReadyWithoutRoom(t *testing.T) {
	w := startWeir(t, freePorts+strings.Replace(controlPlane(deadAddress(t)), "timing: {", "timing: { ready_wait: 1ms,", 1)+"limits: { streams: 1 }\n")
	await(t, "it is ready without its origin", func() bool { return w.readiness().Ready })
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	for want, ago := range map[bool]time.Duration{true: 0, false: 2 * time.Minute} {
		await(t, "the look finds no room", func() bool {
			s := &w.shortage
			s.mu.Lock()
			defer s.mu.Unlock()
			s.since = time.Now().Add(-ago)
			return s.reason == "limits.streams is reached"
		})
		if r := w.readiness(); r.Ready != want || !want && (r.State != "full" || !strings.Contains(r.Why, "limits.streams is reached")) {
			t.Errorf("after %v: %+v", ago, r)
		}
	}
	c.Cancel()
	await(t, "there is room again", func() bool { return w.readiness().Ready })
}

// TestFileShortage: a want of files counts from the client that is turned away to the next that is
// let in, or for a minute.
func TestFileShortage(t *testing.T) {
	f, at := &fileShortage{}, func(seconds int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(seconds) * time.Second) }
	short := func(seconds int, want bool) {
		t.Helper()
		if why := f.why(at(seconds)); strings.Contains(why, "open files") != want {
			t.Errorf("after %d s: %q, want a shortage: %v", seconds, why, want)
		}
	}
	short(0, false)
	f.note(at(1), false)
	f.note(at(30), false)
	short(89, true)
	short(90, false)
	f.note(at(91), false)
	f.note(at(92), true)
	short(93, false)
}

// onePort accepts a connection, or fails.
type onePort struct {
	net.Listener
	err error
}

func (p *onePort) Accept() (net.Conn, error) {
	if p.err != nil {
		return nil, p.err
	}
	ours, theirs := net.Pipe()
	return ours, theirs.Close()
}

func (p *onePort) Addr() net.Addr { return &net.TCPAddr{} }

// TestPortTellsOfFileShortage: a port for clients takes note of want of files, and of its end.
func TestPortTellsOfFileShortage(t *testing.T) {
	p, port := &process{base: zap.NewNop(), levels: levels.New("info", nil)}, &onePort{err: fmt.Errorf("accept: %w", syscall.EMFILE)}
	r := newRationed(port, p, &config.Config{})
	if _, err := r.Accept(); err == nil || p.noFiles.why(time.Now()) == "" {
		t.Errorf("without files: %v, %q", err, p.noFiles.why(time.Now()))
	}
	port.err = nil
	c, err := r.Accept()
	if err != nil || p.noFiles.why(time.Now()) != "" {
		t.Fatalf("with files: %v, %q", err, p.noFiles.why(time.Now()))
	}
	_ = c.Close()
}

// TestRoomForWhatIsRestored: what is restored may take the memory up to nine tenths of the soft
// limit. Garbage does not count.
func TestRoomForWhatIsRestored(t *testing.T) {
	m := newMemory(nil, zap.NewNop())
	if !m.room(1 << 50) {
		t.Error("there is no room without a limit")
	}
	_, _, all := m.read()
	m.soft.Store(all + 256<<20)
	garbage := make([]byte, 512<<20)
	garbage[0] = 1
	if m.room(128<<20) != true || m.room(512<<20) {
		t.Errorf("the room is not what is left of %d after %d", m.soft.Load(), all)
	}
	held := make([]byte, 300<<20)
	if m.room(0) {
		t.Errorf("there is room beyond the limit")
	}
	held[0] = 1
}
