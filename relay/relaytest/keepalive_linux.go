package relaytest

import (
	"net"
	"syscall"
	"testing"
)

// CheckKeepalive fails the test unless the kernel looks by itself whether the peer of a TCP
// connection is dead, and finds it well within a minute (ERR-12).
func CheckKeepalive(tb testing.TB, conn net.Conn) {
	tb.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		tb.Fatal(err)
	}
	option := func(level, name int) (value int) {
		if err := raw.Control(func(fd uintptr) { value, err = syscall.GetsockoptInt(int(fd), level, name) }); err != nil {
			tb.Fatal(err)
		}
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
	on := option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
	found := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE) +
		option(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)*option(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
	if on != 1 || found >= 60 {
		tb.Errorf("TCP keepalive is %d, and finds a dead peer after %d s", on, found)
	}
}
