package xds

import (
	"cmp"
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

// SetDigest identifies a set of content. It is the root of a hash tree over the members' Digests,
// cut to 128 bits at each node as a Digest is: whoever chooses some of the members cannot find
// another set with the same SetDigest (VER-4). A sum of Digests would not do: a generalised
// birthday search finds another set with the same sum in seconds. The zero SetDigest is that of the
// empty set.
//
// Members alone decide the shape of the tree, so the order of changes does not count. A set of at
// most leafMembers is a leaf, the hash of its members in order. A larger one is an inner node, the
// hash of the SetDigests of its branches: those whose next bits are 00, 01, 10 and 11.
type SetDigest [16]byte

// setVersionPrefix names the algorithm, as versionPrefix does. It was "w1" for sums (RELAY-56).
const setVersionPrefix, treeVersionPrefix = "w2", "w3"

// Version returns the version of the set that clients see (VER-4), also of the empty one.
func (s SetDigest) Version() string { return s.version(setVersionPrefix) }

// TreeVersion is Version for the sums of package state, which are made otherwise.
func (s SetDigest) TreeVersion() string { return s.version(treeVersionPrefix) }

func (s SetDigest) version(prefix string) string {
	b := append(make([]byte, 0, 2+22), prefix...)
	return string(base64.RawURLEncoding.AppendEncode(b, s[:]))
}

// Shown returns the version, but "" for the empty set.
func (s SetDigest) Shown() string {
	if s == (SetDigest{}) {
		return ""
	}
	return s.Version()
}

const (
	// leafMembers is the size up to which a set is hashed as a list. A larger one makes a change
	// hash more members, a smaller one makes the tree deeper and its nodes more memory.
	leafMembers = 32
	branchBits  = 2
	branches    = 1 << branchBits
)

// The first byte of what is hashed, so that a node of one kind is none of another. That of a
// Digest begins with a length of 8 bytes, so with 0.
const (
	hashedLeaf = 1 + iota
	hashedInner
	hashedSets
)

// SetOf returns the digest of the set of these members. The list is used up. What is in it twice
// counts once.
func SetOf(members []Digest) SetDigest { return digestOf(asSet(members), 0) }

// JoinSets returns the digest of several sets that are held side by side: of one that is not empty,
// its own. Their order does not count. The list is used up.
func JoinSets(sets []SetDigest) SetDigest {
	sets = slices.DeleteFunc(sets, func(s SetDigest) bool { return s == SetDigest{} })
	switch len(sets) {
	case 0:
		return SetDigest{}
	case 1:
		return sets[0]
	}
	slices.SortFunc(sets, func(a, b SetDigest) int { return slices.Compare(a[:], b[:]) })
	b := []byte{hashedSets}
	for i := range sets {
		b = append(b, sets[i][:]...)
	}
	return cut(sha256.Sum256(b))
}

// asSet sorts a list and drops what is in it twice. It may use the list's own array.
func asSet(members []Digest) []Digest {
	if len(members) >= manyMembers {
		members = distribute(members)
	} else {
		slices.SortFunc(members, Digest.compare)
	}
	return slices.Compact(members)
}

// A list of manyMembers is first distributed by the members' first bits, which are random. That
// makes a large list five times faster to sort. Bits that an attacker made alike only lose that.
const (
	manyMembers = 1024
	firstBits   = 12
)

// distribute returns the members sorted, in another array.
func distribute(members []Digest) []Digest {
	first := func(d *Digest) uint16 { return binary.BigEndian.Uint16(d[:2]) >> (16 - firstBits) }
	next := make([]int32, 1<<firstBits+1) // where the next member with these first bits goes
	for i := range members {
		next[first(&members[i])+1]++
	}
	for i := range 1 << firstBits {
		next[i+1] += next[i]
	}
	sorted := make([]Digest, len(members))
	for i := range members {
		at := first(&members[i])
		sorted[next[at]] = members[i]
		next[at]++
	}
	from := int32(0)
	for _, to := range next[:1<<firstBits] {
		slices.SortFunc(sorted[from:to], Digest.compare)
		from = to
	}
	return sorted
}

func (d Digest) compare(x Digest) int {
	if c := cmp.Compare(binary.BigEndian.Uint64(d[:8]), binary.BigEndian.Uint64(x[:8])); c != 0 {
		return c
	}
	return cmp.Compare(binary.BigEndian.Uint64(d[8:]), binary.BigEndian.Uint64(x[8:]))
}

// branch returns the branch that has the member at a level of the tree.
func (d *Digest) branch(level int) int {
	bit := level * branchBits
	return int(d[bit/8]>>(8-branchBits-bit%8)) & (branches - 1)
}

// digestOf returns the digest of a sorted set, which is at a level of the tree. Two members differ,
// so they part at some level.
func digestOf(members []Digest, level int) SetDigest {
	if len(members) <= leafMembers {
		return hashLeaf(members)
	}
	var all [branches]SetDigest
	for i := range all {
		n := inBranch(members, i, level)
		all[i] = digestOf(members[:n], level+1)
		members = members[n:]
	}
	return hashInner(&all)
}

// inBranch returns how many of the sorted members, of which none is in a branch before, are in the
// branch.
func inBranch(members []Digest, branch, level int) int {
	n, _ := slices.BinarySearchFunc(members, branch, func(d Digest, i int) int {
		if d.branch(level) > i {
			return 1
		}
		return -1
	})
	return n
}

func hashLeaf(members []Digest) SetDigest {
	if len(members) == 0 {
		return SetDigest{}
	}
	var stack [1 + leafMembers*len(Digest{})]byte
	b := append(stack[:0], hashedLeaf)
	for i := range members {
		b = append(b, members[i][:]...)
	}
	return cut(sha256.Sum256(b))
}

func hashInner(all *[branches]SetDigest) SetDigest {
	var stack [1 + branches*len(SetDigest{})]byte
	b := append(stack[:0], hashedInner)
	for i := range all {
		b = append(b, all[i][:]...)
	}
	return cut(sha256.Sum256(b))
}

func cut(sum [sha256.Size]byte) SetDigest { return SetDigest(sum[:len(SetDigest{})]) }
