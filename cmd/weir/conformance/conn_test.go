package conformance

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// How connections and streams end: by silence, by blocking, by age and by a drain.
var connCases = []testCase{
	{"ERR-9 ERR-6", "a client that does not read is closed after send_stall, and another notices nothing", perDialect(stalls)},
	{"ERR-12", "virtual: dead peers are noticed in under a minute on both sides, and no client's pings are too many", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestSilentPeerIsFound")
		virtual(t, "../../../downstream", "TestClientsMayPing")
		virtual(t, "../../../downstream", "TestPingsArriveEarly")
		virtual(t, "../../../upstream", "TestBlackHoleIsNoticed")
		virtual(t, "../../../upstream", "TestTCPKeepalive")
		virtual(t, "../../../upstream", "TestKeepaliveOfADefaultServer")
		virtual(t, "../../../upstream", "TestTooManyPings")
	}},
	{"RELAY-58 ERR-6", "a drain tells every connection to go, and ends the streams spread over its time; nothing is withdrawn", perDialect(drains)},
	{"RELAY-59", "streams end between half and the whole of max_stream_age, after their connections were told to go", ages},
	{"RELAY-59", "virtual: and by the hour", func(t *testing.T) { virtual(t, "../../../downstream", "TestMaxStreamAge") }},
}

func stalls(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{edge: func(c weirtest.Config) { c.Set("timing.send_stall", "1s").Set("timing.order_hold", "100ms") }})
	body := strings.Repeat("x", 1<<20)
	put := func(version string) {
		w.origin.Set(opaque, "big", version, relaytest.Opaque("big", version+body))
	}
	put("1")
	blocked, reads := w.clientWith(relaytest.ClientConfig{Dialect: d, NeverRead: true}), w.client(d)
	blocked.Subscribe(opaque, "big")
	reads.Subscribe(opaque, "big")
	reads.Expect(opaque, "who reads is served")
	begin := time.Now()
	for version := 2; time.Since(begin) < 2*weirtest.Patience; version++ {
		put(string(rune('0' + version%10)))
		reads.Expect(opaque, "who reads is sent every change")
		if n, _ := w.weir.Metric("weir_downstream_streams"); n == 1 {
			break
		}
	}
	w.weir.AwaitMetric(1, "who does not read is closed", "weir_downstream_streams")
	w.weir.AwaitMetric(1, "and counted", "weir_downstream_stalled_total", `reason="send_stall"`)
	blocked.Read()
	if code := blocked.AwaitEnd("it reads at last"); code != codes.Unavailable {
		t.Errorf("its stream ended with %v", blocked.Err())
	}
	if reads.Err() != nil {
		t.Errorf("the other's stream ended with %v", reads.Err())
	}
	reads.CheckClean()
}

// leaving is a client, and when what happened to it.
type leaving struct {
	*relaytest.Client
	conn       *grpc.ClientConn
	told, gone time.Duration // to go, and that the stream has ended; 0: not yet
}

// crowd is clients on a connection each, which have been served.
func (w *world) crowd(n int, d relaytest.Dialect) []*leaving {
	w.t.Helper()
	all := make([]*leaving, n)
	for i := range all {
		conn := weirtest.Connect(w.t, w.weir.Addr)
		all[i] = &leaving{Client: newClient(w.t, conn, relaytest.ClientConfig{Dialect: d}), conn: conn}
		all[i].Open(relaytest.Node("client-1", "edge"))
		all[i].Subscribe(cds, "*")
	}
	for _, c := range all {
		c.AwaitNames(cds, "the client is served", "a")
	}
	return all
}

