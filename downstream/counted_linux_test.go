package downstream

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUnacknowledgedTimeout: what a peer that vanished does not acknowledge ends its connection
// after keepalive.timeout, as grpc would have it for a connection of its own.
func TestUnacknowledgedTimeout(t *testing.T) {
	s, l := serverAndPort(t, newRig(t))
	e := newCountedListener(s, l, Keepalive{Timeout: 7 * time.Second})
	defer func() { _ = e.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	c, err := e.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	got := 0
	if err := c.(*readyConn).raw.Control(func(fd uintptr) {
		got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); err != nil || got != 7000 {
		t.Errorf("the timeout is %d ms (%v), want 7000", got, err)
	}
}
