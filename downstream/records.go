package downstream

import (
	"net"
	"sync"
	"sync/atomic"
)

// recordText is the most text that a TLS record has (RFC 8446, 5.1).
const recordText = 16 << 10

// tlsConn is a TLS connection that writes several records with one system call. crypto/tls makes
// one for each record. A write of 64 KiB by grpc took five then, which cost more than encrypting
// it (TestRecordsGoTogether; "TLS" in deploy/docs/performance.md).
type tlsConn struct {
	net.Conn // of crypto/tls, over records
	records  records
}

// records is the connection that crypto/tls reads from and writes to.
type records struct {
	net.Conn
	out net.Conn // where writes go, see below
	// more: another record follows at once. It is set by who writes to the tlsConn; an alert or the
	// answer to a KeyUpdate may read it on another goroutine, and then goes along.
	more atomic.Bool
	held *[]byte // records that wait for the last one; nil: there are none. crypto/tls writes one at a time
}

// heldRecords has the buffers of writes that are under way: at most one for each connection, of
// about the size of grpc's write buffer.
var heldRecords = sync.Pool{New: func() any {
	b := make([]byte, 0, writeBuffer+writeBuffer/8)
	return &b
}}

func newTLSConn(raw net.Conn) *tlsConn {
	c := &tlsConn{}
	c.records.Conn, c.records.out = raw, below(raw)
	return c
}

// Write is part of net.Conn. It is called by one goroutine at a time.
func (c *tlsConn) Write(b []byte) (n int, err error) {
	for last := false; !last; {
		text := b[n:]
		if last = len(text) <= recordText; !last {
			text = text[:recordText]
		}
		c.records.more.Store(!last)
		m, err := c.Conn.Write(text)
		if n += m; err != nil {
			return n, err // TLS refuses all further writes
		}
	}
	return n, nil
}

// Write is part of net.Conn. A single record is not copied.
func (r *records) Write(record []byte) (int, error) {
	more := r.more.Load()
	if r.held == nil {
		if !more {
			return r.out.Write(record)
		}
		r.held = heldRecords.Get().(*[]byte)
	}
	*r.held = append(*r.held, record...)
	if more {
		return len(record), nil
	}
	_, err := r.out.Write(*r.held)
	*r.held = (*r.held)[:0]
	heldRecords.Put(r.held)
	r.held = nil
	if err != nil {
		return 0, err
	}
	return len(record), nil
}
