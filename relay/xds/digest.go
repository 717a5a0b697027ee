package xds

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
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

// Sum is a commutative hash of a set of Digests: addition modulo 2^128. A set's version (VER-4) is
// updated with one addition or subtraction for each change.
type Sum struct{ hi, lo uint64 }

// Add adds a member.
func (s *Sum) Add(d Digest) {
	var c uint64
	s.lo, c = bits.Add64(s.lo, binary.BigEndian.Uint64(d[8:]), 0)
	s.hi, _ = bits.Add64(s.hi, binary.BigEndian.Uint64(d[:8]), c)
}

// Sub removes a member that was added.
func (s *Sum) Sub(d Digest) {
	var b uint64
	s.lo, b = bits.Sub64(s.lo, binary.BigEndian.Uint64(d[8:]), 0)
	s.hi, _ = bits.Sub64(s.hi, binary.BigEndian.Uint64(d[:8]), b)
}

// Join adds the members of another sum.
func (s *Sum) Join(x Sum) {
	var c uint64
	s.lo, c = bits.Add64(s.lo, x.lo, 0)
	s.hi, _ = bits.Add64(s.hi, x.hi, c)
}

// Digest returns the sum as a Digest: of the empty set, the zero one.
func (s Sum) Digest() (d Digest) {
	binary.BigEndian.PutUint64(d[:8], s.hi)
	binary.BigEndian.PutUint64(d[8:], s.lo)
	return d
}

// Version returns the version of the set (VER-4), also of the empty one.
func (s Sum) Version() string { return s.Digest().String() }

// Shown returns the version, but "" for the empty set.
func (s Sum) Shown() string {
	if s == (Sum{}) {
		return ""
	}
	return s.Version()
}
