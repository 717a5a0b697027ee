package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
)

// listener reads a stream of events.
type listener struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Reader
}

func listen(t *testing.T, base string) *listener {
	t.Helper()
	answer, err := http.Get(base + "/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return &listener{t, answer, bufio.NewReader(answer.Body)}
}

// next returns the next event's name and data; "": the stream has ended.
func (l *listener) next() (name, data string) {
	for {
		line, err := l.lines.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		switch {
		case err != nil:
			return "", ""
		case line == "":
			return name, data
		}
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			name = text
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			data = text
		}
	}
}

// served is a port over TCP, so that streams are streams.
func served(t *testing.T, w *world) (*Admin, string) {
	t.Helper()
	a, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(a.Handler())
	t.Cleanup(s.Close)
	return a, s.URL
}

// TestEvents: a page is told what has changed, with the time; all pages share one computation, and
// none is made while nobody listens.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	var computed, nodes atomic.Int64
	clients := w.cfg.Clients
	w.cfg.Clients = func() []downstream.ClientStatus {
		computed.Add(1)
		return append(clients(), make([]downstream.ClientStatus, nodes.Load())...)
	}
	_, base := served(t, w)
	pages := []*listener{listen(t, base), listen(t, base), listen(t, base)}
	for _, p := range pages {
		if kind := p.answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
			t.Errorf("it is %s", kind)
		}
		name, data := p.next()
		var o Overview
		if err := json.Unmarshal([]byte(data), &o); err != nil || name != "overview" || o.At.IsZero() || o.Name != "weir" || o.State != Good {
			t.Errorf("%s %s: %v", name, data, err)
		}
	}
	if n := computed.Load(); n != 1 {
		t.Errorf("computed %d times for the first events", n)
	}
	nodes.Store(5)
	for _, p := range pages {
		if name, data := p.next(); name != "overview" || !strings.Contains(data, `"clients":5,`) {
			t.Errorf("%s %s", name, data)
		}
		_ = p.answer.Body.Close()
	}
	if n := computed.Load(); n > 3 {
		t.Errorf("computed %d times for the second", n)
	}
}

// TestEventsEnd: streams end with Run, and no more than there are rooms are served.
func TestEventsEnd(t *testing.T) {
	w := newWorld(t)
	a, base := served(t, w)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- a.Run(ctx) }()
	all := make([]*listener, mostEvents)
	for i := range all {
		all[i] = listen(t, base)
		if name, _ := all[i].next(); name != "overview" {
			t.Fatalf("stream %d begins with %q", i, name)
		}
	}
	if one := listen(t, base); one.answer.StatusCode != http.StatusServiceUnavailable || one.answer.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d", one.answer.StatusCode)
	}
	_ = all[0].answer.Body.Close()
	for range 200 { // the server hears of it in a moment
		if one := listen(t, base); one.answer.StatusCode == http.StatusOK {
			all[0] = one
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	for i, l := range all {
		for {
			name, _ := l.next()
			if name == "" {
				break
			}
			if name != "overview" && name != "beat" {
				t.Errorf("stream %d: %q", i, name)
			}
		}
	}
}

// TestEventsAreSilentNeverLong: where nothing changes there is a beat, which a page takes for life,
// and a stream ends by itself, so that its reader is asked again who it is.
func TestEventsAreSilentNeverLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, err := New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		rec := ask(a, http.MethodGet, "/events")
		if d := time.Since(began); d < leaseFor || d > leaseFor+2*eventsBeat {
			t.Errorf("it ended after %s", d)
		}
		if beats := strings.Count(rec.Body.String(), "event: beat\n"); beats < int(leaseFor/eventsBeat)-3 {
			t.Errorf("%d beats", beats)
		}
		if n := strings.Count(rec.Body.String(), "event: overview\n"); n != 1 {
			t.Errorf("%d overviews, though nothing changed", n)
		}
	})
}

// TestEventsOfWhoMayNoMore: the token changes, and the streams of those who had the old one end.
func TestEventsOfWhoMayNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.TokenFile = tokenFile(t, "hush")
		a, err := New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(time.Minute, func() {
			if err := os.WriteFile(w.cfg.TokenFile, []byte("new"), 0o600); err != nil {
				t.Error(err)
			}
		})
		want(t, ask(a, http.MethodGet, "/events", bearer("hush")), http.StatusOK, "event: overview")
		if d := time.Since(began); d < time.Minute || d > time.Minute+2*eventsBeat {
			t.Errorf("it ended after %s", d)
		}
	})
}

