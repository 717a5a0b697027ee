//go:build !linux

package downstream

import "net"

func (g *guest) asConn() net.Conn { return g }
