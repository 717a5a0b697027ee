package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay/relaytest"
)

// patience is how long a condition may take to come true on a loaded machine.
const patience = 60 * time.Second

// running is a weir inside the test: what serve does, with its parts in reach.
type running struct {
	*process
	t      *testing.T
	logs   *observer.ObservedLogs
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned; err is set then
	err    error
}

// startWeir runs a weir until the test ends. The text is the configuration but
// for what says where to listen, which may be given as well.
func startWeir(t *testing.T, text string, with ...func(*process)) *running {
	t.Helper()
	r, err := tryWeir(t, text, with...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryWeir(t *testing.T, text string, with ...func(*process)) (*running, error) {
	t.Helper()
	cfg, err := config.Parse("weir.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	return openWeir(t, cfg, zap.New(core), logs, func(p *process) {
		for _, f := range with {
			f(p)
		}
	})
}

// runWeir is openWeir of a configuration that is in order.
func runWeir(t *testing.T, cfg *config.Config, log *zap.Logger, logs *observer.ObservedLogs, with func(*process)) *running {
	t.Helper()
	r, err := openWeir(t, cfg, log, logs, with)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// openWeir runs a weir until the test ends. With is what serve adds.
func openWeir(t *testing.T, cfg *config.Config, log *zap.Logger, logs *observer.ObservedLogs, with func(*process)) (*running, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := newProcess(ctx, cfg, log)
	if err != nil {
		cancel()
		return nil, err
	}
	with(p)
	r := &running{process: p, t: t, logs: logs, cancel: cancel, done: make(chan struct{})}
	go r.runIt(ctx)
	t.Cleanup(r.end)
	return r, nil
}

func (r *running) runIt(ctx context.Context) {
	r.err = r.run(ctx)
	close(r.done)
}

// end asks for the end and waits for it.
func (r *running) end() {
	r.t.Helper()
	r.cancel()
	r.waitEnd()
}

func (r *running) waitEnd() {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("weir does not end")
	}
	if r.err != nil {
		r.t.Errorf("weir ended with %v", r.err)
	}
	if err := r.table.Check(); err != nil {
		r.t.Errorf("the table is inconsistent: %v", err)
	}
}

func (r *running) listenAddress() string { return r.active.Load().ports[0].Addr().String() }

// ports is the part of a configuration that takes free ports.
const ports = `
listeners: [{ address: "127.0.0.1:0" }]
admin: { address: "127.0.0.1:0" }
`

// freePorts also leaves it to clients to ask the origins, so that what a test's origin is asked is
// theirs, however long it takes until they come.
const freePorts = "ready: { types: [] }" + ports

// get asks the admin port.
func (r *running) get(path string) (code int, body string) {
	r.t.Helper()
	return fetch(r.t, http.MethodGet, "http://"+r.admin.listener.Addr().String()+path)
}

// state decodes what the admin port says on a path.
func (r *running) state(path string, into any) {
	r.t.Helper()
	code, body := r.get(path)
	if code != http.StatusOK {
		r.t.Fatalf("%s: %d %s", path, code, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		r.t.Fatalf("%s: %v in %s", path, err, body)
	}
}

func fetch(t *testing.T, method, url string) (code int, body string) {
	t.Helper()
	code, body, err := tryFetch(t, method, url)
	if err != nil {
		t.Fatal(err)
	}
	return code, body
}

func tryFetch(t *testing.T, method, url string) (code int, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true // or the connection outlives the test
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// dial connects to a listener; without options in plain text.
func dial(t *testing.T, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(opts) == 0 {
		opts = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient("passthrough:///"+address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// openClient opens a stream of a recording client.
func openClient(t *testing.T, conn *grpc.ClientConn, dialect relaytest.Dialect) *relaytest.Client {
	t.Helper()
	c := relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: dialect, Patience: patience})
	c.Open(relaytest.Node("client-"+string(dialect), "edge"))
	return c
}

// await waits until a condition holds.
func await(t *testing.T, sentence string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never came true: %s", sentence)
		}
	}
}

// files is a directory of a files origin, filled by renaming.
type files string

func newFiles(t *testing.T) files { return files(t.TempDir()) }

func (f files) put(t *testing.T, name, text string) {
	t.Helper()
	next := filepath.Join(string(f), ".next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(string(f), name)); err != nil {
		t.Fatal(err)
	}
}

// clusters is a file with clusters of these names.
func clusters(names ...string) string {
	text := "resources:\n"
	for _, name := range names {
		text += fmt.Sprintf("- { \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: %s, connect_timeout: 1s }\n", name)
	}
	return text
}

// filesOrigin is the configuration of one.
func filesOrigin(f files) string {
	return fmt.Sprintf("origins: [{ name: disk, files: { path: %q } }]\n", string(f))
}

// controlPlane is the configuration of a control plane, retried quickly.
func controlPlane(address string) string {
	return fmt.Sprintf(`origins: [{ name: mesh, grpc: { addresses: [%q] } }]
timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms }, drain: 1s }
`, address)
}

// deadAddress is one where nobody listens, and that no other test takes meanwhile: its loopback
// address is its own.
func deadAddress(t *testing.T) string {
	t.Helper()
	n := relaytest.TCP()
	l, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return n.Addr()
}
