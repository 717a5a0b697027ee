package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
)

// Damage is a part of a file that cannot be read.
type Damage struct {
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	// What is for people.
	What string `json:"what"`
}

// String is for a line of its own after the file's name.
func (d Damage) String() string {
	return fmt.Sprintf("at offset %d, %d bytes: %s", d.Offset, d.Length, d.What)
}

// scanner finds the records of a file, damaged or not. It allocates nothing in proportion to what
// the bytes claim.
type scanner struct {
	data    []byte
	mark    mark
	damages []Damage
	// tail is where the last write was cut off, as a process that dies leaves it; len(data) if it
	// was not.
	tail int
}

// records are all that are whole, with their offsets. What lies between them is in damages
// afterwards. Strings and slices are parts of the data.
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
				s.damages = append(s.damages, Damage{int64(at), int64(size), fault})
			}
			at += size
		}
	}
}

// read is the record at an offset. With a fault, the size is known only if the record's head is
// whole.
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

// cutOff reports whether what begins at an offset is what is left of a write that was cut off: the
// beginning of a record and then the end of the file, or space that the file system had made and
// nothing was written to.
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

// skip is how far it is to where the next record may begin.
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
