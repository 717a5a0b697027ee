package redteam

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// raw is an HTTP/2 connection on which anything may be said. One goroutine writes; another reads
// and counts, and answers what must be answered for the server to go on.
type raw struct {
	net.Conn
	framer *http2.Framer
	table  *hpack.Encoder
	block  bytes.Buffer
	next   uint32 // id of the next stream
	path   string // that is asked for

	gone  chan struct{} // closed when nothing more can be read
	calm  atomic.Bool   // the server said ENHANCE_YOUR_CALM
	ended atomic.Int64  // streams that the server ended or reset
}

// pollPath is what is polled.
const pollPath = "/v3/discovery:clusters"

// dialRaw connects and says hello.
func dialRaw(ctx context.Context, t target) (*raw, error) {
	conn, err := dialFrom(t.From)(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	c := &raw{Conn: conn, framer: http2.NewFramer(conn, conn), next: 1, gone: make(chan struct{})}
	c.table = hpack.NewEncoder(&c.block)
	if c.path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"; t.Polls {
		c.path = pollPath
	}
	go c.read()
	if _, err = conn.Write([]byte(http2.ClientPreface)); err == nil {
		err = c.framer.WriteSettings()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close ends the connection and waits for its reader.
func (c *raw) close() {
	_ = c.Close()
	<-c.gone
}

func (c *raw) read() {
	defer close(c.gone)
	framer := http2.NewFramer(nil, c.Conn)
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.RSTStreamFrame:
			c.ended.Add(1)
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				c.ended.Add(1)
			}
		case *http2.GoAwayFrame:
			c.calm.Store(c.calm.Load() || f.ErrCode == http2.ErrCodeEnhanceYourCalm)
		}
	}
}

// headers are the frames' bytes of a call's headers, with more of them as name and value in turn.
func (c *raw) headers(more ...string) []byte {
	c.block.Reset()
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: c.path},
		{Name: ":authority", Value: "weir"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		_ = c.table.WriteField(f) // to memory
	}
	for i := 0; i < len(more); i += 2 {
		_ = c.table.WriteField(hpack.HeaderField{Name: more[i], Value: more[i+1]})
	}
	return bytes.Clone(c.block.Bytes())
}

// call opens a stream, with the header block in as many frames as it needs.
func (c *raw) call(block []byte) (uint32, error) {
	const most = 16 << 10
	id := c.next
	c.next += 2
	first := block[:min(most, len(block))]
	rest := block[len(first):]
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		part := rest[:min(most, len(rest))]
		rest = rest[len(part):]
		err = c.framer.WriteContinuation(id, len(rest) == 0, part)
	}
	return id, err
}

// message sends a gRPC message of these bytes, as far as one frame goes.
func (c *raw) message(id uint32, compressed bool, length uint32, b []byte) error {
	frame := make([]byte, 5, 5+len(b))
	if compressed {
		frame[0] = 1
	}
	binary.BigEndian.PutUint32(frame[1:], length)
	return c.framer.WriteData(id, false, append(frame, b...))
}

// patient bounds a write: a server that does not read any more is no reason to hang.
func (c *raw) patient() { _ = c.SetWriteDeadline(time.Now().Add(time.Second)) }
