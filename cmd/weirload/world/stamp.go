package world

import (
	"bytes"
	"time"
)

// Stamp is the start of a change, in nanoseconds of the wall clock.
type Stamp int64

const (
	mark   = "weirload:"
	digits = 16
	// DigitsAt is the offset of the digits in the text of a stamp.
	DigitsAt = len(mark)
	// stampBytes is the length of the text of a stamp.
	stampBytes = len(mark) + digits
)

// Now returns the stamp of a change that begins now.
func Now() Stamp { return Stamp(time.Now().UnixNano()) }

// Time returns the start of the change.
func (s Stamp) Time() time.Time { return time.Unix(0, int64(s)) }

// String returns the text of the stamp in a resource.
func (s Stamp) String() string {
	var b [stampBytes]byte
	copy(b[:], mark)
	s.Put(b[len(mark):])
	return string(b[:])
}

// Digits returns only the hexadecimal digits of the stamp.
func (s Stamp) Digits() string { return s.String()[len(mark):] }

// Put writes the digits to the front of b.
func (s Stamp) Put(b []byte) {
	const hexDigits = "0123456789abcdef"
	for i, v := digits-1, uint64(s); i >= 0; i, v = i-1, v>>4 {
		b[i] = hexDigits[v&15]
	}
}

// parse reads the digits at the front of b; false if there are none. Clients call it a thousand
// times for each SotW response.
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

// Find returns the first stamp in an encoded resource or response, and its offset. It decodes
// nothing.
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

// At returns the stamp at an offset; false if there is none.
func At(b []byte, at int) (Stamp, bool) {
	if len(b) < at+stampBytes || string(b[at:at+len(mark)]) != mark {
		return 0, false
	}
	return parse(b[at+len(mark):])
}

// ParseDigits parses the result of Digits.
func ParseDigits(s string) (Stamp, bool) {
	if len(s) != digits {
		return 0, false
	}
	return parse([]byte(s))
}
