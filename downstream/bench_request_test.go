package downstream

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// BenchmarkRequest is a client's request of 200,000 names of 44 bytes, from the bytes on the wire
// to the table: the first of a stream, in a table that knows the names, and what follows each
// response, which is an ACK in delta and the whole list again in SotW. B/client is what the first
// one leaves on the heap.
func BenchmarkRequest(b *testing.B) {
	names := make([]string, 200_000)
	versions := map[string]string{}
	for i := range names {
		names[i] = fmt.Sprintf("cluster-%08d.some-namespace.svc.example.com", i)
		versions[names[i]] = "0123456789abcdef0123456789abcdef"
	}
	node := newRig(b).client(true).node
	for _, k := range []struct {
		name          string
		delta         bool
		first, second proto.Message
	}{
		{
			"delta", true,
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, Node: node, ResourceNamesSubscribe: names, InitialResourceVersions: versions},
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResponseNonce: "1"},
		},
		{
			"SotW", false,
			&discoveryv3.DiscoveryRequest{TypeUrl: eds, Node: node, ResourceNames: names, VersionInfo: "1"},
			&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: names, VersionInfo: "1", ResponseNonce: "1"},
		},
	} {
		r := newRig(b)
		keep := r.client(k.delta) // holds the names in the table
		takesIn(b, keep.session, keep.session.newRequest(), r.now, arrived(b, k.first))
		b.Run(k.name+"/first", func(b *testing.B) {
			first := arrived(b, k.first)
			before, sessions := heapInUse(), []*session{}
			b.ReportAllocs()
			for b.Loop() {
				s := newSession(r.set, k.delta, r.now, relay.NewSubscriber())
				takesIn(b, s, s.newRequest(), r.now, first)
				b.StopTimer()
				sessions = append(sessions, s)
				b.StartTimer()
			}
			b.ReportMetric(float64(first.Len()), "wire-B")
			b.ReportMetric(float64(heapInUse()-before)/float64(len(sessions)), "B/client")
			for _, s := range sessions {
				s.close(r.now)
			}
		})
		b.Run(k.name+"/next", func(b *testing.B) {
			next, in := arrived(b, k.second), keep.session.newRequest()
			b.ReportAllocs()
			for b.Loop() {
				takesIn(b, keep.session, in, r.now, next)
			}
		})
	}
}

// arrived is one as it arrives.
func arrived(b testing.TB, m proto.Message) mem.BufferSlice {
	return mem.BufferSlice{mem.SliceBuffer(encoded(b, m))}
}

// takesIn is what the reader does with a message.
func takesIn(b testing.TB, s *session, in *request, now time.Time, data mem.BufferSlice) {
	b.Helper()
	if err := (codec{}).Unmarshal(data, in); err != nil || in.err != nil {
		b.Fatal(err, in.err)
	}
	if err := s.request(now, in); err != nil {
		b.Fatal(err)
	}
	in.done()
}

// heapInUse is the heap in use after a collection.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkCompression is what gzip takes of a SotW response of 436 KB, which is the same for all
// clients but for its head: compressed for each stream, as it is done, against compressed once and
// shared, which would be a copy of what comes out.
func BenchmarkCompression(b *testing.B) {
	var body []byte
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := 0; len(body) < 436_000; i++ { // endpoints, about as repetitive as they are
		body = append(body, encoded(b, payload(eds, fmt.Sprintf("cluster-%04d", i),
			fmt.Sprintf("10.%d.%d.%d:%d healthy weight 1 locality region-a zone-%d", rnd.IntN(256), rnd.IntN(256), rnd.IntN(256),
				8000+rnd.IntN(1000), rnd.IntN(3))))...)
	}
	head := append(newResponseHeader(headerKey{typeURL: eds}, "here").bytes,
		(&draft{version: "0123456789abcdef0123456789abcdef"}).append(nil, (&headerKey{delta: false}).numbers(), 1)...)
	for name, level := range map[string]int{"per stream": stdgzip.DefaultCompression, "per stream, fastest": stdgzip.BestSpeed} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			out := bytes.Buffer{}
			z, err := stdgzip.NewWriterLevel(&out, level)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				out.Reset()
				z.Reset(&out) // the library keeps writers as well
				_, _ = z.Write(head)
				_, _ = z.Write(body)
				_ = z.Close()
			}
			b.ReportMetric(float64(len(head)+len(body)), "plain-B")
			b.ReportMetric(float64(out.Len()), "wire-B")
		})
	}
	b.Run("shared", func(b *testing.B) {
		b.ReportAllocs()
		shared := bytes.Buffer{}
		z := stdgzip.NewWriter(&shared)
		_, _ = z.Write(body)
		_ = z.Close()
		out, own := bytes.Buffer{}, stdgzip.NewWriter(nil)
		for b.Loop() {
			out.Reset()
			own.Reset(&out)
			_, _ = own.Write(head)
			_ = own.Flush()
			out.Write(shared.Bytes())
		}
	})
	b.Run("uncompressed", func(b *testing.B) {
		b.ReportAllocs()
		out := bytes.Buffer{}
		for b.Loop() {
			out.Reset()
			out.Write(head)
			out.Write(body)
		}
	})
}
