package snapshot

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// KeyError says that a file is encrypted with a key that is not at hand.
type KeyError struct {
	// ID is what the key is called. Have are the keys that there are; "": there is no key file.
	ID, Have string
}

// Error implements error.
func (e *KeyError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("it is encrypted with the key %s, and no key file is given", e.ID)
	}
	return fmt.Sprintf("it is encrypted with the key %s, and the key file has %s", e.ID, e.Have)
}

// sealedContent is an encrypted file, decrypted.
type sealedContent struct {
	key     string // what its key is called; "": the file is in plain text
	plain   []byte // the file as it would be in plain text; what does not open is zeros
	cutOff  int64  // length of a block that is not whole, at the end of the file
	damages []Damage
}

// unseal decrypts a file in place. A file in plain text stays as it is.
func unseal(data []byte, keys *Keys) (c sealedContent, err error) {
	h, damages, err := readSealedHeader(data)
	switch {
	case errors.Is(err, errNoHeader):
		return sealedContent{plain: data}, nil // parse says so if it is no snapshot either
	case err != nil:
		return c, err
	}
	e := &envelope{header: h, key: keys.find(h.key)}
	if e.key == nil {
		return c, &KeyError{h.key.String(), keys.ids()}
	}
	u := unsealer{envelope: e, data: data, sealedContent: sealedContent{key: h.key.String(), plain: data[:0], damages: damages}}
	u.blocks()
	return u.sealedContent, nil
}

func readSealedHeader(data []byte) (h sealedHeader, damages []Damage, err error) {
	found := false
	for _, at := range []int{0, secondCopy} {
		switch x, ok := readSealedCopy(data, at); {
		case !ok:
			damages = append(damages, Damage{Offset: int64(at), Length: copySize, What: "a copy of the header is damaged"})
		case !found:
			h, found = x, true
		}
	}
	switch {
	case found && h.major == sealedMajor:
		return h, damages, nil
	case found:
		return h, nil, &VersionError{h.major, sealedMajor}
	case len(data) >= 10 && string(data[:8]) == sealedMagic:
		if major := binary.LittleEndian.Uint16(data[8:]); major != sealedMajor {
			return h, nil, &VersionError{major, sealedMajor}
		}
	}
	return h, nil, errNoHeader
}

func readSealedCopy(data []byte, at int) (h sealedHeader, ok bool) {
	if len(data) < at+copySize {
		return h, false
	}
	b := data[at : at+copySize]
	if string(b[:8]) != sealedMagic || binary.LittleEndian.Uint32(b[copySize-4:]) != crc32.Checksum(b[:copySize-4], castagnoli) {
		return h, false
	}
	h.major, h.minor = binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
	copy(h.key[:], b[16:])
	copy(h.salt[:], b[24:])
	return h, true
}

// unsealer decrypts the blocks of a file, each in its place, and moves what is in them together.
type unsealer struct {
	*envelope
	sealedContent
	data []byte

	aead cipher.AEAD // of the write that the last block was of; nil: there was none
	salt [saltSize]byte
	open bool // the last block of that write has not come
	bad  bool // the block before did not open
}

func (u *unsealer) blocks() {
	end := len(bytes.TrimRight(u.data, "\x00")) // beyond it the file system has made room, and no more
	for at := blockSize; at < len(u.data); at += blockSize {
		if len(u.data)-at < blockSize || at >= end {
			u.cutOff = int64(len(u.data) - at)
			return
		}
		u.block(at)
	}
}

// zeros stand for a block that does not open.
var zeros [maxPayload]byte

// block decrypts the block at an offset.
func (u *unsealer) block(at int) {
	b := u.data[at : at+blockSize]
	aead, another := u.aead, !bytes.Equal(b[:saltSize], u.salt[:])
	if aead == nil || another {
		aead, another = u.envelope.aead(b[:saltSize]), true
	}
	salt := [saltSize]byte(b)
	number := int64(at / blockSize)
	x, err := aead.Open(b[saltSize:saltSize], nonce(number), b[saltSize:], nil)
	n := payloadOf(number)
	if err == nil {
		n = int(binary.LittleEndian.Uint16(x[maxPayload:]))
	}
	if err != nil || n > payloadOf(number) {
		u.damaged(at, "a block does not open: it is damaged, or was not written with the key")
		u.plain = append(u.plain, zeros[:payloadOf(number)]...)
		u.bad = true
		return
	}
	flags := x[maxPayload+2]
	if first := flags&firstOfWrite != 0; !u.bad && (first != another || first && u.open) {
		u.damaged(at, "a part of a write is missing before it")
	}
	u.aead, u.salt, u.open, u.bad = aead, salt, flags&lastOfWrite == 0, false
	u.plain = append(u.plain, x[:n]...) // it is left of where x is
}

func (u *unsealer) damaged(at int, what string) {
	u.damages = described(u.damages, Damage{Offset: int64(at), Length: blockSize, What: what})
}
