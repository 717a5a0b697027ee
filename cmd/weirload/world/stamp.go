package world

import (
	"bytes"
	"time"
)

// Stamp is when a change began, in nanoseconds of the wall clock.
type Stamp int64

const (
	mark   = "weirload:"
	digits = 16
	// DigitsAt is where in the text of a stamp its digits begin.
	DigitsAt = len(mark)
	// stampBytes is the length of the text of a stamp.
	stampBytes = len(mark) + digits
)

// Now is the stamp of a change that begins now.
func Now() Stamp { return Stamp(time.Now().UnixNano()) }

// Time is the moment the change began.
func (s Stamp) Time() time.Time { return time.Unix(0, int64(s)) }

// String is the text of the stamp as it stands in a resource.
func (s Stamp) String() string {
	var b [stampBytes]byte
	copy(b[:], mark)
	s.Put(b[len(mark):])
	return string(b[:])
}

// Digits are the hexadecimal digits of the stamp alone.
func (s Stamp) Digits() string { return s.String()[len(mark):] }

// Put writes the digits to the front of b.
func (s Stamp) Put(b []byte) {
	const hexDigits = "0123456789abcdef"
	for i, v := digits-1, uint64(s); i >= 0; i, v = i-1, v>>4 {
		b[i] = hexDigits[v&15]
	}
}

// parse reads the digits at the front of b; false if there are none. Clients do it a thousand times
// for each response in state of the world.
func parse(b []byte) (Stamp, bool) {
	if len(b) < digits {
		return 0, false
	}
	var v uint64
	for _, c := range b[:digits] {
		var d byte
		switch {
		case '0' <= c && c <= '9':
			d = c - '0'
		case 'a' <= c && c <= 'f':
			d = c - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(d)
	}
	return Stamp(v), true
}

// Find looks for a stamp in the encoded form of a resource or of a whole response, and gives the
// first and where it stands. It decodes nothing.
func Find(b []byte) (s Stamp, at int, ok bool) {
	for {
		i := bytes.Index(b[at:], []byte(mark))
		if i < 0 {
			return 0, 0, false
		}
		at += i
		if s, ok := At(b, at); ok {
			return s, at, true
		}
		at += len(mark)
	}
}

// At is the stamp that stands at a place; false if none does.
func At(b []byte, at int) (Stamp, bool) {
	if len(b) < at+stampBytes || string(b[at:at+len(mark)]) != mark {
		return 0, false
	}
	return parse(b[at+len(mark):])
}

// ParseDigits reads what Digits writes.
func ParseDigits(s string) (Stamp, bool) {
	if len(s) != digits {
		return 0, false
	}
	return parse([]byte(s))
}
