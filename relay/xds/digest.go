package xds

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
)

// Digest identifies content: SHA-256 cut to 128 bits. An origin could find collisions of a shorter
// hash, and a collision is a lost update. The zero Digest stands for "nothing".
type Digest [16]byte

// versionPrefix names the algorithm. If that changes, clients are sent everything once more, and
// versions of old builds are not misread (RELAY-56).
const versionPrefix = "w1"

// String returns the version that clients see (VER-3): equal on every replica and after every
// restart.
func (d Digest) String() string {
	b := append(make([]byte, 0, 2+22), versionPrefix...)
	return string(base64.RawURLEncoding.AppendEncode(b, d[:]))
}

// ParseVersion parses a version made by String; ok is false for any other string.
func ParseVersion(s string) (d Digest, ok bool) {
	rest, found := strings.CutPrefix(s, versionPrefix)
	if !found || base64.RawURLEncoding.DecodedLen(len(rest)) != len(d) {
		return Digest{}, false
	}
	n, err := base64.RawURLEncoding.Decode(d[:], []byte(rest))
	if err != nil || n != len(d) || d.String() != s {
		return Digest{}, false
	}
	return d, true
}

// ContentDigest returns the digest of VER-3: type, name, constraints, sorted aliases and payload;
// not TTL, metadata or the origin's version. The payload's own type is a part, because that of a
// redirect (COLL-8) differs from its resource's. Every part has its length before it, so no two
// inputs are hashed as the same bytes.
func ContentDigest(typeURL, name, constraintKey string, aliases []string, payloadType, payload []byte) Digest {
	h := sha256.New()
	var n [8]byte
	part := func(s string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	part(typeURL)
	part(name)
	part(constraintKey)
	if len(aliases) > 1 && !slices.IsSorted(aliases) {
		aliases = slices.Sorted(slices.Values(aliases))
	}
	binary.BigEndian.PutUint64(n[:], uint64(len(aliases)))
	h.Write(n[:])
	for _, a := range aliases {
		part(a)
	}
	binary.BigEndian.PutUint64(n[:], uint64(len(payloadType)))
	h.Write(n[:])
	h.Write(payloadType)
	h.Write(payload)
	var d Digest
	var sum [sha256.Size]byte
	copy(d[:], h.Sum(sum[:0]))
	return d
}
