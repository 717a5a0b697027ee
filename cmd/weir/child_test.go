package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// asWeir makes this test binary, race detector and all, behave as weir.
const asWeir = "WEIR_TEST_AS_WEIR"

// child is a weir in a process of its own.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  output // stdout
	errs output // stderr
	done chan struct{}
}

// output gathers what a process writes.
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

func spawn(t *testing.T, binary string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), asWeir+"=1")
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.errs
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.wait()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it has ended, if the test went well
		<-c.done
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", c.out.String(), c.errs.String())
		}
	})
	return c
}

func (c *child) wait() {
	_ = c.cmd.Wait() // ProcessState has it
	close(c.done)
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// waitEnd waits for the exit code; -1 means ended by a signal.
func (c *child) waitEnd() int {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		c.t.Fatal("the process does not end")
	}
	return c.cmd.ProcessState.ExitCode()
}

// addresses waits until the process listens and gives its listener's and its
// admin port's address, as logged.
func (c *child) addresses() (listener, adminPort string) {
	c.t.Helper()
	await(c.t, "the process listens", func() bool {
		for line := range strings.Lines(c.errs.String()) {
			var entry struct{ Msg, Address, Port string }
			if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "listening" {
				continue
			}
			switch entry.Port {
			case "admin":
				adminPort = entry.Address
			case "":
				listener = entry.Address
			}
		}
		return listener != "" && adminPort != ""
	})
	return listener, adminPort
}

// SIGTERM and ^C end a process in order, with exit code 0 and word to the
// clients.
func TestSignalsEndInOrder(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	path := write(t, freePorts+filesOrigin(dir))
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			w := spawn(t, os.Args[0], "run", "-c", path)
			address, adminPort := w.addresses()
			c := openClient(t, dial(t, address), relaytest.SotW)
			c.Request(relaytest.ClusterType)
			c.AwaitNames(relaytest.ClusterType, "the process serves", "a")
			if code, body := fetch(t, "GET", "http://"+adminPort+"/readyz"); code != 200 {
				t.Errorf("/readyz: %d %s", code, body)
			}
			w.signal(signal)
			if code := c.AwaitEnd("the client is told"); code != codes.Unavailable {
				t.Errorf("the stream ended with %s, want Unavailable", code)
			}
			if code := w.waitEnd(); code != exitOK {
				t.Errorf("exit code %d, want 0", code)
			}
			for _, message := range []string{`"draining"`, `"ended"`} {
				if !strings.Contains(w.errs.String(), message) {
					t.Errorf("the log lacks %s", message)
				}
			}
			if w.out.String() != "" {
				t.Errorf("stdout: %q", w.out.String())
			}
		})
	}
}

// Who cannot wait for the drain signals again.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := spawn(t, os.Args[0], "run", "-c", write(t, freePorts+filesOrigin(dir)+"limits: { streams_per_connection: 0 }\n"))
	address, _ := w.addresses()
	// So many streams are drained over six seconds.
	ads := discoveryv3.NewAggregatedDiscoveryServiceClient(dial(t, address))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 600 {
		stream, err := ads.DeltaAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: relaytest.ClusterType}); err != nil {
			t.Fatal(err)
		}
	}
	w.signal(syscall.SIGTERM)
	await(t, "the drain begins", func() bool { return strings.Contains(w.errs.String(), `"draining"`) })
	select {
	case <-w.done:
		t.Fatal("ended before the second signal: there was nothing to cut short")
	default:
	}
	// One that comes within the same moment counts as the first.
	await(t, "another signal ends it", func() bool {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-w.done:
			return true
		default:
			return false
		}
	})
	if code := w.waitEnd(); code != -1 || strings.Contains(w.errs.String(), `"ended"`) {
		t.Errorf("exit code %d, want death by the signal", code)
	}
}

// Origins that nobody answers for cost next to nothing: neither processor time
// nor lines in the log.
func TestIdleWithDeadOrigin(t *testing.T) {
	span := 10 * time.Second
	if text := os.Getenv("WEIR_IDLE"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if testing.Short() {
		t.Skip("takes " + span.String())
	}
	if _, err := cpuTime(os.Getpid()); err != nil {
		t.Skip(err)
	}
	binary, err := weirtest.BuildPlain(t.TempDir(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	w := spawn(t, binary, "run", "-c", write(t, freePorts+
		fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q] } }]\n", deadAddress(t))))
	address, _ := w.addresses()
	c := openClient(t, dial(t, address), relaytest.Delta)
	c.Request(relaytest.ClusterType) // or nobody would look for the origin
	await(t, "the dead origin is noticed", func() bool { return strings.Contains(w.errs.String(), "the origin does not answer") })

	lines := strings.Count(w.errs.String(), "\n")
	before, err := cpuTime(w.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	select {
	case <-w.done:
		t.Fatal("the process ended")
	case <-time.After(span):
	}
	after, err := cpuTime(w.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	share := (after - before).Seconds() / time.Since(began).Seconds()
	lines = strings.Count(w.errs.String(), "\n") - lines
	t.Logf("idle with a dead origin for %s: %.2f %% of a core, %d log lines", span, 100*share, lines)
	if share >= 0.01 {
		t.Errorf("%.2f %% of a core, want less than 1", 100*share)
	}
	if most := 2 + int(span/(10*time.Second)); lines > most {
		t.Errorf("%d log lines in %s, want at most %d:\n%s", lines, span, most, w.errs.String())
	}
	w.signal(syscall.SIGTERM)
	if code := w.waitEnd(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// cpuTime is the processor time a process has used, in steps of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the name, may hold anything up to its last bracket.
	_, rest, ok := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, errors.New("/proc has no processor times")
	}
	var ticks int64
	for _, text := range fields[11:13] { // utime, stime
		var n int64
		if _, err := fmt.Sscan(text, &n); err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
