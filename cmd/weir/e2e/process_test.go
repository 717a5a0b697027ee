package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-xds/weir/relay/relaytest"
)

// patience is how long a condition may take to come true on a loaded machine under the race detector.
const patience = 20 * time.Second

// conf is a configuration file in the making; JSON is YAML.
type conf map[string]any

// set puts v at a dotted path below the top, making the maps on the way.
func (c conf) set(path string, v any) conf {
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

// origin is the one origin of the file.
func (c conf) origin() conf { return c["origins"].([]any)[0].(map[string]any) }

// config is a file with one origin and one group, which reconnects quickly. All clients share the node id "e2e" upstream,
// since go-control-plane's snapshots are kept by node id.
func config(origin string, dialect relaytest.Dialect) conf {
	c := conf{}
	c["origins"] = []any{map[string]any{
		"name":     "plane",
		"grpc":     map[string]any{"addresses": []any{origin}, "dialect": string(dialect)},
		"group_by": []any{},
		"node":     map[string]any{"id": nodeID, "cluster": "e2e"},
	}}
	c.set("timing.pause", "50ms")
	c.set("timing.backoff", map[string]any{"base": "50ms", "max": "500ms"})
	c.set("timing.drain", "200ms")
	level := os.Getenv("WEIR_LOG")
	if level == "" {
		level = "info"
	}
	return c.set("log.level", level)
}

// process is one running weir.
type process struct {
	tb     testing.TB
	addr   string // of the listener
	admin  string
	cmd    *exec.Cmd
	config []byte
	out    output
	done   chan struct{} // closed when the process has ended; err is set then
	err    error
	// replaced: it lost the race for a port, and another was started in its place.
	replaced bool
}

// output collects what a process writes.
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

// startWeir runs weir with the file on ports that are free, and returns when it accepts connections. tb ends the process.
func startWeir(tb testing.TB, c conf) *process {
	tb.Helper()
	for range 3 {
		p := spawn(tb, c)
		if p.accepts() {
			return p
		}
		<-p.done
		// Between being found free and being opened a port may go to somebody else.
		if !strings.Contains(p.out.String(), "address already in use") {
			break
		}
		p.replaced = true
	}
	tb.Fatal("weir did not start; its output follows")
	return nil
}

func spawn(tb testing.TB, c conf) *process {
	tb.Helper()
	p := &process{tb: tb, addr: freePort(tb), admin: freePort(tb), done: make(chan struct{})}
	c["listeners"] = []any{map[string]any{"address": p.addr}}
	c.set("admin.address", p.admin)
	var err error
	if p.config, err = json.MarshalIndent(c, "", "  "); err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, p.config, 0o600); err != nil {
		tb.Fatal(err)
	}
	p.cmd = exec.Command(binary, "run", "-c", file)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // the detector would spend a second on every end
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go p.wait()
	tb.Cleanup(p.end)
	return p
}

// wait notes the end of the process.
func (p *process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// accepts waits until the listener answers; false if the process ends, or time runs out, before.
func (p *process) accepts() bool {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		conn, err := net.DialTimeout("tcp", p.addr, time.Second)
		if err == nil {
			_ = conn.Close()
			return true
		}
		select {
		case <-p.done:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = p.cmd.Process.Kill()
	return false
}

// end asks for an orderly end, waits for it and judges it.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.tb.Error("weir does not end; its goroutines follow")
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
	}
	out := p.out.String()
	if p.err != nil && !p.replaced {
		p.tb.Errorf("weir ended with %v", p.err)
	}
	if strings.Contains(out, "DATA RACE") {
		p.tb.Error("weir has a data race")
	}
	if p.tb.Failed() {
		p.tb.Logf("weir's configuration:\n%s\nweir's output:\n%s", p.config, tail(out))
	}
}

// tail keeps a log readable.
func tail(s string) string {
	const most = 200_000
	if len(s) <= most {
		return s
	}
	return s[:most/2] + "\n...\n" + s[len(s)-most/2:]
}

// metric is the sum of the samples of one metric whose labels all contain the given text; false if there is none.
func (p *process) metric(name string, labels ...string) (float64, bool) {
	p.tb.Helper()
	body, err := fetch("http://" + p.admin + "/metrics")
	if err != nil {
		p.tb.Fatalf("weir's metrics: %v", err)
	}
	sum, found := 0.0, false
	for line := range strings.Lines(body) {
		id, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(id, "{"); !ok || base != name || !containsAll(id, labels) {
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

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// awaitMetric waits until the sum of a metric's samples is as wanted.
func (p *process) awaitMetric(want float64, sentence, name string, labels ...string) {
	p.tb.Helper()
	last := "no sample"
	met := func() bool {
		got, ok := p.metric(name, labels...)
		if ok {
			last = fmt.Sprint(got)
		}
		return ok && got == want
	}
	if !until(patience, met) {
		p.tb.Fatalf("%s: %s is %s, want %v", sentence, name, last, want)
	}
}

// rss is the resident memory of the process in bytes.
func (p *process) rss() int {
	p.tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil { // not Linux
		v, ok := p.metric("process_resident_memory_bytes")
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

// show logs admin pages, for the report of a failure.
func (p *process) show(pages ...string) {
	for _, page := range pages {
		body, err := fetch("http://" + p.admin + page)
		p.tb.Logf("weir's %s (%v):\n%s", page, err, tail(body))
	}
}

func fetch(url string) (string, error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
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

// freePort is a loopback address nobody listens on.
func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// connect is a connection to an xDS server, with small fixed windows so that a client that does not read blocks its server
// soon. tb closes it.
func connect(tb testing.TB, addr string) *grpc.ClientConn {
	tb.Helper()
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, MaxDelay: 200 * time.Millisecond}
	conn, err := grpc.NewClient(
		"passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10),
		grpc.WithStaticConnWindowSize(64<<10),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: 5 * time.Second}),
		grpc.WithNoProxy(),
	)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// until looks at done again and again until it is true; false if that takes longer than d.
func until(d time.Duration, done func() bool) bool {
	deadline := time.Now().Add(d)
	for !done() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}
