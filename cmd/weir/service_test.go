package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
)

// manager listens at NOTIFY_SOCKET as systemd does.
type manager struct {
	t *testing.T

	mu   sync.Mutex // guards what follows
	told []string   // messages
}

func newManager(t *testing.T, address string) *manager {
	t.Helper()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m, done := &manager{t: t}, make(chan struct{})
	go func() {
		defer close(done)
		for b := make([]byte, 4096); ; {
			n, err := l.Read(b)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.told = append(m.told, string(b[:n]))
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		if t.Failed() {
			t.Logf("it was told:\n%s", strings.Join(m.messages(), "\n---\n"))
		}
	})
	t.Setenv("NOTIFY_SOCKET", address)
	return m
}

func (m *manager) messages() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.told)
}

// count is how many messages have a line that begins so.
func (m *manager) count(begin string) int {
	n := 0
	for _, message := range m.messages() {
		if strings.Contains("\n"+message, "\n"+begin) {
			n++
		}
	}
	return n
}

func (m *manager) await(begin string, times int) {
	m.t.Helper()
	await(m.t, fmt.Sprintf("systemd is told %s, %d times", begin, times), func() bool { return m.count(begin) >= times })
}

// place is where the first message with such a line is among all; -1: there is none.
func (m *manager) place(begin string) int {
	return slices.IndexFunc(m.messages(), func(message string) bool { return strings.Contains("\n"+message, "\n"+begin) })
}

// TestServiceManager: a process tells systemd when it is ready, that it is alive, that it reloads and
// that it ends, over both kinds of sockets.
func TestServiceManager(t *testing.T) {
	for name, address := range map[string]string{
		"path":     filepath.Join(t.TempDir(), "notify"),
		"abstract": fmt.Sprintf("@weir-test-%d", os.Getpid()),
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, address)
			t.Setenv("WATCHDOG_USEC", "400000")
			path := write(t, freePorts+fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q] } }]\n", deadAddress(t))+
				"timing: { ready_wait: 2s, drain: 1s }\n")
			w := spawn(t, os.Args[0], "run", "-c", path)
			_, adminPort := w.addresses()
			m.await("STATUS=starting: ", 1)
			m.await("READY=1", 1)
			if code, body := fetch(t, "GET", "http://"+adminPort+"/readyz"); code != 200 {
				t.Errorf("READY=1, and /readyz says %d %s", code, body)
			}
			// ready_wait and 30 s more
			if first := m.messages()[0]; !strings.Contains(first, "\nEXTEND_TIMEOUT_USEC=32000000") {
				t.Errorf("it begins with %q", first)
			}
			m.await("STATUS=ready; 0 of 1 origins connected: ", 1)

			alive := m.count("WATCHDOG=1")
			m.await("WATCHDOG=1", alive+3)
			w.signal(syscall.SIGHUP)
			m.await("RELOADING=1\nMONOTONIC_USEC=", 1)
			m.await("READY=1", 2)
			if err := os.WriteFile(path, []byte("origins: nonsense\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			m.await("RELOADING=1\nMONOTONIC_USEC=", 2)
			m.await("READY=1", 3)
			if all := m.messages(); !slices.ContainsFunc(all, func(x string) bool {
				return strings.HasPrefix(x, "READY=1\n") && strings.Contains(x, "the config file is refused")
			}) {
				t.Error("the status does not say that the file is refused")
			}

			w.signal(syscall.SIGTERM)
			if code := w.waitEnd(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			m.await("STOPPING=1\nSTATUS=draining, because of a signal\nEXTEND_TIMEOUT_USEC=31000000", 1)
			order := []int{m.place("STATUS=starting: "), m.place("READY=1"), m.place("RELOADING=1"), m.place("STOPPING=1")}
			if order[0] < 0 || !slices.IsSorted(order) {
				t.Errorf("the order is %v", order)
			}
			for _, after := range m.messages()[order[3]+1:] {
				if after != "WATCHDOG=1" {
					t.Errorf("after the end it says %q", after)
				}
			}
		})
	}
}

