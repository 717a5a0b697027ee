package downstream

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	"golang.org/x/net/http2"
)

// paced is a server whose connections are given frames.
type paced struct {
	*testing.T
	server *Server
}

// from is a connection from an address, on which HTTP/2 has begun.
func (p paced) from(address string) *connection {
	ours, theirs := net.Pipe()
	p.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	c := &connection{id: connections.Add(1), raw: addressed{ours, address}, server: p.server}
	c.follow(ours)
	c.framed.receive([]byte(http2.ClientPreface))
	return c
}

// takes is how long it takes a connection to read so many frames without payload, one by one.
func (p paced) takes(c *connection, n int, kind http2.FrameType) time.Duration {
	began := time.Now()
	for range n {
		c.framed.frames.rest()
		c.framed.receive([]byte{0, 0, 0, byte(kind), byte(http2.FlagHeadersEndHeaders), 0, 0, 0, 1})
	}
	c.framed.frames.rest()
	return time.Since(began)
}

// TestStreamsArePaced: a peer that opens streams faster than limits.new_streams_per_second is read
// at that pace, on all its connections together, however short their headers are; a burst of them
// is not, nor is another peer. Where few streams are admitted 500 are read.
func TestStreamsArePaced(t *testing.T) {
	const burst = headerBurst / streamHeaders
	for _, row := range []struct{ limit, pace, burst int }{
		{2_000, 2_000, burst},
		{1_000, 1_000, burst},
		{20, leastStreams, leastStreams},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := paced{t, newLive(t, relaytest.Memory(), func(cfg *Config, _ *ListenerConfig) {
				cfg.Limits.NewStreamsPerSecond = row.limit
			}).server}
			if took := p.takes(p.from("10.0.0.1"), row.burst, http2.FrameHeaders); took > 10*time.Millisecond {
				t.Errorf("limit %d: %d at once take %v", row.limit, row.burst, took)
			}
			took := time.Duration(0)
			for range 4 {
				took += p.takes(p.from("10.0.0.1"), row.pace/4, http2.FrameHeaders)
			}
			if took < 950*time.Millisecond || took > 1050*time.Millisecond {
				t.Errorf("limit %d: %d more take %v, want about a second", row.limit, row.pace, took)
			}
			if took := p.takes(p.from("10.0.0.2"), row.burst, http2.FrameHeaders); took > 10*time.Millisecond {
				t.Errorf("limit %d: another peer waits for %v", row.limit, took)
			}
			time.Sleep(2 * turnAway) // what was told to calm down is closed
		})
	}
}

// TestChatterIsPaced: so is a peer that sends frames which carry nothing, but for some of each
// connection, and those that belong to what it is sent.
func TestChatterIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced{t, newLive(t, relaytest.Memory(), nil).server}
		sent := p.from("10.0.0.1")
		took := p.takes(sent, 1, http2.FramePing)
		sent.framed.frames.sent.Store(10_000)
		if took += p.takes(sent, idlePerSent*10_000-1, http2.FramePing); took != 0 {
			t.Errorf("frames that belong to what was sent take %v", took)
		}
		if took := p.takes(p.from("10.0.0.1"), idleFree+headerBurst/idleBytes, http2.FramePing); took > 10*time.Millisecond {
			t.Errorf("a burst of frames takes %v", took)
		}
		const perSecond = 2_000 * streamHeaders / idleBytes
		took = 0
		for range 4 {
			took += p.takes(p.from("10.0.0.1"), idleFree+perSecond/4, http2.FramePing)
		}
		if took < 950*time.Millisecond || took > 1050*time.Millisecond {
			t.Errorf("%d frames more take %v, want about a second", perSecond, took)
		}
		if took := p.takes(p.from("10.0.0.2"), idleFree, http2.FramePing); took != 0 {
			t.Errorf("another peer waits for %v", took)
		}
	})
}
