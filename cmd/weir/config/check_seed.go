package config

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// seedByName begins a peer that is a name with several addresses.
const seedByName = "dns:///"

// seed reports what keeps replicas from knowing each other.
func (k checker) seed(s *Seed) {
	const path = "cache.seed"
	local := true
	if s.Listen != "" {
		k.hostPort(path+".listen", s.Listen)
		local = isLocal(s.Listen)
	}
	for i, peer := range s.Peers {
		at := fmt.Sprintf("%s.peers[%d]", path, i)
		address, byName := SeedPeer(peer)
		host := k.hostPort(at, address)
		if host == "" {
			k.addf(at, "%q has no host", peer)
		}
		local = local && isLocal(address) && !byName
	}
	used := s.Listen != "" || len(s.Peers) > 0
	t := s.TLS
	if t.SPIFFE != "" {
		k.workloadAPI(path+".tls", t.SPIFFE, map[string]string{"cert": t.Cert, "key": t.Key, "ca": t.CA})
	} else {
		k.pair(path+".tls", t.Cert, t.Key)
		if (t.CA == "") != (t.Cert == "") {
			k.addf(path+".tls.ca", "is needed with cert and key, and they with it: both sides of siblings show a certificate")
		}
	}
	switch {
	case t.Enabled() && !used:
		k.warnf(path+".tls", "is not used: neither listen nor peers are given")
	case used && !t.Enabled() && !local:
		k.addf(path+".tls", "is missing: without it, listen and all peers have to be addresses of loopback, such as 127.0.0.1:19082")
	}
	switch {
	case t.Enabled() && used && len(s.PeersAllowed) == 0:
		k.addf(path+".peers_allowed", "is empty: whomever the authority has certified could be a sibling, take everything and give anything")
	case !t.Enabled() && len(s.PeersAllowed) > 0:
		k.addf(path+".peers_allowed", "needs tls as well, without which no sibling shows who it is")
	}
	for i, text := range s.PeersAllowed {
		k.certified(fmt.Sprintf("%s.peers_allowed[%d]", path, i), text, t.SPIFFE != "")
	}
	if s.Asks() && s.Timeout < 100*time.Millisecond {
		k.addf(path+".timeout", "must be at least 100ms")
	}
}

// hostPort reports what is not host:port, and returns the host.
func (k checker) hostPort(path, address string) (host string) {
	if strings.HasPrefix(address, "unix:") {
		k.addf(path, "%q is no host:port", address)
	} else {
		k.address(path, address)
	}
	host, _, _ = net.SplitHostPort(address)
	return host
}

// SeedPeer splits a peer of cache.seed.peers into its address, and whether each address of its name
// is a sibling.
func SeedPeer(peer string) (address string, each bool) { return strings.CutPrefix(peer, seedByName) }
