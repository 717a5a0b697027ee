package file

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// patienceForTests bounds every wait; it is no delay, only the end of hope.
const patienceForTests = 30 * time.Second

// world is a table with one origin of files, and what it logs and counts.
type world struct {
	t        *testing.T
	dir      string
	table    *relay.Table
	origin   *Origin
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
	stop     func()
}

// newWorld runs an origin on a path below a fresh directory, which hold fills first.
func newWorld(t *testing.T, path string, hold map[string]string, edit ...func(*Config)) *world {
	t.Helper()
	return newWorldOf(t, relay.OriginConfig{Name: "files"}, path, hold, edit...)
}

func newWorldOf(t *testing.T, of relay.OriginConfig, path string, hold map[string]string, edit ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), registry: prometheus.NewRegistry()}
	for name, text := range hold {
		w.put(name, text)
	}
	// Files state that there is no more: if a set had to settle by a pause, nobody here would live
	// to see it.
	table, err := relay.New(relay.Config{Linger: -1, Settle: time.Hour, ColdWait: time.Hour, Origins: []relay.OriginConfig{of}})
	if err != nil {
		t.Fatal(err)
	}
	w.table = table
	core, logs := observer.New(zap.DebugLevel)
	w.logs = logs
	cfg := Config{
		Name: "files", Path: filepath.Join(w.dir, path), Log: zap.New(core), Metrics: metrics.New(w.registry),
		Debounce: 10 * time.Millisecond, Poll: time.Hour,
	}
	for _, e := range edit {
		e(&cfg)
	}
	if w.origin, err = New(cfg, table.Origin("files")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.origin.Run(ctx) }()
	w.stop = func() {
		cancel()
		if done == nil {
			return
		}
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
		done = nil
	}
	t.Cleanup(w.stop)
	return w
}

// put writes a file beside its place and renames it there.
func (w *world) put(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(beside, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.must(os.Rename(beside, path))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// wantStatus waits until the status is as said.
func (w *world) wantStatus(sentence string, is func(Status) bool) Status {
	w.t.Helper()
	late := time.After(patienceForTests)
	for {
		_, changed := w.origin.snapshot()
		st := w.origin.Status()
		if is(st) {
			return st
		}
		select {
		case <-changed:
		case <-late:
			w.t.Fatalf("%s; the status is %+v", sentence, st)
		}
	}
}

// wantError waits until a file has an error that holds part.
func (w *world) wantError(name, part string) FileStatus {
	w.t.Helper()
	var found FileStatus
	w.wantStatus(fmt.Sprintf("%s should be in error with %q", name, part), func(st Status) bool {
		for _, f := range st.Files {
			if filepath.Base(f.Path) == name && f.Error != "" && strings.Contains(f.Error, part) {
				found = f
				return true
			}
		}
		return false
	})
	return found
}

// wantNoErrors waits until everything is in order.
func (w *world) wantNoErrors() {
	w.t.Helper()
	w.wantStatus("everything should be in order", func(st Status) bool {
		return st.Error == "" && !slices.ContainsFunc(st.Files, func(f FileStatus) bool { return f.Error != "" })
	})
}

// loads is weir_file_loads_total by result.
func (w *world) loads(result string) int { return w.counted("weir_file_loads_total", result) }

// counted is the counter of a metric with a label's value; "": the origin's.
func (w *world) counted(metric, value string) int {
	w.t.Helper()
	if value == "" {
		value = "files"
	}
	families, err := w.registry.Gather()
	w.must(err)
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == value {
					return int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return 0
}

// client is one delta stream-type on the table, and what it was told.
type client struct {
	w       *world
	group   *relay.Group
	owner   *relay.Subscriber
	sub     *relay.Sub
	has     map[string]string // payload by name
	removed []string
	missing []string // names of the notices that an alias does not resolve
	answers int
}

func (w *world) subscribe(typeURL string, names ...string) *client {
	w.t.Helper()
	return w.resume(typeURL, nil, names...)
}

// resume subscribes as a client that holds something.
func (w *world) resume(typeURL string, initial map[string]string, names ...string) *client {
	w.t.Helper()
	g, err := w.table.Origin("files").Group(nil)
	w.must(err)
	c := &client{w: w, group: g, owner: relay.NewSubscriber(), has: map[string]string{}}
	c.sub = g.Open(c.owner, relay.SubOptions{TypeURL: typeURL, Delta: true, Initial: initial})
	c.sub.Update(time.Now(), names, nil)
	w.t.Cleanup(c.close)
	return c
}

func (c *client) close() {
	if c.sub == nil {
		return
	}
	c.sub.Close(time.Now())
	c.group.Release(time.Now())
	c.sub = nil
}

// take takes what there is, and reports whether there was anything.
func (c *client) take() bool {
	if !c.sub.Pending() {
		return false
	}
	a := c.sub.Take(time.Now())
	if a == nil {
		return false
	}
	c.answers++
	if a.Body != nil {
		for _, v := range a.Variants {
			if v.Notice() {
				c.missing = append(c.missing, v.Name)
				continue
			}
			c.has[v.Name] = string(v.Any())
		}
		for _, name := range a.Removed {
			delete(c.has, xds.NameKey(name))
			c.removed = append(c.removed, name)
		}
	}
	c.sub.Ack(a.Receipt())
	return true
}

// want waits until the client holds exactly these names.
func (c *client) want(sentence string, names ...string) {
	c.w.t.Helper()
	slices.Sort(names)
	c.until(sentence, func() bool {
		return c.answers > 0 && slices.Equal(slices.Sorted(maps.Keys(c.has)), names)
	})
}

func (c *client) until(sentence string, is func() bool) {
	c.w.t.Helper()
	late := time.After(patienceForTests)
	for {
		for c.take() {
		}
		if is() {
			return
		}
		select {
		case <-c.owner.Wake():
		case <-late:
			c.w.t.Fatalf("%s; the client has %q, was told of the removal of %q, in %d answers",
				sentence, slices.Sorted(maps.Keys(c.has)), c.removed, c.answers)
		}
	}
}

// wantNothing says that the client was told nothing so far. What must have happened before it is
// waited for by the caller.
func (c *client) wantNothing(sentence string) {
	c.w.t.Helper()
	if c.take() {
		c.w.t.Fatalf("%s; the client has %q, was told of the removal of %q",
			sentence, slices.Sorted(maps.Keys(c.has)), c.removed)
	}
}

// cluster is a cluster in YAML, as an item of a list.
func cluster(name string, seconds int) string {
	return fmt.Sprintf("- \"@type\": %s\n  name: %s\n  connect_timeout: %ds\n", xds.ClusterType, name, seconds)
}

func endpoints(name string) string {
	return fmt.Sprintf("- \"@type\": %s\n  cluster_name: %s\n", xds.EndpointType, name)
}

// until waits for something that comes with a load.
func (w *world) until(sentence string, is func() bool) {
	w.t.Helper()
	w.wantStatus(sentence, func(Status) bool { return is() })
}

func route(name string) string {
	return fmt.Sprintf("- \"@type\": %s\n  name: %s\n", xds.RouteType, name)
}
