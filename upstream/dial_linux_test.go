package upstream

import (
	"net"
	"syscall"
	"testing"
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
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (value int) {
		if err := raw.Control(func(fd uintptr) { value, err = syscall.GetsockoptInt(int(fd), level, name) }); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	on := option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
	found := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE) +
		option(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)*option(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
	if on != 1 || found >= 60 {
		t.Errorf("TCP keepalive is %d, and finds a dead peer after %d s", on, found)
	}
}
