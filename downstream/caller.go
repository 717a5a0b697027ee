package downstream

import (
	"cmp"
	"net"
	"net/netip"

	"github.com/weir-xds/weir/downstream/identity"
	"go.uber.org/zap"
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
	identity string // of that certificate, or else of the user at a Unix socket; "" if it shows none
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

// who is the client's identity, for people and rules.
func (c *caller) who() string { return cmp.Or(c.identity, identity.Anonymous) }

// field is who in a log line.
func (c *caller) field() zap.Field { return zap.String("identity", c.who()) }

// opener is what the groups are counted by that the client opens.
func (c *caller) opener() any {
	if c.peer == nil {
		return nil
	}
	return *c.peer
}

// callerOf is the caller of a connection.
func callerOf(p *peer.Peer) caller {
	if c, ok := p.AuthInfo.(*connection); ok {
		return callerFrom(p.Addr, p.LocalAddr, c.info, c)
	}
	return callerFrom(p.Addr, p.LocalAddr, p.AuthInfo, &connection{})
}

// caller is the client of the connection.
func (c *connection) caller() caller {
	return callerFrom(c.raw.RemoteAddr(), c.raw.LocalAddr(), c.info, c)
}

// callerFrom is the caller of a connection from one address to another.
func callerFrom(peer, local net.Addr, auth credentials.AuthInfo, conn *connection) caller {
	info, tls := auth.(credentials.TLSInfo)
	c := caller{
		local: isLocal(peer) && isLocal(local), tls: tls, verified: len(info.State.VerifiedChains) > 0,
	}
	switch {
	case c.verified:
		c.identity = identity.Of(info.State.VerifiedChains[0][0])
	case conn.hasUser:
		c.identity = identity.OfUser(conn.user)
	}
	switch address := peerOf(peer); {
	case c.verified:
		c.peer = &peerKey{identity: c.identity}
	case address.IsValid():
		c.peer = &peerKey{address: address}
	case conn.id != 0: // one user has all the clients of a host
		c.peer = &peerKey{conn: conn.id}
	}
	return c
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

// secretKinds are the ways in which origins have secrets enabled (RELAY-74).
type secretKinds struct{ dedicated, byIdentity bool }

var (
	noSecrets = &reason{
		code: codes.PermissionDenied, text: "origins[].secrets: secrets are not enabled for the origin of this name (RELAY-74)",
	}
	plainSecrets = &reason{
		code: codes.PermissionDenied, text: "listeners[].tls: secrets are not sent in plain text but over loopback or a Unix socket (RELAY-77)",
	}
	anonymousSecrets = &reason{
		code: codes.PermissionDenied, text: "origins[].secrets: by_identity serves clients with an identity alone: that of a verified " +
			"certificate, or of the user at a Unix socket (RELAY-74)",
	}
	unruledSecrets = &reason{
		code: codes.PermissionDenied, text: "authorization: without rules no client may have secrets by identity (RELAY-74)",
	}
	strangerSecrets = &reason{
		code: codes.PermissionDenied, text: "listeners[].tls.client_ca: secrets are for clients with a verified certificate, or on this host (RELAY-74)",
	}
)

// stranger is the reason why secrets are not for the client, whatever origin they belong to; nil:
// they are. Its connection decides that, and not the listener's address.
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

// unnamed is the reason why no secrets by identity are for the client; nil: some may be. Where it
// comes from does not excuse a client without an identity.
func (c caller) unnamed(set *settings) *reason {
	switch {
	case c.stranger() != nil:
		return c.stranger()
	case c.identity == "":
		return anonymousSecrets
	case set.rules.Len() == 0:
		return unruledSecrets
	}
	return nil
}
