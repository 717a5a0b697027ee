package downstream

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/grpc/peer"
)

// TestOpeners: whom a client's streams and groups are counted for.
func TestOpeners(t *testing.T) {
	for _, row := range []struct {
		address net.Addr
		want    peerKey
	}{
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, peerKey{address: netip.MustParsePrefix("10.0.0.1/32")}},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 1}, peerKey{address: netip.MustParsePrefix("2001:db8::/64")}},
		{&net.UnixAddr{Net: "unix"}, peerKey{conn: 7}},
	} {
		c := callerOf(&peer.Peer{Addr: row.address, AuthInfo: &connection{id: 7}})
		if got := c.opener(); got != any(row.want) {
			t.Errorf("%v: %v, want %v", row.address, fmt.Sprint(got), row.want)
		}
	}
	if c := (&caller{}); c.opener() != nil {
		t.Error("who is not known counts for somebody")
	}
}
