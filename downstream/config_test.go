package downstream

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestConfig: defaults are as documented, and every problem is named.
func TestConfig(t *testing.T) {
	r := newRig(t)
	s, err := New(Config{Table: r.table, Instance: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.cfg.Limits, (Limits{
		Connections: math.MaxInt32, ConnectionsPerPeer: math.MaxInt32, ConnectionIdle: 5 * time.Minute,
		Streams: 50000, StreamsPerConnection: 100, StreamsPerIdentity: math.MaxInt32, NewStreamsPerSecond: 2000,
		RequestsPerSecond: 20000, NACKsPerSecond: 100, NamesPerStream: 1000000, NewNamesPerSecond: 50000,
		ParameterSets: 64, NameBytes: 64 << 10, RequestBytes: 32 << 20,
	}); got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
	want := Timing{
		10 * time.Second, 500 * time.Millisecond, 0, 10 * time.Minute, 30 * time.Second, 800 * time.Millisecond, 0, 0,
		Keepalive{30 * time.Second, 10 * time.Second, 10 * time.Second},
	}
	if got := s.cfg.Timing; got != want {
		t.Errorf("timing %+v, want %+v", got, want)
	}
	_, err = New(Config{Timing: Timing{ColdWait: 15 * time.Second, OrderHold: -1, Coalesce: 11 * time.Second, MaxStreamAge: -1, RESTWait: -1, RESTHold: -1}, Limits: Limits{Streams: -1}})
	for _, text := range []string{"table", "instance", "timing.cold_wait", "timing.order_hold", "timing.coalesce", "timing.max_stream_age", "timing.rest_wait", "timing.rest_hold"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not name %s", err, text)
		}
	}
	other := newRig(t)
	for _, lc := range []ListenerConfig{{}, {Origin: other.origin}} {
		l, err := relaytest.Memory().Listen()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(l, lc); err == nil || !strings.Contains(err.Error(), "origin") {
			t.Errorf("%+v is served: %v", lc, err)
		}
	}
	s.Stop()
	s.Stop()
}
