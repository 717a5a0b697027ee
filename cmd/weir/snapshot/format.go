package snapshot

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"
)

// The version of the format. A reader accepts every minor version of its major version: a later one
// adds only classes of records and fields of metadata, which are skipped. A file of another major
// version is left alone. The places of magic and major version never change.
const (
	formatMajor = 1
	formatMinor = 1
)

const (
	magic      = "weirsnap"
	copySize   = 128 // of one copy of the header
	headerSize = 2 * copySize
	headSize   = 32 // of a record, before its key

	// maxPart bounds a key, metadata and a body each, in bytes, so that sizes cannot overflow. No
	// message of an origin is that long.
	maxPart = 1 << 30
	// maxDeployment is the longest name that package config allows.
	maxDeployment = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mark begins every record of a file. It is random, so a reader that looks for the next record
// after a damaged one never takes a part of a body for it, whoever wrote the body.
type mark [8]byte

func newMark() (m mark) {
	_, _ = rand.Read(m[:]) // never fails
	return m
}

// Header describes a file. It is written twice, so that a damaged byte in it does not cost the
// file.
type Header struct {
	Major, Minor uint16
	Created      time.Time
	// Deployment is the configured name of the weirs that the file belongs to, which is part of the
	// node ids that they present upstream.
	Deployment string

	mark mark
}

func (h *Header) encode() []byte {
	b := make([]byte, copySize)
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[8:], h.Major)
	binary.LittleEndian.PutUint16(b[10:], h.Minor)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.Created.UnixNano()))
	copy(b[24:], h.mark[:])
	b[32] = byte(copy(b[33:33+maxDeployment], h.Deployment))
	return slices.Concat(sumUp(b), b)
}

// sumUp sets the checksum of a copy of a header.
func sumUp(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[copySize-4:], crc32.Checksum(b[:copySize-4], castagnoli))
	return b
}

// VersionError says that a file has a format that this build cannot read.
type VersionError struct {
	Major uint16
	reads int // the version that this build reads
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("format version %d is not %d, the one this build reads", e.Major, e.reads)
}

var errNoHeader = errors.New("no header: this is no snapshot, or its beginning is damaged")

// readHeader reads the header.
func readHeader(data []byte) (h Header, damages []Damage, err error) {
	b, damages, err := wholeCopy(data, magic, formatMajor, copySize)
	if err != nil {
		return h, nil, err
	}
	h.Major, h.Minor = binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
	h.Created = time.Unix(0, int64(binary.LittleEndian.Uint64(b[16:])))
	copy(h.mark[:], b[24:])
	h.Deployment = string(b[33 : 33+min(int(b[32]), maxDeployment)])
	return h, damages, nil
}

// wholeCopy returns a copy of a header of this version that is whole, and which of the two is not.
// The first is at the beginning of the file, and the second at an offset.
func wholeCopy(data []byte, magic string, version uint16, second int) (whole []byte, damages []Damage, err error) {
	for _, at := range []int{0, second} {
		b := data[min(at, len(data)):min(at+copySize, len(data))]
		switch {
		case len(b) < copySize || string(b[:8]) != magic || binary.LittleEndian.Uint32(b[copySize-4:]) != crc32.Checksum(b[:copySize-4], castagnoli):
			damages = append(damages, Damage{Offset: int64(at), Length: copySize, What: "a copy of the header is damaged"})
		case whole == nil:
			whole = b
		}
	}
	head := whole
	if head == nil && len(data) >= 10 && string(data[:8]) == magic {
		head = data // that of another version may have another form
	}
	if head != nil {
		if major := binary.LittleEndian.Uint16(head[8:]); major != version {
			return nil, nil, &VersionError{major, int(version)}
		}
	}
	if whole == nil {
		return nil, nil, errNoHeader
	}
	return whole, damages, nil
}

// class says what a record is about.
type class uint16

// The classes of this minor version. Numbers are never reused.
const (
	classOrigin class = 1 // key: its name
	classShard  class = 2 // one type of one group; key: see shardKey
	classItem   class = 3 // a member of a set, or a name; key: the shard's, and see itemID
	// Key: the class as a byte, and the key of what is removed; items go with their shard.
	classRemove class = 4
	classCommit class = 5 // the write since the last one is complete
	// What was held before (history.go). Key: that of the page for its head, and with a number for
	// a part of the changes. Without a key: the table's revision. Since minor version 1.
	classHistory class = 6
	classMarks   class = 7 // which states of a group were seen good (history.go)
)

// record is one record of a file. Metadata are protobuf fields; the body is opaque.
type record struct {
	class      class
	key        string
	meta, body []byte
	offset     int64 // where it was read
}

func (r *record) size() int64 { return headSize + int64(len(r.key)+len(r.meta)+len(r.body)) }

// appendHead appends the bytes before the key.
func (r *record) appendHead(b []byte, m mark) []byte {
	at := len(b)
	b = append(b, m[:]...)
	b = binary.LittleEndian.AppendUint16(b, uint16(r.class))
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.meta)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.body)))
	sum := crc32.Update(0, castagnoli, []byte(r.key))
	sum = crc32.Update(sum, castagnoli, r.meta)
	sum = crc32.Update(sum, castagnoli, r.body)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}
