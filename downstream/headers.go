package downstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

const (
	// headerList bounds the decoded headers of a stream, in bytes. grpc's default is 16 MiB, which
	// a client reaches with 77 KB on the wire (TestLongHeaders). Headers of real clients are below
	// 2 KiB; a JWT adds up to 8.
	headerList = 16 << 10
	// streamHeaders is the number of header bytes per stream that the pace allows for: a peer may
	// send limits.new_streams_per_second times as many in a second. A stream with fewer counts as
	// this many.
	streamHeaders = 4 << 10
	// leastStreams is the pace in streams a second, at least, even if limits.new_streams_per_second
	// is lower. So a proxy whose clients reconnect all the time is still read.
	leastStreams = 500
	// idleBytes is what a frame without content counts, in bytes of headers, beyond the first
	// idleFree of a connection within churnWindow. Its cost compares to that of a stream.
	idleBytes = 512
	idleFree  = 100
	// headerBurst is how many bytes a peer may be ahead of its pace, and headerAhead for how long.
	// They may come all at once, and other clients wait until they are processed: about 15 ms for
	// 256 streams, or for 2,048 frames without content. With a burst of one second's worth it was
	// 100 ms.
	headerBurst = 1 << 20
	headerAhead = time.Second
	// headerWait is the longest pause of a connection. No stream of the connection is served
	// meanwhile.
	headerWait = arrivalWait
	// headerPeers bounds the peers that are remembered. A forgotten peer starts with a full burst.
	headerPeers = 4096
	// headerField is added for each field to the length of name and value (RFC 9113, 10.5.1).
	headerField = 32
)

// headerPace limits the bytes of headers per second that the streams of one peer open with, on all
// its connections together. Headers cost CPU before a stream can be refused, and garbage for the
// next collection. So does each stream and each frame without content, however short
// (TestStreamsArePaced, TestChatterIsPaced). A connection beyond the pace is not read for a while.
type headerPace struct {
	mu     sync.Mutex // guards what follows; a leaf
	peers  *simplelru.LRU[peerKey, time.Time]
	rate   float64       // in bytes a second
	burst  time.Duration // how far a peer may be ahead of the rate
	stream int           // the fewest bytes that a stream counts
}

// newLRU remembers something of so many peers, a positive number.
func newLRU[V any](size int) *simplelru.LRU[peerKey, V] {
	peers, err := simplelru.NewLRU[peerKey, V](size, nil)
	if err != nil {
		panic(err) // our own bug
	}
	return peers
}

func newHeaderPace(streamsPerSecond int) *headerPace {
	p := &headerPace{peers: newLRU[time.Time](headerPeers)}
	p.set(streamsPerSecond)
	return p
}

// set changes the rate for streams to come. It locks the pace.
func (p *headerPace) set(streamsPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = float64(streamsPerSecond) * streamHeaders
	p.burst = min(headerAhead, time.Duration(headerBurst/p.rate*float64(time.Second)))
	p.stream = streamHeaders * min(streamsPerSecond, leastStreams) / leastStreams
}

// least returns the fewest bytes that a stream counts. It locks the pace.
func (p *headerPace) least() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream
}

// pay counts header bytes of a peer, and returns how long its connection has to pause. It locks the
// pace.
func (p *headerPace) pay(now time.Time, peer peerKey, bytes int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	paid, _ := p.peers.Get(peer) // when all that was counted is within the rate
	if earliest := now.Add(-p.burst); paid.Before(earliest) {
		paid = earliest
	}
	paid = paid.Add(time.Duration(float64(bytes) / p.rate * float64(time.Second)))
	if latest := now.Add(headerWait); paid.After(latest) {
		paid = latest
	}
	p.peers.Add(peer, paid)
	return max(0, paid.Sub(now))
}

// paceHeaders pauses a connection whose peer is beyond its pace, for the headers of a new stream
// and bytes more. The minimum per stream was counted already (note).
func (s *Server) paceHeaders(c *connection, who caller, headers metadata.MD, bytes int) {
	for name, values := range headers {
		for _, v := range values {
			bytes += len(name) + len(v) + headerField
		}
	}
	if more := bytes - s.headers.least(); more > 0 {
		s.pace(c, who, more)
	}
}

// pace counts bytes of a peer, and pauses the connection if the peer is beyond its pace.
func (s *Server) pace(c *connection, who caller, bytes int) {
	if who.peer == nil {
		return
	}
	if wait := s.headers.pay(time.Now(), *who.peer, bytes); wait > 0 {
		c.framed.frames.pause(wait)
	}
}

// call is the context of an RPC. grpc's own context keeps all headers for as long as the stream
// lasts: up to 40 KiB. This one keeps only what is read later, and ends when grpc's does
// (TestHeadersAreNotKept). The zero call never ends.
type call struct {
	done     <-chan struct{} // of grpc's context
	deadline time.Time       // zero: none
}

// Deadline implements context.Context.
func (c *call) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *call) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *call) Err() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Value implements context.Context. The values are in contexts around it: the peer, and the headers
// that are read later.
func (c *call) Value(any) any { return nil }

// mostKept is the longest header, in bytes, that may stay in grpc's context while the stream lasts.
const mostKept = 256

// newCall returns the context of a new RPC, made from grpc's own, with these headers of it.
func newCall(ctx context.Context, p *peer.Peer, info *tap.Info, headers ...string) (context.Context, error) {
	for _, name := range []string{"content-type", "grpc-accept-encoding"} {
		length := 0
		for _, value := range info.Header[name] {
			length += len(value)
		}
		if length > mostKept {
			return ctx, status.Error(codes.InvalidArgument, fmt.Sprintf("header %s: %d bytes, of at most %d", name, length, mostKept))
		}
	}
	deadline, _ := ctx.Deadline()
	own := peer.NewContext(&call{ctx.Done(), deadline}, p)
	kept := metadata.MD(nil)
	for _, key := range headers {
		if values := info.Header[key]; values != nil {
			if kept == nil {
				kept = metadata.MD{}
			}
			kept[key] = values
		}
	}
	if kept != nil {
		own = metadata.NewIncomingContext(own, kept)
	}
	return own, nil
}
