package downstream

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestSilentOnCompression: a client that has no grpc-accept-encoding, as Envoy has none, gets what
// is not compressed, also if it compresses its requests, and its writer does not make way for
// another one as if it had to compress.
func TestSilentOnCompression(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	conn, err := net.Dial("tcp", l.net.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(compressedCall(t)); err != nil {
		t.Fatal(err)
	}
	l.asked(t, 1)
	l.say(cds, "a=1")
	frames := http2.NewFramer(nil, conn)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		h, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			continue
		}
		for _, field := range h.Fields {
			if field.Name == "grpc-encoding" && field.Value != "identity" {
				t.Errorf("the answer is compressed: %s", field.Value)
			}
		}
		break
	}
	if l.server.list()[0].compressed {
		t.Error("the stream is taken for one whose answers are compressed")
	}
}

// compressedCall is the bytes of a call with a compressed request, by a client that does not say
// what it takes.
func compressedCall(t *testing.T) []byte {
	t.Helper()
	var wire, head, body bytes.Buffer
	z := gzip.NewWriter(&body)
	if _, err := z.Write(encoded(t, &discoveryv3.DeltaDiscoveryRequest{
		Node: relaytest.Node("envoy-1", "edge"), TypeUrl: cds, ResourceNamesSubscribe: []string{"a"},
	})); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	e := hpack.NewEncoder(&head)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", xds.ADS.Method(true)},
		{":authority", "weir"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"grpc-encoding", "gzip"},
	} {
		// a buffer takes everything, here and below
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	frames := http2.NewFramer(&wire, nil)
	wire.WriteString(http2.ClientPreface)
	_ = frames.WriteSettings()
	_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true})
	message := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(body.Len())), body.Bytes()...)
	_ = frames.WriteData(1, false, message)
	return wire.Bytes()
}
