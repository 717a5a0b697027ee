package main

import (
	"net"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// The kernel looks for dead peers by itself: well within a minute, on both
// kinds of ports (ERR-12).
func TestTCPKeepalive(t *testing.T) {
	l, err := listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	relaytest.CheckKeepalive(t, conn)
}
