package xds

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// Digest identifies content: SHA-256 cut to 128 bits. A shorter hash could be made to collide by an
// origin, and a collision is a lost update. The zero Digest stands for "nothing".
type Digest [16]byte

// versionPrefix names the algorithm, so that a change of it costs one resend and no confusion
// (RELAY-56).
const versionPrefix = "w1"

// String is the version clients see (VER-3): equal on every replica and after every restart.
func (d Digest) String() string {
	b := append(make([]byte, 0, 2+22), versionPrefix...)
	return string(base64.RawURLEncoding.AppendEncode(b, d[:]))
}

// ParseVersion reads a version that some weir made; ok is false for any other string.
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

// ContentDigest is VER-3: type, name, constraints, sorted aliases and payload; not TTL, metadata or
// the origin's version. The payload's own type is part of it, because a redirect (COLL-8) has
// another one than its resource. Every part is preceded by its length, so that no two different
// inputs are the same byte string.
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

// Sum is a commutative hash of a set of Digests: addition modulo 2^128, so that a view's version
// (VER-4) is kept up with one addition or subtraction for each change.
type Sum struct{ hi, lo uint64 }

// Add counts a member in.
func (s *Sum) Add(d Digest) {
	var c uint64
	s.lo, c = bits.Add64(s.lo, binary.BigEndian.Uint64(d[8:]), 0)
	s.hi, _ = bits.Add64(s.hi, binary.BigEndian.Uint64(d[:8]), c)
}

// Sub takes a member out that was counted in.
func (s *Sum) Sub(d Digest) {
	var b uint64
	s.lo, b = bits.Sub64(s.lo, binary.BigEndian.Uint64(d[8:]), 0)
	s.hi, _ = bits.Sub64(s.hi, binary.BigEndian.Uint64(d[:8]), b)
}

// Join adds what another sum is of.
func (s *Sum) Join(x Sum) {
	var c uint64
	s.lo, c = bits.Add64(s.lo, x.lo, 0)
	s.hi, _ = bits.Add64(s.hi, x.hi, c)
}

// Version is the version of the set (VER-4); that of the empty one too.
func (s Sum) Version() string {
	var d Digest
	binary.BigEndian.PutUint64(d[:8], s.hi)
	binary.BigEndian.PutUint64(d[8:], s.lo)
	return d.String()
}

// Shown is the version, but "" for nothing.
func (s Sum) Shown() string {
	if s == (Sum{}) {
		return ""
	}
	return s.Version()
}
