package xds

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hasher collects what a SetDigest is of that is no set of Digests alone. It begins with a byte
// that says of what kind it is, so that the digest of one kind is none of another.
type Hasher []byte

// Digest adds a digest.
func (h *Hasher) Digest(d [16]byte) { *h = append(*h, d[:]...) }

// Text adds a text of any length. No two lists of texts are the same bytes.
func (h *Hasher) Text(t string) {
	*h = append(binary.BigEndian.AppendUint64(*h, uint64(len(t))), t...)
}

// Sum is the digest of what was added.
func (h *Hasher) Sum() SetDigest { return SumOf(*h) }

// SumOf is the digest of what a Hasher would have.
func SumOf(b []byte) SetDigest { return cut(sha256.Sum256(b)) }
