package downstream

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// restListener passes connections of REST-JSON to net/http.
type restListener struct {
	net.Listener
	server *Server
	tls    *tls.Config // nil: plain text
}

// newRESTListener secures the connections of l with c; nil: they are not secured.
func newRESTListener(s *Server, l net.Listener, c *tls.Config) restListener {
	if c != nil {
		c = c.Clone()
		for _, proto := range []string{"h2", "http/1.1"} {
			if !slices.Contains(c.NextProtos, proto) {
				c.NextProtos = append(c.NextProtos, proto)
			}
		}
	}
	return restListener{l, s, c}
}

// Accept is part of net.Listener.
func (l restListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &restConn{Conn: raw, tls: l.tls, client: &connection{id: connections.Add(1), raw: raw, server: l.server}}, nil
}

// restConn is a connection of REST-JSON as net/http gets it. It is accepted and watched like one of
// gRPC. net/http does not learn that there is TLS, since it would then read below the layer that
// follows the frames. It recognises HTTP/2 by its preface.
type restConn struct {
	net.Conn // as it was accepted
	// Set once by Accept.
	tls    *tls.Config
	client *connection

	secured atomic.Pointer[tls.Conn] // nil: there is no TLS, or the handshake is not done

	greeted sync.Once // guards the setting of what follows
	inner   net.Conn  // the connection whose frames are followed; nil: the handshake failed
}

// greet does the handshake. It is called by the first read, on the goroutine that net/http has for
// the connection.
func (c *restConn) greet() {
	c.inner, _ = c.client.server.greet(c.client, c.tls != nil, c.shake) // the error is counted there
}

// shake is the handshake.
func (c *restConn) shake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.tls == nil {
		return raw, nil, nil
	}
	conn := tls.Server(raw, c.tls)
	c.secured.Store(conn)
	if err := raw.SetDeadline(time.Now().Add(handshake)); err != nil {
		return nil, nil, err
	}
	if err := conn.Handshake(); err != nil {
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.Conn != nil {
			// In net/http's words. A client that speaks another protocol does not read them.
			_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
		return nil, nil, err
	}
	// The read deadline stays. net/http sets another one when it knows the protocol.
	if err := raw.SetWriteDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	return conn, credentials.TLSInfo{State: conn.ConnectionState()}, nil
}

// Read is part of net.Conn. After a failed handshake it returns no data and io.EOF, since net/http
// would answer any other error in plain text.
func (c *restConn) Read(b []byte) (int, error) {
	if c.greeted.Do(c.greet); c.inner == nil {
		return 0, io.EOF
	}
	return c.inner.Read(b)
}

// Write is part of net.Conn.
func (c *restConn) Write(b []byte) (int, error) {
	if c.greeted.Do(c.greet); c.inner == nil {
		return 0, net.ErrClosed
	}
	return c.inner.Write(b)
}

// Close is part of net.Conn. With TLS it states that the connection ends on purpose.
func (c *restConn) Close() error {
	c.client.server.receiving.end(c.client)
	if conn := c.secured.Load(); conn != nil {
		return conn.Close()
	}
	return c.Conn.Close()
}
