package downstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestHeadersArePaced: the connection of a peer that opens streams with long headers is not read
// for as long as they are beyond the pace of limits.new_streams_per_second, 4 KiB for each; others
// are.
func TestHeadersArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), func(cfg *Config, _ *ListenerConfig) { cfg.Limits.NewStreamsPerSecond = 100 })
		streams := func() int {
			synctest.Wait()
			return len(l.server.list())
		}
		p := newRaw(t, l)
		p.hello()
		for i := range uint32(36) { // 525 KB at 400 KB/s, after a second's worth
			p.prepare(2*i+1, 1400, 10)
		}
		p.flush()
		if n := streams(); n != 36 {
			t.Fatalf("%d streams are open, want those 36 that were read at once", n)
		}
		p.call(201, 10, 1)
		other := newRaw(t, l)
		other.hello()
		other.call(1, 10, 1)
		if n := streams(); n != 37 {
			t.Errorf("%d streams are open, want that of another client, and no more of the first", n)
		}
		time.Sleep(200 * time.Millisecond)
		if n := streams(); n != 37 {
			t.Errorf("%d streams are open before the pause is over, want 37", n)
		}
		time.Sleep(300 * time.Millisecond)
		if n := streams(); n != 38 {
			t.Errorf("%d streams are open, want 38", n)
		}
	})
}

// TestHeaderPace: short headers cost nothing at any rate that streams are admitted at; a peer that
// is forgotten, or pays late, waits for a bounded time.
func TestHeaderPace(t *testing.T) {
	p, now := newHeaderPace(100), time.Now()
	for range 10_000 {
		if wait := p.pay(now, peerKey{identity: "calm"}, 2<<10); wait > 0 {
			t.Fatalf("who opens as many streams as are admitted waits %v", wait)
		}
		now = now.Add(10 * time.Millisecond)
	}
	var longest time.Duration
	for range 10_000 {
		longest = max(longest, p.pay(now, peerKey{identity: "hasty"}, headerList))
	}
	if longest != headerWait {
		t.Errorf("10,000 long headers at once wait for up to %v, want %v", longest, headerWait)
	}
	if wait := p.pay(now, peerKey{identity: "calm"}, 2<<10); wait > 0 {
		t.Errorf("another waits %v for them", wait)
	}
	for i := range 2 * headerPeers {
		p.pay(now, peerKey{conn: uint64(i)}, headerList)
	}
	if n := p.peers.Len(); n != headerPeers {
		t.Errorf("%d peers are remembered, want %d", n, headerPeers)
	}
}
