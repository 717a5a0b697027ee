// Package weirtest runs the real weir as a process, for tests that treat it as a black box. Only
// tests import it.
package weirtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-xds/weir/relay/relaytest"
)

// Patience is how long a condition may take to become true, on a loaded machine under the race
// detector.
const Patience = 30 * time.Second

// Config is a configuration file that a test builds. It is written as JSON, which is YAML.
type Config map[string]any

// Set sets the value at a dotted path, and makes the maps on the way.
func (c Config) Set(path string, v any) Config {
	at := map[string]any(c)
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[keys[len(keys)-1]] = v
	return c
}

// Origin returns the file's only origin.
func (c Config) Origin() Config { return c["origins"].([]any)[0].(map[string]any) }

// Listener returns the file's only listener; Start chooses its address.
func (c Config) Listener() Config { return c["listeners"].([]any)[0].(map[string]any) }

// NewConfig returns a file with one listener, one origin and one group, which reconnects quickly.
func NewConfig(origin string, dialect relaytest.Dialect) Config {
	c := Config{}
	c["listeners"] = []any{map[string]any{}}
	c["origins"] = []any{map[string]any{
		"name":     "plane",
		"grpc":     map[string]any{"addresses": []any{origin}, "dialect": string(dialect)},
		"group_by": []any{},
	}}
	c.Set("timing.pause", "50ms")
	c.Set("timing.backoff", map[string]any{"base": "50ms", "max": "500ms"})
	c.Set("timing.drain", "200ms")
	return c.Set("log.level", cmp.Or(os.Getenv("WEIR_LOG"), "info"))
}

// Process is a running weir.
type Process struct {
	tb     testing.TB
	Addr   string   // of the first listener
	Addrs  []string // in the order of the file
	Admin  string
	Probes string // empty: there is no such port
	cmd    *exec.Cmd
	file   string
	config []byte
	out    output
	done   chan struct{} // closed when the process has ended; err is set before
	err    error
	killed bool // ended by Kill, so its exit status does not matter
}