// observe notes what happens to clients until all streams have ended. each is called at each look.
func observe(t *testing.T, begin time.Time, all []*leaving, each func(open int)) {
	t.Helper()
	if !weirtest.Until(weirtest.Patience, func() bool {
		open := 0
		for _, c := range all {
			// grpc-go lets go of a connection that was told to go, though its streams go on.
			ended, ready := c.Err() != nil, c.conn.GetState() == connectivity.Ready
			if !ready && !ended && c.told == 0 {
				c.told = time.Since(begin)
			}
			if ended && c.gone == 0 {
				c.gone = time.Since(begin)
			}
			if !ended {
				open++
			}
		}
		each(open)
		return open == 0
	}) {
		t.Fatal("some streams do not end")
	}
}

func drains(t *testing.T, d relaytest.Dialect) {
	const many = 120 // which are ended over 1.2 s, a hundredth of a second for each
	w := start(t, setup{
		edge:   func(c weirtest.Config) { c.Set("timing.drain", "5s") },
		origin: func(o *relaytest.Origin) { o.Put(cds, cdsAt("a", 1)) },
	})
	all := w.crowd(many, d)
	resp, err := http.Post("http://"+w.weir.Admin+"/drain", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("POST /drain: %s", resp.Status)
	}
	begin, unready, refused := time.Now(), false, false
	observe(t, begin, all, func(open int) {
		if open == 0 {
			return
		}
		if !unready {
			_, err := weirtest.Fetch("http://" + w.weir.Admin + "/readyz")
			unready = err != nil && strings.Contains(err.Error(), "503")
		}
		if !refused {
			conn, err := net.Dial("tcp", w.weir.Addr)
			if refused = err != nil; !refused {
				_ = conn.Close() // the next look will find it closed to newcomers
			}
		}
	})
	if !unready || !refused {
		t.Errorf("while streams were open weir said it was not ready: %v, and refused new ones: %v", unready, refused)
	}
	told, first, last := 0, all[0].gone, all[0].gone
	for _, c := range all {
		if c.told != 0 {
			told++
		}
		first, last = min(first, c.gone), max(last, c.gone)
		if code := c.AwaitEnd("the stream ended"); code != codes.Unavailable {
			t.Errorf("a stream ended with %v", c.Err())
		}
		if n := c.Count(cds); n != 1 {
			t.Errorf("a client was sent %d responses, want the one at first: a drain withdraws nothing", n)
		}
		c.CheckClean()
	}
	if told < many/4 { // whoever looks may be late
		t.Errorf("%d of %d connections were told to go before their stream ended", told, many)
	}
	if last-first < 200*time.Millisecond {
		t.Errorf("%d streams end within %v", many, last-first)
	}
}

func ages(t *testing.T) {
	const many, age = 20, 4 * time.Second
	w := start(t, setup{
		edge:   func(c weirtest.Config) { c.Set("timing.max_stream_age", age.String()) },
		origin: func(o *relaytest.Origin) { o.Put(cds, cdsAt("a", 1)) },
	})
	time.Sleep(age) // soon after its start it ends them sooner
	opened := time.Now()
	all := w.crowd(many, relaytest.Delta)
	opening := time.Since(opened)
	observe(t, opened, all, func(int) {})
	told := 0
	for _, c := range all {
		// it should be the age itself, and the machine may be loaded
		if c.gone < age*45/100 || c.gone > opening+5*age {
			t.Errorf("a stream ended %v after the first was opened, and all were after %v; want it in the second half of %v", c.gone, opening, age)
		}
		if c.told != 0 {
			told++
		}
		if code := c.AwaitEnd("the stream ended"); code != codes.Unavailable {
			t.Errorf("it ended with %v", c.Err())
		}
		c.CheckClean()
	}
	if told == 0 { // at least 200 ms lie between the two, but for the last streams
		t.Errorf("%d of %d connections were told to go before their stream ended", told, many)
	}
	back := all[0]
	back.Open(relaytest.Node("client-1", "edge"))
	back.Resume(cds)
	if r := back.Expect(cds, "it comes back"); len(r.Items) != 0 {
		t.Errorf("a client that comes back with what is current is sent %v", r)
	}
}
