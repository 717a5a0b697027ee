package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/weir-xds/weir/relay/relaytest"
)

// originRole is the environment variable that makes the test binary an origin.
const originRole = "WEIR_CHAOS_ORIGIN"

// order is what the test tells an origin process, one JSON object in a line.
type order struct {
	ID      int      // answered by a report if not 0
	Type    string   `json:",omitempty"`
	Put     []placed `json:",omitempty"`
	Remove  []string `json:",omitempty"`
	Whole   bool     `json:",omitempty"` // Put is all there is of the type
	Forgets *bool    `json:",omitempty"` // initial versions are ignored from now on
}

// placed is a resource in an order.
type placed struct {
	Name    string
	Version string
	Number  uint64
	Ref     string `json:",omitempty"`
}

// report is what an origin process says of itself.
type report struct {
	ID      int
	Address string // of its listener
	Open    []int  // the streams open, by number
	// something was sent on every open stream, and all of it answered
	Settled bool
	Held    map[string]map[string]int // by type URL and name: how many open streams want it now
	Asked   map[string]map[string]int // by type URL and name: how often any stream came to want it
	Streams int                       // opened so far
	// a name that one stream asked for twice; empty if there is none
	Worst string
}

// TestOriginProcess is an origin of its own, started by others of these tests.
func TestOriginProcess(t *testing.T) {
	if os.Getenv(originRole) == "" {
		t.Skip("it is started by other tests")
	}
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}})
	out := json.NewEncoder(os.NewFile(3, "reports"))
	tell := func(r report) {
		if err := out.Encode(r); err != nil {
			t.Errorf("report: %v", err)
		}
	}
	tell(report{Address: o.Net().Addr()})
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var do order
		if err := in.Decode(&do); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("order: %v", err)
		}
		obey(o, do)
		if do.ID != 0 {
			r := tellOf(o)
			r.ID = do.ID
			tell(r)
		}
	}
}

func obey(o *relaytest.Origin, do order) {
	if do.Forgets != nil {
		o.Behave(func(b *relaytest.Behaviour) { b.IgnoreInitialVersions = *do.Forgets })
	}
	if do.Type == "" {
		return
	}
	var put []relaytest.Resource
	for _, p := range do.Put {
		put = append(put, relaytest.Resource{Name: p.Name, Version: p.Version, Body: bodyOf(do.Type, p.Name, p.Number, p.Ref)})
	}
	if do.Whole {
		o.Replace(do.Type, put...)
		return
	}
	o.Batch(func() {
		for _, r := range put {
			o.Put(do.Type, r)
		}
		for _, name := range do.Remove {
			o.Remove(do.Type, name)
		}
	})
}

func tellOf(o *relaytest.Origin) report {
	r := report{Settled: true, Held: map[string]map[string]int{}, Asked: map[string]map[string]int{}, Streams: len(o.Streams())}
	open := o.Open()
	for _, s := range open {
		r.Open = append(r.Open, s.N)
		answered := 0
		for _, typeURL := range types {
			a := s.Asked(typeURL)
			answered += a.ACKs + len(a.NACKs)
		}
		r.Settled = r.Settled && answered >= len(s.Sent()) && answered > 0
	}
	for _, typeURL := range types {
		r.Held[typeURL], r.Asked[typeURL] = map[string]int{}, o.Asked(typeURL).Subscribed
		for _, s := range open {
			a := s.Asked(typeURL)
			for name, n := range a.Subscribed {
				wants := n - a.Unsubscribed[name]
				r.Held[typeURL][name] += wants
				if wants > 1 {
					r.Worst = fmt.Sprintf("%s %q", short(typeURL), name)
				}
			}
		}
	}
	return r
}

// origin is the test's side of an origin process. It may be killed and started again; what it
// states is the truth's.
type origin struct {
	tb    testing.TB
	truth *truth

	mu      sync.Mutex // guards all below
	cmd     *exec.Cmd  // nil while dead
	in      *json.Encoder
	pipe    io.Closer
	address string
	ids     int
	waiting map[int]chan report
	forgets bool
}

func newOrigin(tb testing.TB, t *truth) *origin {
	o := &origin{tb: tb, truth: t}
	tb.Cleanup(o.kill)
	return o
}

// start runs a process that states what the truth is now, and returns its address.
func (o *origin) start() string {
	o.tb.Helper()
	reports, theirs, err := os.Pipe()
	if err != nil {
		o.tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOriginProcess$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), originRole+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		o.tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		o.tb.Fatal(err)
	}
	_ = theirs.Close() // the child has its own
	first := make(chan report, 1)
	o.mu.Lock()
	o.cmd, o.in, o.pipe = cmd, json.NewEncoder(in), in
	o.waiting = map[int]chan report{0: first}
	waiting := o.waiting
	o.mu.Unlock()
	go o.listen(reports, waiting)
	select {
	case r := <-first:
		o.mu.Lock()
		o.address = r.Address
		o.mu.Unlock()
	case <-time.After(60 * time.Second):
		o.tb.Fatal("the origin's process does not start")
	}
	o.tell(order{Forgets: &o.forgets})
	o.state()
	if _, ok := o.ask(30 * time.Second); !ok {
		o.tb.Fatal("the origin's process does not answer")
	}
	return o.address
}

// listen hands reports to those who wait for them, until the process ends.
func (o *origin) listen(reports *os.File, waiting map[int]chan report) {
	defer func() { _ = reports.Close() }()
	d := json.NewDecoder(reports)
	for {
		var r report
		if d.Decode(&r) != nil {
			return
		}
		o.mu.Lock()
		c := waiting[r.ID]
		delete(waiting, r.ID)
		o.mu.Unlock()
		if c != nil {
			c <- r
		}
	}
}

// state tells everything that the truth has.
func (o *origin) state() {
	for typeURL, set := range o.truth.state() {
		do := order{Type: typeURL, Whole: true}
		for name, r := range set {
			do.Put = append(do.Put, placed{name, r.version, r.body, r.ref})
		}
		o.tell(do)
	}
}

// tell gives an order if the process is there; one that is dying may not get it.
func (o *origin) tell(do order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.in != nil {
		_ = o.in.Encode(do)
	}
}

// put states new contents.
func (o *origin) put(typeURL, name, ref string) {
	r := o.truth.set(typeURL, name, ref)
	o.tell(order{Type: typeURL, Put: []placed{{name, r.version, r.body, r.ref}}})
}

// remove states that something is gone.
func (o *origin) remove(typeURL, name string) {
	o.truth.remove(typeURL, name)
	o.tell(order{Type: typeURL, Remove: []string{name}})
}

// ask gets a report; false if there is none in time.
func (o *origin) ask(patience time.Duration) (report, bool) {
	o.mu.Lock()
	if o.in == nil {
		o.mu.Unlock()
		return report{}, false
	}
	o.ids++
	id, answer := o.ids, make(chan report, 1)
	o.waiting[id] = answer
	o.mu.Unlock()
	o.tell(order{ID: id})
	select {
	case r := <-answer:
		return r, true
	case <-time.After(patience):
		return report{}, false
	}
}

// signal stops or continues the process.
func (o *origin) signal(s syscall.Signal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cmd != nil {
		_ = o.cmd.Process.Signal(s) // one that has ended shows elsewhere
	}
}

// kill ends the process as kill -9 does; everything it was told is lost with it.
func (o *origin) kill() {
	o.mu.Lock()
	cmd, pipe := o.cmd, o.pipe
	o.cmd, o.in = nil, nil
	o.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	_ = pipe.Close()
	_ = cmd.Wait() // it says that it was killed
}
