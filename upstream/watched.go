package upstream

import (
	"net"
	"time"

	"github.com/weir-xds/weir/relay"
)

// watched is a connection that tells the table when bytes arrive (RELAY-6). There are few
// connections to origins, so the cost of the wrapper does not matter.
type watched struct {
	net.Conn
	arrivals *relay.Arrivals
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.arrivals.Bytes(time.Now(), n)
	}
	return n, err
}
