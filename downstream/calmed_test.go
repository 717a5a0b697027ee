package downstream

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-xds/weir/relay/relaytest"
)

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from string
}

func (c addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }

// TestCalmedPeersAreGreetedLater: the new connections of a peer that was told to calm down wait for
// a second, side by side, for as long as it is remembered; those of others do not.
func TestCalmedPeersAreGreetedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		g := handshaker{insecure.NewCredentials(), l.server, 0}
		greeted := func(from string) (*connection, time.Duration) {
			t.Helper()
			ours, theirs := net.Pipe()
			t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
			began := time.Now()
			_, info, err := g.ServerHandshake(addressed{ours, from})
			if err != nil {
				t.Fatal(err)
			}
			return info.(*connection), time.Since(began)
		}
		first, wait := greeted("10.0.0.1")
		if wait != 0 {
			t.Errorf("a peer that nobody knows waits for %v", wait)
		}
		_ = first.raw.Close() // whoever tells it to calm down does not wait for it to read
		l.server.calm(time.Now(), first, goaway)
		if _, wait := greeted("10.0.0.2"); wait != 0 {
			t.Errorf("another peer waits for %v", wait)
		}
		began := time.Now()
		done := make(chan struct{})
		for range 10 {
			go func() { _, _ = greeted("10.0.0.1"); done <- struct{}{} }()
		}
		for range 10 {
			<-done
		}
		if wait := time.Since(began); wait != calmedWait {
			t.Errorf("ten connections of the peer waited for %v, want %v", wait, calmedWait)
		}
		time.Sleep(calmedFor - calmedWait)
		if _, wait := greeted("10.0.0.1"); wait != 0 {
			t.Errorf("a peer that is forgotten waits for %v", wait)
		}
	})
	c, now := newCalmed(), time.Now()
	for i := range 2 * calmedPeers {
		c.note(now, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32))
	}
	if c.note(now, netip.Prefix{}); c.until.Len() != calmedPeers || c.wait(now, netip.Prefix{}) != 0 {
		t.Errorf("%d peers are remembered, want %d", c.until.Len(), calmedPeers)
	}
}
