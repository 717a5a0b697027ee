package downstream

import (
	"crypto/x509"
	"net"
	"net/netip"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// caller is what a stream's connection tells of the client, whatever its node claims (STREAM-5).
// The zero value is a stranger.
type caller struct {
	local    bool // over loopback or a Unix socket
	tls      bool
	verified bool   // it has shown a certificate that the listener's client_ca vouches for
	identity string // what that certificate says it is; "" without one
	// an object of its own: within the session it would double what of that is rounded up; nil:
	// nobody
	peer *peerKey
}

// peerKey is whom streams and groups are counted for: who the client's certificate says it is, else
// its address (peerOf), else, as over a Unix socket, the connection alone. The zero value is
// nobody.
type peerKey struct {
	identity string
	address  netip.Prefix
	conn     uint64 // connection.id
}

// opener is whom groups are counted for that the client opens.
func (c *caller) opener() any {
	if c.peer == nil {
		return nil
	}
	return *c.peer
}

// callerOf reads a connection.
func callerOf(p *peer.Peer) caller {
	auth, id := p.AuthInfo, uint64(0)
	if c, ok := auth.(*connection); ok {
		auth, id = c.info, c.id
	}
	return callerFrom(p.Addr, p.LocalAddr, auth, id)
}

// callerFrom is callerOf a connection with that number, from one address to another.
func callerFrom(peer, local net.Addr, auth credentials.AuthInfo, id uint64) caller {
	info, tls := auth.(credentials.TLSInfo)
	c := caller{
		local: isLocal(peer) && isLocal(local), tls: tls, verified: len(info.State.VerifiedChains) > 0,
	}
	if c.verified {
		c.identity = identityOf(info.State.VerifiedChains[0][0])
	}
	switch address := peerOf(peer); {
	case c.identity != "":
		c.peer = &peerKey{identity: c.identity}
	case address.IsValid():
		c.peer = &peerKey{address: address}
	case id != 0:
		c.peer = &peerKey{conn: id}
	}
	return c
}

// identityOf is whom a certificate is for: its first URI, as in SPIFFE, else its first DNS name,
// else its subject. It is the same for the next certificate of the same workload.
func identityOf(cert *x509.Certificate) string {
	switch {
	case len(cert.URIs) > 0:
		return cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	}
	return cert.Subject.String()
}

func isLocal(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}

var (
	noSecrets = &reason{
		code: codes.PermissionDenied, text: "origins[].secrets: secrets are not enabled for the origin of this name (RELAY-74)",
	}
	plainSecrets = &reason{
		code: codes.PermissionDenied, text: "listeners[].tls: secrets are not sent in plain text but over loopback or a Unix socket (RELAY-77)",
	}
	strangerSecrets = &reason{
		code: codes.PermissionDenied, text: "listeners[].tls.client_ca: secrets are for clients with a verified certificate, or on this host (RELAY-74)",
	}
)

// stranger says why secrets are not for the client, whosever they are; nil if they are.
func (c caller) stranger() *reason {
	switch {
	case c.local:
		return nil
	case !c.tls:
		return plainSecrets
	case !c.verified:
		return strangerSecrets
	}
	return nil
}
