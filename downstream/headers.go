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
	// streamHeaders is how many bytes of headers each of limits.new_streams_per_second stands for.
	streamHeaders = 4 << 10
	// headerBurst is how far a peer may be ahead of its pace.
	headerBurst = time.Second
	// headerWait is how long a connection waits at most: for it nobody is served on the connection.
	headerWait = arrivalWait
	// headerPeers bounds the peers that are remembered. One that is forgotten begins with a burst.
	headerPeers = 4096
	// headerField is what a field counts beside its name and its value (RFC 9113, 10.5.1).
	headerField = 32
)

// headerPace bounds how many bytes of headers the streams of one peer may open with in a second, on
// all its connections together. To decode them costs CPU before a stream can be refused, and
// garbage that the next collection has to find. A connection beyond its pace is not read for so
// long.
type headerPace struct {
	mu    sync.Mutex // guards what follows; a leaf
	peers *simplelru.LRU[peerKey, time.Time]
	rate  float64 // bytes a second
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
}

// pay counts bytes of headers of a peer, and returns how long its connection is to wait for them.
// It locks the pace.
func (p *headerPace) pay(now time.Time, peer peerKey, bytes int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	paid, _ := p.peers.Get(peer) // the time until which all that came is paid for
	if earliest := now.Add(-headerBurst); paid.Before(earliest) {
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
// of a new stream, and so many bytes beside them.
func (s *Server) paceHeaders(c *connection, who caller, headers metadata.MD, bytes int) {
	for name, values := range headers {
		for _, v := range values {
			bytes += len(name) + len(v) + headerField
		}
	}
	if who.peer == nil {
		return
	}
	if wait := s.headers.pay(time.Now(), *who.peer, bytes); wait > 0 {
		c.framed.frames.pause(wait)
	}
}
