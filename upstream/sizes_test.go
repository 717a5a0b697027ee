package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestLongResponsesAreToldOfBefore: a line an hour for a type whose responses come near
// max_message, before one is over it (TRANS-10).
func TestLongResponsesAreToldOfBefore(t *testing.T) {
	in(t, options{config: func(c *Config) { c.MaxMessage = 10_000 }}, func(w *world) {
		const line = "longer than half of max_message"
		s := w.asked()
		send := func(bytes int) {
			t.Helper()
			s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", strings.Repeat("x", bytes))), "within the limit")
		}
		send(2_400)
		w.wantLines(0, line, "less than half")
		send(2_700)
		send(3_000)
		w.wantLines(1, line, "one line")
		time.Sleep(time.Hour)
		send(2_700)
		w.wantLines(2, line, "an hour later another")
	})
}

// TestRequestTheOriginDoesNotTake: what cannot be cut in SotW ends the stream, and the log says
// whose limit it is. In delta the same names go through.
func TestRequestTheOriginDoesNotTake(t *testing.T) {
	o := options{
		sotw:   true,
		origin: relaytest.OriginConfig{Options: []grpc.ServerOption{grpc.MaxRecvMsgSize(4096)}},
	}
	in(t, o, func(w *world) {
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("%0100d", i))
		}
		w.want(opaque, names...)
		s := w.origin.ExpectStream("weir asks")
		s.ExpectEnd("the request is too long")
		time.Sleep(time.Second)
		w.wantLines(1, "the origin takes no request of this length", "the log says why")
		w.wantLines(0, "max_message, and ended", "and blames no other limit")
	})
}

// TestManyNamesAreCut: 200,000 names go in messages below the 4 MiB a server takes by default, on
// the first request of a stream, in a later burst, and when they are given up (RELAY-41, TRANS-10).
func TestManyNamesAreCut(t *testing.T) {
	for _, a := range []relay.Ask{
		{TypeURL: opaque, First: true, Subscribe: manyNames(200_000)},
		{TypeURL: opaque, Subscribe: manyNames(200_000)},
		{TypeURL: opaque, Unsubscribe: manyNames(200_000), Subscribe: manyNames(1)},
	} {
		subscribed, unsubscribed := map[string]bool{}, map[string]bool{}
		ms := (&Config{}).deltaRequests(&a)
		for i, m := range ms {
			if size := proto.Size(m); size > firstRequestBytes {
				t.Errorf("message %d of %d has %d bytes", i, len(ms), size)
			}
			for _, name := range m.ResourceNamesSubscribe {
				subscribed[name] = true
			}
			for _, name := range m.ResourceNamesUnsubscribe {
				unsubscribed[name] = true
			}
		}
		if len(ms) < 2 || len(subscribed) != len(a.Subscribe) || len(unsubscribed) != len(a.Unsubscribe) {
			t.Errorf("%d messages subscribe %d and unsubscribe %d", len(ms), len(subscribed), len(unsubscribed))
		}
	}
}

func manyNames(n int) []relay.Name {
	names := make([]relay.Name, n)
	for i := range names {
		names[i].Name = fmt.Sprintf("cluster-%08d.namespace.svc.example.com", i)
	}
	return names
}
