package downstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// bombs are requests that need a multiple of their size once they are decoded: 15 million empty
// elements are 30 KB compressed. Numbers of fields are those of delta, and of SotW.
func bombs(delta bool, n int) map[string][]byte {
	node, names, locators, detail := 2, 3, 7, 6
	if delta {
		node, locators, detail = 1, 8, 7
	}
	inNode := func(number int, value []byte, n int) []byte {
		return relaytest.Field(num(node), relaytest.Repeated(num(number), value, n))
	}
	value := relaytest.Field(6, relaytest.Repeated(1, nil, n)) // a list of values that are not set
	all := map[string][]byte{
		"names":        relaytest.Repeated(num(names), nil, n),
		"locators":     relaytest.Repeated(num(locators), nil, n),
		"parameters":   relaytest.Field(num(locators), relaytest.Repeated(2, nil, n)),
		"details":      relaytest.Field(num(detail), relaytest.Repeated(3, nil, n)),
		"extensions":   inNode(9, nil, n),
		"features":     inNode(10, nil, n),
		"addresses":    inNode(11, nil, n),
		"metadata":     relaytest.Field(num(node), relaytest.Field(3, relaytest.Repeated(1, nil, n))),
		"list":         relaytest.Field(num(node), relaytest.Field(3, relaytest.Field(1, relaytest.Field(2, value)))),
		"typed":        relaytest.Field(num(node), relaytest.Repeated(12, nil, n)),
		"nodes":        relaytest.Repeated(num(node), relaytest.Field(4, nil), n),
		"deep":         relaytest.Field(num(node), relaytest.Field(3, relaytest.Nested(1, n))),
		"unknown":      relaytest.Field(num(node), relaytest.Repeated(1000, nil, n)),
		"unknown, top": relaytest.Repeated(1000, nil, n),
	}
	if delta {
		all["unsubscribe"], all["versions"] = relaytest.Repeated(4, nil, n), relaytest.Repeated(5, nil, n)
		all["locators left"] = relaytest.Repeated(9, nil, n)
	}
	return all
}

// TestBombs: no request of a client takes more memory than is promised, whatever it repeats, and
// what is too much is refused with the name of the limit (ERR-7). The process was killed by one of
// them, in a pod of 1 GiB.
func TestBombs(t *testing.T) {
	const n, limit = 2_000_000, 8 << 20
	for _, delta := range []bool{false, true} {
		for name, wire := range bombs(delta, n) {
			for _, zipped := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, delta %v, gzip %v", name, delta, zipped), func(t *testing.T) {
					rig := newRig(t)
					rig.set.limits.RequestBytes, rig.set.limits.NamesPerStream = limit, 10_000
					rig.table.Measured(0, 1<<30)
					s := newSession(rig.set, delta, time.Now(), relay.NewSubscriber())
					defer s.close(time.Now())
					r, in := s.newRequest(), newIntake(rig.table)
					r.ctx, r.intake = t.Context(), in
					typeURL := 4
					if delta {
						typeURL = 2
					}
					full := append(slices.Clip(wire), relaytest.Field(num(typeURL), []byte(eds))...)
					if zipped {
						full = gzipped(full)
					}
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					_ = codec{in}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(full)}, r)
					err := r.err
					if err == nil {
						err = s.request(time.Now(), r)
					}
					r.done()
					r.leave()
					runtime.ReadMemStats(&after)
					if used := after.TotalAlloc - before.TotalAlloc; used > decodedShare*limit {
						t.Errorf("%d MiB are used for %d bytes: %v", used>>20, len(full), err)
					}
					if !in.parts.tryEnter(intakeParts) || !in.inflating.tryEnter(1) {
						t.Error("the intake is not given back")
					}
				})
			}
		}
	}
}

// TestBombsEndTheirStream: the status says what is too much.
func TestBombsEndTheirStream(t *testing.T) {
	l := newLive(t, relaytest.TCP(), func(c *Config, _ *ListenerConfig) {
		c.Limits.RequestBytes, c.Limits.NamesPerStream = 8<<20, 10_000
	})
	for name, want := range map[string]string{
		"locators": "limits.request_bytes 8388608 is reached: decoded, a request needs more than 4 times that",
		"list":     "node: it has",
		"names":    "limits.",
	} {
		c := l.open(t, relaytest.ClientConfig{})
		c.SendRaw(append(bombs(true, 2_000_000)[name], relaytest.Field(2, []byte(eds))...))
		code := c.AwaitEnd(name)
		if code != codes.ResourceExhausted && code != codes.InvalidArgument || !strings.Contains(status.Convert(c.Err()).Message(), want) {
			t.Errorf("%s: ended with %v, want %q", name, c.Err(), want)
		}
	}
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func num(n int) protowire.Number { return protowire.Number(n) } //nolint:gosec // a small one

// TestNothingIsReadOfTheDenied: a client that no rule names is refused before it has sent anything,
// on a stream of discovery and on one of load reports.
func TestNothingIsReadOfTheDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, authz.Rule{Who: []string{"spiffe://corp/*"}})
		for n, method := range []string{"", relaytest.LoadMethod} {
			c := relaytest.NewClient(t, a.net.Connect(t), relaytest.ClientConfig{Dialect: relaytest.Delta, Method: method})
			c.Open(nil)
			if code := c.AwaitEnd("no rule names it"); code != codes.PermissionDenied {
				t.Errorf("%q: ended with %v", method, c.Err())
			}
			a.decided(t, 0, 0, uint64(n+1))
		}
	})
}

// TestLoadBombs: a load report that needs much more than its size is refused before it is passed on.
func TestLoadBombs(t *testing.T) {
	l := newLive(t, relaytest.TCP(), func(c *Config, _ *ListenerConfig) {
		c.LoadReports = func(context.Context, *relay.Origin, []string, string, []byte) (LoadStream, error) {
			t.Error("the report is passed on")
			return nil, status.Error(codes.Internal, "it should not be")
		}
	})
	const n = 2_000_000
	for name, wire := range map[string][]byte{
		"clusters":   relaytest.Repeated(2, nil, n),
		"localities": relaytest.Field(2, relaytest.Repeated(2, nil, n)),
		"endpoints":  relaytest.Field(2, relaytest.Field(2, relaytest.Repeated(7, nil, n))),
		"metadata":   relaytest.Field(1, relaytest.Field(3, relaytest.Repeated(1, nil, n))),
		"deep":       relaytest.Field(1, relaytest.Field(3, relaytest.Nested(1, n))),
	} {
		t.Run(name, func(t *testing.T) {
			c := relaytest.NewClient(t, l.net.Connect(t), relaytest.ClientConfig{Method: relaytest.LoadMethod})
			c.Open(nil)
			used := liveAllocated(func() {
				c.SendRaw(wire)
				if code := c.AwaitEnd(name); code != codes.InvalidArgument {
					t.Errorf("ended with %v", c.Err())
				}
			})
			if used > 100<<20 {
				t.Errorf("%d MiB were used", used>>20)
			}
		})
	}
}

// liveAllocated is how many bytes are allocated while f runs.
func liveAllocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
