package upstream

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"
)

// seriesOf are the values of a metric's series that are not 0, by their label values but the origin; of
// a histogram the sum.
func seriesOf(t *testing.T, reg *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "origin" {
					labels = append(labels, l.GetValue())
				} else if l.GetValue() != "mesh" {
					t.Errorf("%s is of the origin %s", metric, l.GetValue())
				}
			}
			if v := m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum(); f.GetName() == metric && v != 0 {
				values[strings.Join(labels, " ")] = v
			}
		}
	}
	return values
}

// TestFailuresAreCountedByReason: what an origin does to a stream, or to a connection, is counted
// under one reason, so that a wrong token is told from a server that is down. There are no more
// failures than attempts.
func TestFailuresAreCountedByReason(t *testing.T) {
	ends := func(err error) func(*relaytest.Stream) {
		return func(s *relaytest.Stream) { s.End(err) }
	}
	dial := func(err error) func(*Config) {
		return func(c *Config) {
			c.Dial = func(context.Context, string) (net.Conn, error) { return nil, err }
		}
	}
	for name, row := range map[string]struct {
		does   func(*relaytest.Stream) // nil: no stream comes
		config func(*Config)
		want   string
	}{
		"a wrong token":           {ends(status.Error(codes.Unauthenticated, "who are you?")), nil, "unauthenticated"},
		"a token of no rights":    {ends(status.Error(codes.PermissionDenied, "you are not for us")), nil, "permission_denied"},
		"a server that drains":    {ends(status.Error(codes.Unavailable, "draining")), nil, "unavailable"},
		"another service":         {ends(status.Error(codes.Unimplemented, "unknown service")), nil, "unimplemented"},
		"too many streams":        {ends(status.Error(codes.ResourceExhausted, "too many")), nil, "limited"},
		"no reason":               {ends(nil), nil, "ended"},
		"a bug of the server":     {ends(status.Error(codes.Internal, "nil dereference")), nil, "other"},
		"garbage":                 {func(s *relaytest.Stream) { s.SendRaw([]byte("\xff\xff\xff")) }, nil, "bad_response"},
		"nobody listens":          {nil, dial(errors.New("dial tcp 10.0.0.1:1: connect: connection refused")), "refused"},
		"a name nobody knows":     {nil, dial(&net.DNSError{Err: "no such host", Name: "mesh", IsNotFound: true}), "dns"},
		"a network that is apart": {nil, dial(errors.New("dial tcp 10.0.0.1:1: connect: no route to host")), "unreachable"},
		"a token that is not there": {nil, func(c *Config) {
			c.TokenFile, c.TLS = "/nowhere/token", nil
		}, "credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			in(t, options{config: func(c *Config) {
				c.Metrics = metrics.New(reg)
				if row.config != nil && row.want != "credentials" {
					row.config(c)
				}
			}, late: true}, func(w *world) {
				if row.want == "credentials" { // only over TLS, which the bubble has not
					row.config(&w.up.cfg)
				}
				w.want(cds, "*")
				w.run()
				if row.does != nil {
					s := w.origin.ExpectStream("the first stream")
					s.Expect("its request")
					row.does(s)
				}
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				failures := seriesOf(t, reg, "weir_upstream_failures_total")
				if failures[row.want] == 0 || len(failures) != 1 {
					t.Errorf("failures are %v, want %s", failures, row.want)
				}
				if n := seriesOf(t, reg, "weir_upstream_attempts_total")[""]; n < failures[row.want] {
					t.Errorf("%v attempts, and %v", n, failures)
				}
				if st := w.status(); len(st.Lanes) != 1 || st.Lanes[0].Open {
					t.Errorf("a stream is wanted, and there is none: %+v", st.Lanes)
				}
			})
		})
	}
}

// TestAnswerIsMeasured: from a request that asks for something new until the next response of its
// type, and nothing else.
func TestAnswerIsMeasured(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	both(t, options{config: func(c *Config) {
		reg = prometheus.NewPedanticRegistry()
		c.Metrics = metrics.New(reg)
	}}, func(w *world) {
		took := func(sentence string, want float64) {
			t.Helper()
			synctest.Wait()
			if got := seriesOf(t, reg, "weir_upstream_answer_seconds")["cds"]; got < want || got > want+.5 {
				t.Errorf("%s: %v s, want %v", sentence, got, want)
			}
		}
		open := func(sentence string, since time.Time) {
			t.Helper()
			synctest.Wait()
			if got := w.status().Lanes[0].Types[0].UnansweredSince; got.Sub(since).Abs() > time.Second/2 {
				t.Errorf("%s: a question is open since %v, want %v", sentence, got, since)
			}
		}
		w.want(cds, "a")
		s := w.origin.ExpectStream("the stream")
		s.Expect("the request")
		took("before the answer", 0)
		open("before the answer", time.Now())
		time.Sleep(3 * time.Second)
		open("later", time.Now().Add(-3*time.Second))
		s.Respond(cds, "1", relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Cluster("a", time.Second)})
		s.Expect("the ACK")
		took("the answer", 3)
		open("the answer", time.Time{})
		time.Sleep(20 * time.Second)
		s.Respond(cds, "2", relaytest.Resource{Name: "a", Version: "2", Body: relaytest.Cluster("a", 2*time.Second)})
		s.Expect("the ACK")
		took("a change is no answer", 3)
		open("a change", time.Time{})
		w.want(cds, "b")
		s.Expect("the second request")
		open("the second request", time.Now())
		time.Sleep(4 * time.Second)
		s.Respond(cds, "3", relaytest.Resource{Name: "b", Version: "3", Body: relaytest.Cluster("b", time.Second)},
			relaytest.Resource{Name: "a", Version: "2", Body: relaytest.Cluster("a", 2*time.Second)})
		s.Expect("the ACK")
		took("the second answer", 7)
		w.want(cds, "c")
		s.Expect("the third request")
		s.End(nil)
		time.Sleep(time.Second / 10)
		open("there is no stream", time.Time{})
	})
}

// TestBytesAreCounted: those of the messages of each direction.
func TestBytesAreCounted(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	in(t, options{config: func(c *Config) { c.Metrics = metrics.New(reg) }}, func(w *world) {
		w.want(cds, "*")
		s := w.origin.ExpectStream("the stream")
		s.Expect("the request")
		bytes := func() map[string]float64 { synctest.Wait(); return seriesOf(t, reg, "weir_upstream_bytes_total") }
		before := bytes()
		if before["from_origin"] != 0 || before["to_origin"] == 0 {
			t.Errorf("before the answer: %v", before)
		}
		s.Respond(cds, "1", relaytest.Resource{Name: strings.Repeat("a", 1000), Version: "1", Body: relaytest.Cluster(strings.Repeat("a", 1000), time.Second)})
		s.Expect("the ACK")
		if after := bytes(); after["from_origin"] < 2000 || after["from_origin"] > 2500 || after["to_origin"] <= before["to_origin"] || len(after) != 2 {
			t.Errorf("after the answer: %v, and before %v", after, before)
		}
	})
}