// TestSlowReaderOfEvents: who does not read is dropped, and holds up nobody.
func TestSlowReaderOfEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a write that does not end")
	}
	w := newWorld(t)
	var n atomic.Int64
	w.cfg.Clients = func() []downstream.ClientStatus {
		return []downstream.ClientStatus{{NodeID: strings.Repeat("x", 4<<20), Types: []downstream.TypeStatus{{UnsyncedSince: time.Unix(n.Add(1), 0)}}}}
	}
	a, base := served(t, w)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * eventsWrite)
	seen := false
	for len(a.eventRooms) > 0 || !seen {
		seen = seen || len(a.eventRooms) > 0
		if time.Now().After(deadline) {
			t.Fatal("it is still served")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestSeries: samples are taken in time, with rates, are bounded, and those of a time are given.
func TestSeries(t *testing.T) {
	s := &series{}
	s.heap[0].Name = "/memory/classes/heap/objects:bytes"
	at := time.Unix(1000, 0)
	o := &Overview{Clients: 4, Unsynced: 1, Nacking: 1, InSyncPercent: 75, WorstLag: 3, Origins: []OriginOverview{{Origin: Origin{Name: "mesh", Connected: true, Stale: 2, Streams: 3}}}}
	for i := range seriesKept + 5 {
		o.Origins[0].Revisions += 20
		s.take(o, metrics.Totals{Responses: float64(100 * i), Bytes: float64(5000 * i), Nacks: float64(10 * i), Ended: float64(i)}, at.Add(time.Duration(i)*seriesStep))
	}
	total, end := float64(seriesKept+4), at.Add((seriesKept+4)*seriesStep)
	if got := []int{s.endedSince(end.Add(-time.Minute), total+3), s.endedSince(end, total+3), s.endedSince(at, total), (&series{}).endedSince(at, 9)}; !slices.Equal(got, []int{9, 3, seriesKept - 1, 0}) {
		t.Errorf("ended in a minute, now, since the first sample, and without any: %v", got)
	}
	o.Origins = append(o.Origins, OriginOverview{Origin: Origin{Name: "edge"}})
	s.take(o, metrics.Totals{}, at.Add((seriesKept+5)*seriesStep)) // counters that went back are no rate
	c := columnsOf(s.since(time.Time{}))
	last := len(c.At) - 1
	if len(c.At) != seriesKept || c.At[0] != at.Add(6*seriesStep).Unix() || c.At[last] != at.Add((seriesKept+5)*seriesStep).Unix() {
		t.Fatalf("%d samples, %d to %d", len(c.At), c.At[0], c.At[last])
	}
	if c.Deliveries[0] != 10 || c.BytesSent[0] != 500 || c.NACKs[0] != 1 || c.Changes[0] != 2 || c.InSync[0] != 75 || c.Lag[0] != 3 || c.Streams[0] != 3 || c.Heap[0] == 0 {
		t.Errorf("the first: %v %v %v %v", c.Deliveries[0], c.BytesSent[0], c.NACKs[0], c.Changes[0])
	}
	if c.Deliveries[last] != 0 || *c.OriginColumns["mesh"].Connected[0] != 1 || *c.OriginColumns["mesh"].Stale[0] != 2 ||
		c.OriginColumns["edge"].Connected[0] != nil || *c.OriginColumns["edge"].Connected[last] != 0 {
		t.Errorf("the last: %v, %+v", c.Deliveries[last], c.OriginColumns)
	}
	if n := len(s.since(at.Add(seriesKept * seriesStep))); n != 5 {
		t.Errorf("%d samples of the last time, want 5", n)
	}
	w := newWorld(t)
	for _, query := range []string{"?since=x", "?since=-1s", "?sinse=1h", "?since=1"} {
		want(t, w.get("/series"+query), http.StatusBadRequest, "since")
	}
}

// TestRunTakesSamples: one at once and one each ten seconds, until its end.
func TestRunTakesSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, err := New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*seriesStep+time.Second)
		defer cancel()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
		if n := len(a.series.since(time.Time{})); n != 11 {
			t.Errorf("%d samples, want 11", n)
		}
		want(t, ask(a, http.MethodGet, "/series?since=35s"), http.StatusOK, `"step_seconds":10`, `"in_sync_percent":[100,100,100,100]`, `"mesh"`)
	})
}
