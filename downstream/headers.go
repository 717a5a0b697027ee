package downstream

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/grpc/metadata"
)

const (
	// headerList is how many bytes of decoded headers a stream may open with. grpc's default is 16
	// MiB, which a client gets out of 77 KB on the wire (TestLongHeaders). The headers of real
	// clients are below 2 KiB; a JWT adds up to 8.
	headerList = 16 << 10
	// streamHeaders is how many bytes of headers each of limits.new_streams_per_second stands for,
	// and what a stream with fewer counts.
	streamHeaders = 4 << 10
	// leastStreams is how many streams a second nobody waits for, but for their headers: where
	// fewer are admitted, a proxy whose clients come again and again is still read.
	leastStreams = 500
	// idleBytes is what a frame counts that carries nothing, beyond the idleFree that a connection
	// has within churnWindow: about what it costs beside a stream.
	idleBytes = 512
	idleFree  = 100
	// headerBurst is how many bytes a peer may be ahead of its pace, and headerAhead for how long.
	// All of them may come at once, and whoever else has something to say then waits until they are
	// dealt with: about 15 ms, be they 256 streams or 2,048 frames that carry nothing. Where it was
	// a second's worth at any pace, that was 100 ms.
	headerBurst = 1 << 20
	headerAhead = time.Second
	// headerWait is how long a connection waits at most: for it nobody is served on the connection.
	headerWait = arrivalWait
	// headerPeers bounds the peers that are remembered. One that is forgotten begins with a burst.
	headerPeers = 4096
	// headerField is what a field counts beside its name and its value (RFC 9113, 10.5.1).
	headerField = 32
)

// headerPace bounds how many bytes of headers the streams of one peer may open with in a second, on
// all its connections together. To decode them costs CPU before a stream can be refused, and
// garbage that the next collection has to find. So does each stream and each frame that carries
// nothing, however short (TestStreamsArePaced, TestChatterIsPaced). A connection beyond its pace is
// not read for so long.
type headerPace struct {
	mu     sync.Mutex // guards what follows; a leaf
	peers  *simplelru.LRU[peerKey, time.Time]
	rate   float64       // bytes a second
	burst  time.Duration // how far a peer may be ahead of it
	stream int           // bytes that a stream counts at least
}

func newHeaderPace(streamsPerSecond int) *headerPace {
	peers, err := simplelru.NewLRU[peerKey, time.Time](headerPeers, nil)
	if err != nil {
		panic(err) // our own bug: the size is positive
	}
	p := &headerPace{peers: peers}
	p.set(streamsPerSecond)
	return p
}

// set changes the pace, from the next stream on. It locks the pace.
func (p *headerPace) set(streamsPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = float64(streamsPerSecond) * streamHeaders
	p.burst = min(headerAhead, time.Duration(headerBurst/p.rate*float64(time.Second)))
	p.stream = streamHeaders * min(streamsPerSecond, leastStreams) / leastStreams
}

// least is how many bytes a stream counts at least. It locks the pace.
func (p *headerPace) least() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream
}

// pay counts bytes of headers of a peer, and returns how long its connection is to wait for them.
// It locks the pace.
func (p *headerPace) pay(now time.Time, peer peerKey, bytes int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	paid, _ := p.peers.Get(peer) // the time until which all that came is paid for
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

// paceHeaders has a connection not read for as long as its peer is beyond its pace with the headers
// of a new stream, and so many bytes beside them. What each stream counts is paid already (note).
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

// pace has a connection not read for as long as its peer is beyond its pace with so many bytes.
func (s *Server) pace(c *connection, who caller, bytes int) {
	if who.peer == nil {
		return
	}
	if wait := s.headers.pay(time.Now(), *who.peer, bytes); wait > 0 {
		c.framed.frames.pause(wait)
	}
}
