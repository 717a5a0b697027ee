//go:build !linux

package downstream

import "net"

func (c *countedConn) asConn() net.Conn { return c }

func below(c net.Conn) net.Conn { return c }
