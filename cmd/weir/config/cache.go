package config

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// Cache says how long weir keeps resources that no client wants, and where it saves them.
type Cache struct {
	// Linger is how long an upstream subscription outlives its last client.
	//
	// In dialect sotw, resources subscribed by name only stay cached that long. Default: 60s.
	Linger time.Duration `yaml:"linger" default:"60s" reload:"live"`
	// Retired bounds resources that stay cached after linger, for clients that return while the
	// origin is down.
	Retired Retired `yaml:"retired" reload:"live"`
	// MaxStale ends serving from the cache after an outage of this length.
	//
	// Not supported by this version. Default: 0s, no bound.
	MaxStale time.Duration `yaml:"max_stale" reserved:"true"`
	// History bounds earlier versions of resources that weir keeps for operators.
	History History `yaml:"history" reload:"live"`
	// Snapshot is the last known good configuration on disk.
	Snapshot Snapshot `yaml:"snapshot" reload:"restart"`
	// Seed copies resources from other replicas at the start, if there is no snapshot.
	Seed Seed `yaml:"seed" reload:"restart"`
}

// Retired bounds resources that no client wants any more. Beyond it, the least recently used are
// dropped first. If either is zero nothing is kept.
type Retired struct {
	// Entries is the number of names; a wildcard set counts as one. 0 keeps nothing.
	//
	// Beyond it, the least recently used are dropped first. Default: 100000.
	Entries int `yaml:"entries" default:"100000"`
	// Bytes is the size of their bodies. 0 keeps nothing. Default: 256MiB.
	Bytes Bytes `yaml:"bytes" default:"256MiB"`
}

// History bounds earlier versions of resources, and when they changed. An entry is dropped at
// the first bound it reaches.
type History struct {
	// Versions is how many earlier versions of one resource are kept. 0 keeps no history. Default:
	// 10.
	Versions int `yaml:"versions" default:"10"`
	// Bytes is the memory for all history.
	//
	// Beyond it the type of a group that has most loses its oldest change. Default: 64MiB.
	Bytes Bytes `yaml:"bytes" default:"64MiB"`
	// Age is how long a change is kept. Default: 24h.
	Age time.Duration `yaml:"age" default:"24h"`
}

// Snapshot is the last known good configuration on disk: a weir that starts while its origin is
// down serves it.
type Snapshot struct {
	// Path is a directory for this process only, with room for max_bytes.
	//
	// weir creates it if missing, with access for its owner only. Default: empty, off.
	Path string `yaml:"path" path:"file"`
	// Interval is the time between two writes of changes. Default: 10s.
	Interval time.Duration `yaml:"interval" default:"10s"`
	// MaxAge is how long ago the origin may last have confirmed restored resources. Default: 0s,
	// no bound.
	MaxAge time.Duration `yaml:"max_age"`
	// MaxBytes is the most that the directory ever holds. 0: no bound.
	//
	// About a third is for content, the rest for changes and for rewriting. If there is no room
	// for a group it is left out; groups without clients for longest first. With 0 the disk needs
	// room for three times the content. Default: 1GiB.
	MaxBytes Bytes `yaml:"max_bytes" default:"1GiB"`
	// KeyFile is a file with the encryption key (AES-256-GCM), 32 bytes in base64 or hexadecimal;
	// re-read when it changes.
	//
	// A second line is a key that still decrypts. Without a key, secrets and resources that
	// contain a private key are not saved. Default: empty, plaintext.
	KeyFile string `yaml:"key_file" path:"file"`
}

// Seed lets replicas of a deployment copy their resources from each other. A replica without a
// snapshot copies the newest complete state of a sibling before it serves clients.
type Seed struct {
	// Listen is `host:port` where this replica serves its siblings. Default: empty, off.
	Listen string `yaml:"listen"`
	// TLS authenticates replicas. Without it all addresses must be loopback.
	TLS SeedTLS `yaml:"tls"`
	// Peers are the siblings: `host:port`, or `dns:///NAME:PORT` for all addresses of a name.
	//
	// The process skips itself. Default: none.
	Peers []string `yaml:"peers"`
	// PeersAllowed are patterns of identities, as in authorization, that each side's certificate
	// must match. Needed with tls. Default: empty.
	PeersAllowed []string `yaml:"peers_allowed"`
	// File is a snapshot or its export, used if no sibling has anything.
	//
	// weir waits for the file until timeout; an empty file ends the wait. Default: empty.
	File string `yaml:"file" path:"file"`
	// Timeout bounds how long the start waits for seeding. Default: 10s.
	Timeout time.Duration `yaml:"timeout" default:"10s"`
}

// SeedTLS is the certificate that a replica presents to its siblings, as client and as server, and
// the authorities of theirs. The files, and the agent, are watched.
type SeedTLS struct {
	// Cert and Key are PEM files, used as server and as client; both or neither. Default: empty,
	// plaintext.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
	// CA is a PEM file of authorities. Host names are not verified: see peers_allowed. Default:
	// empty.
	CA string `yaml:"ca" path:"file"`
	// SPIFFE is the socket of a SPIFFE Workload API (`unix:///path`), instead of cert, key and ca.
	// Default: empty.
	SPIFFE string `yaml:"spiffe"`
}

// Enabled reports whether siblings speak TLS.
func (t SeedTLS) Enabled() bool { return t.Cert != "" || t.SPIFFE != "" }

// Asks reports whether the process looks for something to take.
func (s *Seed) Asks() bool { return len(s.Peers) > 0 || s.File != "" }

// UsesKey reports whether there is a key file, and something to seal or to open with it.
func (c *Cache) UsesKey() bool {
	return c.Snapshot.KeyFile != "" && (c.Snapshot.Path != "" || c.Seed.Listen != "" || c.Seed.Asks())
}

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
			k.addf(path+".tls.ca", "is needed together with cert and key: both siblings present a certificate")
		}
	}
	switch {
	case t.Enabled() && !used:
		k.warnf(path+".tls", "is not used: neither listen nor peers are set")
	case used && !t.Enabled() && !local:
		k.addf(path+".tls", "is missing: without it, listen and all peers have to be addresses of loopback, such as 127.0.0.1:19082")
	}
	switch {
	case t.Enabled() && used && len(s.PeersAllowed) == 0:
		k.addf(path+".peers_allowed", "is empty: every certificate of the authority could be a sibling, read everything and send anything")
	case !t.Enabled() && len(s.PeersAllowed) > 0:
		k.addf(path+".peers_allowed", "needs tls as well: siblings are identified by certificates")
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
