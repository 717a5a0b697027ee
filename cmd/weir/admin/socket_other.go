//go:build !linux

package admin

import (
	"context"
	"net"
)

type socketUser struct{}

// ConnContext does nothing: how to find the user at the other end of a Unix socket depends on the
// system.
func ConnContext(ctx context.Context, _ net.Conn) context.Context { return ctx }
