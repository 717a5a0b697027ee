package admin

import (
	"context"
	"fmt"
	"net"
	"syscall"
)

type socketUser struct{}

// ConnContext records the user at the other end of a Unix socket. It is for the http.Server that
// serves Handler.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	for { // TLS, and what counts connections
		t, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = t.NetConn()
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ctx
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			ctx = context.WithValue(ctx, socketUser{}, caller(fmt.Sprintf("uid %d", cred.Uid)))
		}
	})
	return ctx
}
