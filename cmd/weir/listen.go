package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// tcpKeepalive detects a dead client in under a minute where HTTP/2 keepalive does not run, as on
// the admin port and on a connection that was sent GOAWAY (ERR-12). The system's default would take
// two and a half minutes.
var tcpKeepalive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 4}

// listen opens host:port or unix:///path; a socket gets the given mode.
func listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	path, isSocket := strings.CutPrefix(address, "unix://")
	if !isSocket {
		l, err := (&net.ListenConfig{KeepAliveConfig: tcpKeepalive}).Listen(ctx, "tcp", address)
		return l, bare(err)
	}
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	// On Linux a socket file gets the mode of its descriptor, less the umask; elsewhere this does
	// nothing. So others cannot connect between bind and chmod.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode)) })
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, bare(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// clearSocket removes the socket file that a process left behind. One that somebody listens on
// stays, and so does a file that is no socket.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there already and is no socket", path)
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("another process listens on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s is there already: %w", path, bare(err))
	}
	return os.Remove(path)
}

// bare removes the address from a network error, for messages that name it.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
