package downstream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// squeezed is a client whose requests are compressed.
func squeezed(t *testing.T, l *live) *relaytest.Client {
	t.Helper()
	return l.open(t, relaytest.ClientConfig{Dialect: relaytest.SotW}, grpc.WithDefaultCallOptions(grpc.UseCompressor("gzip")))
}

// TestLongCompressedRequestsTakeTurns: one at a time becomes long, and is taken in before the next
// does. Short ones do not wait, nor does one whose stream ends.
func TestLongCompressedRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.NameBytes = 1 << 20 })
		if l.server.intake.inflating.join(nil, 1) != nil {
			t.Fatal("somebody is at it")
		}
		long := strings.Repeat("x", freeInflation+1)
		first, gone, short := squeezed(t, l.live), squeezed(t, l.live), squeezed(t, l.live)
		first.Subscribe(eds, long)
		gone.Subscribe(eds, long+"y")
		synctest.Wait()
		short.Subscribe(eds, "a")
		synctest.Wait()
		l.asked(t, 1)
		gone.Cancel()
		synctest.Wait()
		if n := len(l.server.Clients()); n != 2 {
			t.Errorf("%d streams are there, want those of two clients", n)
		}
		l.server.intake.inflating.leave(1)
		synctest.Wait()
		l.asked(t, 2)
		if l.server.intake.inflating.join(nil, 1) != nil {
			t.Error("the turn is not given back")
		}
	})
}

// TestCompressedRequestLimit: a request that becomes too long is inflated no further, and refused
// by the name of the limit (TRANS-10, ERR-7). The next long one has its turn.
func TestCompressedRequestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.RequestBytes, l.NameBytes = 1<<20, 1<<20 })
		for n := range 3 {
			c := squeezed(t, l.live)
			c.Subscribe(eds, strings.Repeat("x", 1<<20))
			c.AwaitEnd("a request that becomes too long")
			if status.Code(c.Err()) != codes.ResourceExhausted || !strings.Contains(c.Err().Error(), "limits.request_bytes 1048576") {
				t.Errorf("bomb %d: %v", n, c.Err())
			}
		}
		good := squeezed(t, l.live)
		good.Subscribe(eds, strings.Repeat("x", 1<<20-1000))
		l.asked(t, 1)
	})
}

// TestBadGzip: a message that says it is compressed, and is not, is refused as what it is.
func TestBadGzip(t *testing.T) {
	if _, err := (laterGzip{}).Do(strings.NewReader("\x0a\x01a")); err == nil {
		t.Error("what is not compressed is taken for it")
	}
	r := newRig(t)
	whole := zipped(t, "\x1a\x01a")
	for name, wire := range map[string][]byte{
		"half of a head": whole[:3], "no end": whole[:len(whole)-1], "another sum": append(whole[:len(whole)-1:len(whole)-1], 0xff),
	} {
		in := newSession(r.set, true, r.now, relay.NewSubscriber()).newRequest()
		in.ctx, in.intake = t.Context(), newIntake(r.table)
		if err := (codec{in.intake}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, in); err != nil || in.err == nil || in.content != nil {
			t.Errorf("%s: %v, %v", name, err, in.err)
		}
		if code := status.Code(undecoded(in.err)); code != codes.InvalidArgument {
			t.Errorf("%s: %v", name, code)
		}
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestOtherCompressedMessages: those that are no discovery requests are inflated too, and bounded.
func TestOtherCompressedMessages(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	api := healthpb.NewHealthClient(l.net.Connect(t))
	if _, err := api.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.UseCompressor("gzip")); err != nil {
		t.Error(err)
	}
	_, err := api.Check(t.Context(), &healthpb.HealthCheckRequest{Service: strings.Repeat("x", 64)}, grpc.UseCompressor("gzip"))
	if status.Code(err) != codes.NotFound {
		t.Errorf("a service that is not there: %v", err)
	}
	_, err = api.Check(t.Context(), &healthpb.HealthCheckRequest{Service: strings.Repeat("x", freeInflation)}, grpc.UseCompressor("gzip"))
	if err == nil || !strings.Contains(err.Error(), errTooLarge.Error()) {
		t.Errorf("a long one: %v", err)
	}

	text := strings.Repeat("x", freeInflation+1)
	for _, most := range []int{len(text), len(text) - 1} {
		report := loadReport{ctx: t.Context(), intake: l.server.intake, most: most}
		err := (codec{report.intake}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(zipped(t, text))}, &report)
		got := ""
		if report.buffer != nil {
			got = string(report.buffer.ReadOnlyData())
		}
		if whole := got == text; err != nil || whole != (most == len(text)) || whole == errors.Is(report.err, errTooLarge) {
			t.Errorf("a load report of which %d bytes may be: %d are read, %v, %v", most, len(got), report.err, err)
		}
		if report.intake.inflating.join(nil, 1) != nil {
			t.Fatal("its turn is not given back")
		}
		report.intake.inflating.leave(1)
	}
}