// output collects the output of a process.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// encode returns the file. Unless it says otherwise, clients alone ask its origins: a test judges
// what an origin is asked, and does not know how soon its clients come.
func (c Config) encode(tb testing.TB) []byte {
	tb.Helper()
	if c["ready"] == nil {
		c.Set("ready.types", []any{})
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// Start runs weir with a file, on ports that the system chooses, on loopback if a listener has no
// address. It returns when weir listens. The end of tb ends the process.
func Start(tb testing.TB, c Config) *Process {
	tb.Helper()
	return Launch{}.Start(tb, c)
}

// Launch has options for Start.
type Launch struct {
	// Program replaces Binary.
	Program string
	// Under is a command with its first arguments, to which the program and its arguments are
	// appended, such as one that sets limits and then executes the program. It must not leave a
	// process behind.
	Under []string
	// Env is added to the environment.
	Env []string
}

// Start is like the function Start.
func (l Launch) Start(tb testing.TB, c Config) *Process {
	tb.Helper()
	p := &Process{tb: tb, done: make(chan struct{})}
	for _, l := range c["listeners"].([]any) {
		if l := l.(map[string]any); l["address"] == nil {
			l["address"] = "127.0.0.1:0"
		}
	}
	listeners := len(c["listeners"].([]any))
	c.Set("admin.address", "127.0.0.1:0")
	p.config = c.encode(tb)
	p.file = filepath.Join(tb.TempDir(), "weir.yaml")
	if err := os.WriteFile(p.file, p.config, 0o600); err != nil {
		tb.Fatal(err)
	}
	args := append(slices.Clone(l.Under), cmp.Or(l.Program, Binary), "run", "-c", p.file)
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	// The detector would otherwise wait a second at each exit.
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	p.cmd.Env = append(p.cmd.Env, l.Env...)
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go p.wait()
	tb.Cleanup(p.end)
	if !Until(Patience, func() bool { return p.listens(listeners) }) {
		tb.Fatal("weir did not start; its output follows")
	}
	return p
}

// Reload replaces the file by a valid one, and returns when it is in force. Listeners keep their
// ports.
func (p *Process) Reload(c Config) {
	p.tb.Helper()
	before, _ := p.Metric("weir_config_reloads_total", `result="ok"`)
	p.config = c.encode(p.tb)
	p.Replace(p.config)
	taken := func() bool { n, _ := p.Metric("weir_config_reloads_total", `result="ok"`); return n > before }
	if !Until(Patience, taken) {
		p.tb.Fatal("the file was not taken; weir's output follows")
	}
}

// Replace replaces the file by any text, and tells weir so.
func (p *Process) Replace(text []byte) {
	p.tb.Helper()
	if err := os.WriteFile(p.file+".next", text, 0o600); err != nil {
		p.tb.Fatal(err)
	}
	if err := os.Rename(p.file+".next", p.file); err != nil {
		p.tb.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.tb.Fatal(err)
	}
}

// Text is the file as it was written last by Start or Reload.
func (p *Process) Text() []byte { return p.config }

// listens reads from the log where weir listens, and reports whether it does on all listeners; also
// true if the process has ended.
func (p *Process) listens(listeners int) bool {
	p.Addrs = nil
	for line := range strings.Lines(p.out.String()) {
		var entry struct{ Msg, Port, Address string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "listening" {
			continue
		}
		switch entry.Port {
		case "admin":
			p.Admin = entry.Address
		case "probes":
			p.Probes = entry.Address
		default:
			p.Addrs = append(p.Addrs, entry.Address)
		}
	}
	select {
	case <-p.done:
		p.tb.Fatal("weir ended at its start; its output follows")
	default:
	}
	if len(p.Addrs) < listeners || p.Admin == "" {
		return false
	}
	p.Addr = p.Addrs[0]
	return true
}

// wait records the end of the process.
func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// Stop ends the process before the test ends.
func (p *Process) Stop() {
	p.tb.Helper()
	p.end()
}

// end asks for an orderly shutdown, waits for it, and checks it.
func (p *Process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // a stopped process would not handle it
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.tb.Error("weir does not end; its goroutines follow")
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
	}
	out := p.out.String()
	if p.err != nil && !p.killed {
		p.tb.Errorf("weir ended with %v", p.err)
	}
	if strings.Contains(out, "DATA RACE") {
		p.tb.Error("weir has a data race")
	}
	if p.tb.Failed() {
		p.tb.Logf("weir's configuration:\n%s\nweir's output:\n%s", p.config, tail(out))
	}
}

// Kill kills the process, as the kernel does when memory is short, and returns when it has ended.
func (p *Process) Kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Signal sends the process a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.tb.Errorf("signal %v to weir: %v", s, err)
	}
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail returns the end of a log.
func tail(s string) string {
	const most = 200_000
	if len(s) <= most {
		return s
	}
	return s[:most/2] + "\n...\n" + s[len(s)-most/2:]
}

// Output returns the log so far.
func (p *Process) Output() string { return p.out.String() }

// Metric returns the sum of the samples of a metric whose labels contain all the given texts; false
// if there is none.
func (p *Process) Metric(name string, labels ...string) (float64, bool) {
	p.tb.Helper()
	body, err := Fetch("http://" + p.Admin + "/metrics")
	if err != nil {
		p.tb.Fatalf("weir's metrics: %v", err)
	}
	sum, found := 0.0, false
	for line := range strings.Lines(body) {
		id, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		lacking := func(label string) bool { return !strings.Contains(id, label) }
		if base, _, _ := strings.Cut(id, "{"); !ok || base != name || slices.ContainsFunc(labels, lacking) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			p.tb.Fatalf("metric line %q: %v", line, err)
		}
		sum, found = sum+v, true
	}
	return sum, found
}

// AwaitMetric waits until the sum of a metric's samples equals want.
func (p *Process) AwaitMetric(want float64, sentence, name string, labels ...string) {
	p.tb.Helper()
	last := "no sample"
	met := func() bool {
		got, ok := p.Metric(name, labels...)
		if ok {
			last = fmt.Sprint(got)
		}
		return ok && got == want
	}
	if !Until(Patience, met) {
		p.tb.Fatalf("%s: %s is %s, want %v", sentence, name, last, want)
	}
}

// RSS returns the resident memory of the process in bytes.
func (p *Process) RSS() int {
	p.tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil { // not Linux
		v, ok := p.Metric("process_resident_memory_bytes")
		if !ok {
			p.tb.Fatalf("neither /proc nor process_resident_memory_bytes tells the memory in use: %v", err)
		}
		return int(v)
	}
	for line := range strings.Lines(string(status)) {
		rest, ok := strings.CutPrefix(line, "VmRSS:")
		if !ok {
			continue
		}
		kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
		if err != nil {
			p.tb.Fatalf("%q: %v", line, err)
		}
		return kib << 10
	}
	p.tb.Fatal("/proc gives no VmRSS")
	return 0
}

func Fetch(url string) (string, error) {
	client := &http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(body), err
}

// Connect is relaytest.Connect.
func Connect(tb testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	return relaytest.Connect(tb, addr, options...)
}

// Until calls done until it returns true. It returns false if that takes longer than d.
func Until(d time.Duration, done func() bool) bool {
	deadline := time.Now().Add(d)
	for !done() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}
