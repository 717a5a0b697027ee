package downstream

import (
	"crypto/x509"
	"net"
	"net/netip"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// caller is what a stream's connection shows of the client, whatever its node claims (STREAM-5).
// The zero value is a stranger.
type caller struct {
	local    bool // over loopback or a Unix socket
	tls      bool
	verified bool   // its certificate is signed by the listener's client_ca
	identity string // the identity in that certificate; "" without one
	// peer is an object of its own, since within the session it would double the session's rounded
	// size; nil: nobody.
	peer *peerKey
}

// peerKey is what streams and groups are counted by: the identity of the client's certificate, or
// else its address (peerOf), or else, as over a Unix socket, the connection alone. The zero value
// is nobody.
type peerKey struct {
	identity string
	address  netip.Prefix
	conn     uint64 // connection.id
}

// opener is what the groups are counted by that the client opens.
func (c *caller) opener() any {
	if c.peer == nil {
		return nil
	}
	return *c.peer
}

// callerOf is the caller of a connection.
func callerOf(p *peer.Peer) caller {
	auth, id := p.AuthInfo, uint64(0)
	if c, ok := auth.(*connection); ok {
		auth, id = c.info, c.id
	}
	return callerFrom(p.Addr, p.LocalAddr, auth, id)
}

// callerFrom is the caller of the connection with that number, from one address to another.
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

// identityOf is the identity in a certificate: its first URI, as in SPIFFE, or else its first DNS
// name, or else its subject. It is the same in the next certificate of the same workload.
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

// stranger is the reason why secrets are not for the client, whatever origin they belong to; nil:
// they are.
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
