package redteam

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// What a pod is, as the chart makes it by default.
const (
	podMemory  = 1 << 30
	podClients = 10 // good ones
	podDrain   = 2 * time.Second
	// podPatience is how long the good clients may take to hold everything once an attack is over.
	podPatience = 15 * time.Second
)

// pod is a bed whose weir may have no more memory than a pod of the chart.
type pod struct {
	*bed
	life   *testing.T            // of the pod; bed.T is that of the attack
	group  *weirtest.MemoryGroup // nil: there are none here, and weir is killed by watch instead
	launch weirtest.Launch
	file   weirtest.Config
	dir    string        // for files of the attack
	evil   *evil         // a hostile origin; nil: there is none
	web    *webEvil      // one that is polled; nil: there is none
	token  string        // file of the admin token; empty: there is none
	length time.Duration // of an attack
}

// The listeners of a pod by their places.
const (
	openPort = iota
	pollPort
	strangerPort // whose clients no rule admits
	evilPort     // of clients of the hostile origin
	evilPollPort
)

// newPod starts a weir and its good clients. kind makes it another one.
func newPod(t *testing.T, length time.Duration, kind func(*pod)) *pod {
	t.Helper()
	p := &pod{bed: newWorld(t, podPatience), life: t, dir: t.TempDir(), length: length}
	p.file = p.config()
	p.file["listeners"] = append(p.file["listeners"].([]any), map[string]any{"address": "127.0.0.2:0"})
	p.file["authorization"] = []any{map[string]any{"who": []any{"anonymous"}, "listeners": []any{"127.0.0.1:0"}}}
	for _, l := range p.file["listeners"].([]any)[:strangerPort] {
		l.(map[string]any)["address"] = "127.0.0.1:0"
	}
	p.file.Origin()["lrs"] = "aggregate"
	p.file.Set("timing.drain", podDrain.String())
	p.file.Set("probes.address", "127.0.0.1:0")
	p.launch = weirtest.Launch{Env: []string{fmt.Sprintf("GOMEMLIMIT=%d", podMemory/5*4)}}
	if why := weirtest.NeedsMemoryGroup(); why == "" {
		p.group = weirtest.NewMemoryGroup(t, podMemory)
		p.launch.Under = p.group.Under()
	}
	if kind != nil {
		kind(p)
	}
	p.weir = p.launch.Start(t, p.file)
	p.admit(podClients)
	p.conspire()
	return p
}

// how says in each line who holds weir to its limit.
func (p *pod) how() string {
	if p.group == nil {
		return "watched"
	}
	return "control group"
}

// address is that of a listener.
func (p *pod) address(port int) string { return p.weir.Addrs[port] }

// restart kills weir and starts it again with the same file, and the same good clients come back.
func (p *pod) restart() {
	p.Helper()
	attack := p.T
	p.T = p.life // what is started now lasts longer than the attack
	defer func() { p.T = attack }()
	p.weir.Kill()
	p.weir = p.launch.Start(p.T, p.file)
	p.join(podClients)
	p.conspire()
}

// conspire has a client ask what a hostile origin has, if there is one.
func (p *pod) conspire() {
	if p.evil != nil || p.web != nil {
		accomplice(p.T, p.address(evilPort), relaytest.ListenerType)
	}
}

// watched is what the process of weir has used meanwhile.
type watched struct {
	peak   int // the most resident memory, in bytes
	used   time.Duration
	killed bool // by the watch, in place of the kernel
}

// watch measures weir until it is asked what it used. Where no control group bounds weir's memory,
// it kills a weir that has more, as the kernel would.
func (p *pod) watch() func() watched {
	stop, result := make(chan struct{}), make(chan watched, 1)
	pid, group := p.weir.PID(), p.group
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // a new peak; or it is the one since the start
	begin := used(pid)
	go func() {
		var w watched
		for done := false; !done; {
			select {
			case <-stop:
				done = true
			case <-time.After(5 * time.Millisecond):
			}
			w.peak = max(w.peak, peakOf(pid))
			w.used = max(w.used, used(pid)-begin)
			if group == nil && w.peak > podMemory && !w.killed {
				w.killed = true
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		result <- w
	}()
	return func() watched { close(stop); return <-result }
}

// peakOf is the most resident memory that a process has had, in bytes; 0 if it has ended.
func peakOf(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	kib := 0
	if _, of, ok := strings.Cut(string(status), "VmHWM:"); ok {
		_, _ = fmt.Sscan(of, &kib) // of one that has ended nothing can be read
	}
	return kib << 10
}

// kills is how many times the kernel has killed weir.
func (p *pod) kills() int {
	if p.group == nil {
		return 0
	}
	return p.group.Kills()
}

// drain ends weir by SIGTERM, and asserts that this takes no longer than the file says.
func (p *pod) drain() time.Duration {
	p.Helper()
	p.weir.Signal(syscall.SIGTERM)
	begin := time.Now()
	if !weirtest.Until(5*podDrain, p.weir.Ended) {
		p.Errorf("weir drains for more than %v, and timing.drain is %v", 5*podDrain, podDrain)
		p.weir.Kill()
	}
	return time.Since(begin)
}

// put writes a file for the attack.
func (p *pod) put(name, text string) string {
	p.Helper()
	path := filepath.Join(p.dir, name)
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		p.Fatal(err)
	}
	return path
}
