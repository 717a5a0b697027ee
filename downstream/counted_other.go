//go:build !linux

package downstream

import "net"

func (c *countedConn) asConn() net.Conn { return c }

func below(c net.Conn) net.Conn { return c }

// userOf is the user at the other end of a Unix socket. This system does not say.
func userOf(net.Conn) (uid uint32, ok bool) { return 0, false }
