package upstream

import (
	"net"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// The kernel looks for dead servers by itself: well within a minute (ERR-12).
func TestTCPKeepalive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	conn, err := dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	relaytest.CheckKeepalive(t, conn)
}