// TestNobodyIsTold: a reload before the process is ready does not say that it is, and without a
// socket nobody is told anything.
func TestNobodyIsTold(t *testing.T) {
	text := freePorts + fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q] } }]\n", deadAddress(t))
	t.Run("before it is ready", func(t *testing.T) {
		m := newManager(t, filepath.Join(t.TempDir(), "notify"))
		w := spawn(t, os.Args[0], "run", "-c", write(t, text+"timing: { ready_wait: 1h, drain: 0s }\n"))
		w.addresses()
		w.signal(syscall.SIGHUP)
		await(t, "it is reloaded", func() bool { return strings.Contains(w.errs.String(), `"SIGHUP"`) })
		w.signal(syscall.SIGTERM)
		w.waitEnd()
		m.await("STOPPING=1", 1)
		if n := m.count("READY=1") + m.count("RELOADING=1") + m.count("WATCHDOG=1"); n > 0 {
			t.Errorf("it says so %d times", n)
		}
	})
	t.Run("without a socket", func(t *testing.T) {
		t.Setenv("NOTIFY_SOCKET", "")
		t.Setenv("WATCHDOG_USEC", "400000")
		cfg, err := config.Parse("weir.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zap.DebugLevel)
		runWeir(t, cfg, zap.New(core), logs, func(p *process) {
			if p.service = newService(p); p.service != nil {
				t.Error("there is something that tells")
			}
		}).end()
	})
	t.Run("the socket is gone", func(t *testing.T) {
		t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "notify"))
		w := spawn(t, os.Args[0], "run", "-c", write(t, text+"timing: { ready_wait: 0s, drain: 0s }\n"))
		w.addresses()
		await(t, "it is said", func() bool {
			return strings.Contains(w.errs.String(), "cannot report the state of the process to systemd")
		})
		w.signal(syscall.SIGTERM)
		if code := w.waitEnd(); code != exitOK || strings.Count(w.errs.String(), "cannot report the state of the process to systemd") != 1 {
			t.Errorf("exit code %d, said %d times", code, strings.Count(w.errs.String(), "cannot report the state of the process to systemd"))
		}
	})
}

// stuckOrigin does not answer while its lock is held.
type stuckOrigin struct {
	origin
	mu *sync.Mutex
}

func (o stuckOrigin) status() admin.Origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.origin.status()
}

// TestStuckProcessIsSilent: the watchdog is not answered by a process that is stopped, nor by one in
// which somebody keeps a lock.
func TestStuckProcessIsSilent(t *testing.T) {
	const watchdog = 400 * time.Millisecond
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	t.Run("stopped", func(t *testing.T) {
		m := newManager(t, filepath.Join(t.TempDir(), "notify"))
		t.Setenv("WATCHDOG_USEC", fmt.Sprint(watchdog.Microseconds()))
		w := spawn(t, os.Args[0], "run", "-c", write(t, freePorts+filesOrigin(dir)+"timing: { drain: 0s }\n"))
		m.await("WATCHDOG=1", 3)
		w.signal(syscall.SIGSTOP)
		n := m.count("WATCHDOG=1") + 1 // one may be on its way
		time.Sleep(3 * watchdog)
		if now := m.count("WATCHDOG=1"); now > n {
			t.Errorf("%d times while it is stopped", now-n)
		}
		w.signal(syscall.SIGCONT)
		m.await("WATCHDOG=1", n+2)
		w.signal(syscall.SIGTERM)
		w.waitEnd()
	})
	t.Run("a lock is held", func(t *testing.T) {
		m := newManager(t, filepath.Join(t.TempDir(), "notify"))
		t.Setenv("WATCHDOG_USEC", fmt.Sprint(watchdog.Microseconds()))
		cfg, err := config.Parse("weir.yaml", []byte(freePorts+filesOrigin(dir)+"timing: { drain: 0s }\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zap.DebugLevel)
		var lock sync.Mutex
		r := runWeir(t, cfg, zap.New(core), logs, func(p *process) {
			p.service = newService(p)
			o := p.active.Load().origins[0]
			o.origin = stuckOrigin{o.origin, &lock}
		})
		m.await("WATCHDOG=1", 3)
		lock.Lock()
		n := m.count("WATCHDOG=1") + 1
		time.Sleep(3 * watchdog)
		now := m.count("WATCHDOG=1")
		lock.Unlock()
		if now > n {
			t.Errorf("%d times while the lock is held", now-n)
		}
		m.await("WATCHDOG=1", n+2)
		r.end()
	})
}
