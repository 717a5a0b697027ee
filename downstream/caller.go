package downstream

import (
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// caller is what a stream's connection tells of the client, whatever its node claims (STREAM-5). The zero value is a stranger.
type caller struct {
	local    bool // over loopback or a Unix socket
	tls      bool
	verified bool // it has shown a certificate that the listener's client_ca vouches for
}

// callerOf reads a connection.
func callerOf(p *peer.Peer) caller {
	info, tls := p.AuthInfo.(credentials.TLSInfo)
	return caller{
		local: isLocal(p.Addr) && isLocal(p.LocalAddr), tls: tls, verified: len(info.State.VerifiedChains) > 0,
	}
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
		codes.PermissionDenied, "origins[].secrets: secrets are not enabled for the origin of this name (RELAY-74)",
	}
	plainSecrets = &reason{
		codes.PermissionDenied, "listeners[].tls: secrets are not sent in plain text but over loopback or a Unix socket (RELAY-77)",
	}
	strangerSecrets = &reason{
		codes.PermissionDenied, "listeners[].tls.client_ca: secrets are for clients with a verified certificate, or on this host (RELAY-74)",
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
