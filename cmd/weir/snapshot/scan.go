package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
)

// Damage is a part of a file that cannot be read.
type Damage struct {
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	// What describes it for people.
	What string `json:"what"`

	more int // of how many damages it is, if they are described together
}

// String is meant to follow the file's name.
func (d Damage) String() string {
	return fmt.Sprintf("at offset %d, %d bytes: %s", d.Offset, d.Length, d.What)
}

// scanner finds the records of a file, damaged or not. It allocates nothing in proportion to
// lengths that the bytes state.
type scanner struct {
	data    []byte
	mark    mark
	damages []Damage
	// tail is where the last write was cut off, as by a process that died; len(data) if it was not.
	tail int
}

// records yields the valid records with their offsets. Afterwards damages has what is between them.
// Strings and slices share the data.
func (s *scanner) records() iter.Seq2[int, record] {
	return func(yield func(int, record) bool) {
		s.tail = len(s.data)
		for at := headerSize; at < len(s.data); {
			r, size, fault := s.read(at)
			switch {
			case fault == "":
				r.offset = int64(at)
				if !yield(at, r) {
					return
				}
			case s.cutOff(at):
				s.tail = at
				return
			default:
				if size == 0 {
					size = s.skip(at)
				}
				s.damages = described(s.damages, Damage{Offset: int64(at), Length: int64(size), What: fault})
			}
			at += size
		}
	}
}

// read reads the record at an offset. If fault is not "", size is known only if the record's head
// is valid.
func (s *scanner) read(at int) (r record, size int, fault string) {
	b := s.data[at:]
	if len(b) < headSize || !bytes.Equal(b[:8], s.mark[:]) {
		return r, 0, "no record begins here"
	}
	if binary.LittleEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli) {
		return r, 0, "the head of a record is damaged"
	}
	key, meta, body := s.lengths(b)
	size = headSize + key + meta + body
	if max(key, meta, body) > maxPart || size > len(b) {
		return r, 0, "a record runs over the end of the file"
	}
	if binary.LittleEndian.Uint32(b[24:]) != crc32.Checksum(b[headSize:size], castagnoli) {
		return r, size, "the contents of a record are damaged"
	}
	b = b[headSize:size]
	r.class = class(binary.LittleEndian.Uint16(s.data[at+8:]))
	r.key = string(b[:key])
	r.meta, r.body = b[key:key+meta:key+meta], b[key+meta:]
	return r, size, ""
}

func (s *scanner) lengths(b []byte) (key, meta, body int) {
	return int(binary.LittleEndian.Uint32(b[12:])), int(binary.LittleEndian.Uint32(b[16:])), int(binary.LittleEndian.Uint32(b[20:]))
}

// cutOff reports whether the bytes at an offset are the rest of a write that was cut off: the
// beginning of a record up to the end of the file, or zeros that the file system allocated.
func (s *scanner) cutOff(at int) bool {
	b := s.data[at:]
	if len(b) >= headSize && bytes.Equal(b[:8], s.mark[:]) && binary.LittleEndian.Uint32(b[28:]) == crc32.Checksum(b[:28], castagnoli) {
		key, meta, body := s.lengths(b)
		return headSize+key+meta+body > len(b)
	}
	if len(b) < headSize && bytes.HasPrefix(s.mark[:], b[:min(len(b), len(s.mark))]) {
		return true
	}
	return len(bytes.TrimLeft(b, "\x00")) == 0
}

// skip returns how far it is to where the next record may begin.
func (s *scanner) skip(at int) int {
	for from := at + 1; ; {
		i := bytes.Index(s.data[from:], s.mark[:])
		if i < 0 {
			return len(s.data) - at
		}
		if from += i; s.head(from) {
			return from - at
		}
		from++
	}
}

// head reports whether the head of a record is at an offset.
func (s *scanner) head(at int) bool {
	b := s.data[at:]
	return len(b) >= headSize && binary.LittleEndian.Uint32(b[28:]) == crc32.Checksum(b[:28], castagnoli)
}

// A file is whatever its writer made of it, and it is read before anything is served. So what it
// may cost is bounded: what it has at once by Room, and what a record has by the numbers below.
// Some bytes of a record become hundreds in memory.
const (
	// maxVariants bounds the variants of an item, maxSets the sets of a type of a group, and
	// maxParams the parameters of one.
	maxVariants = 10_000
	maxSets     = 100_000
	maxParams   = 1000
	// maxSaid bounds what an origin has of each kind: orders and the memory of gates, of which
	// there is one for each group, and addresses. It bounds the marks of a group and the changes of
	// a part of its history, too.
	maxSaid = 50_000
	// maxDamages bounds the damages that are described one by one.
	maxDamages = 1000
	// roomStep is how many records are read from one look at the memory to the next.
	roomStep = 1024
)

// Room reports whether the process may take so many bytes of memory more; 0: whether it may go on.
// Nil: it may.
type Room func(bytes int64) bool

func (r Room) has(bytes int64) bool { return r == nil || r(bytes) }

// errShort says that there is no room for more.
var errShort = errors.New("memory is short: not all of it was read")

func tooMany(most int, what string) error {
	return fmt.Errorf("its metadata have more than %d %s", most, what)
}

// described adds a damage to a list. Of very many it describes the first, and the others together.
func described(all []Damage, d Damage) []Damage {
	switch last := len(all) - 1; {
	case last < maxDamages-1:
		return append(all, d)
	case last < maxDamages:
		d.more = 1
		return append(all, d.together())
	default:
		x := &all[last]
		x.Length, x.more = d.Offset+d.Length-x.Offset, x.more+1
		*x = x.together()
		return all
	}
}

func (d Damage) together() Damage {
	d.What = fmt.Sprintf("%d more parts up to here", d.more)
	return d
}
