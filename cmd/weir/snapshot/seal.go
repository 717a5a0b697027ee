package snapshot

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// An encrypted file is a file in plain text (format.go), sealed in blocks of one size. The first
// block is a header, which is not secret. Each write of the file, the first one and each that was
// appended, is a row of blocks of its own:
//
//	salt of the write | AES-256-GCM of: payload, zeros, length of the payload, flags | tag
//
// The key of a write is derived from the key in the key file, the header of the file and the salt
// of the write, which are random. So a write that failed half-way and is repeated in the same place
// uses no key and nonce twice. The nonce is the number of the block in the file, so a block opens
// in its own place alone. The last block of a write says that it is the last.
//
// A block that does not open costs what is in it, as damage does in plain text: the reader takes it
// for zeros, and the records in it do not pass their checksums.

const (
	sealedMagic = "weirseal"
	sealedMajor = 1
	sealedMinor = 0

	blockSize  = 4096
	saltSize   = 16 // of a write
	tagSize    = 16
	trailer    = 3 // length of the payload, and flags
	maxPayload = blockSize - saltSize - tagSize - trailer
	// The second copy of the header is in another sector of the disk.
	secondCopy = blockSize / 2

	firstOfWrite = 1
	lastOfWrite  = 2
)

// sealedHeader is the header of an encrypted file.
type sealedHeader struct {
	major, minor uint16
	key          keyID
	salt         [32]byte // of the file
}

// sealedFields is the length of the fields of a sealedHeader.
const sealedFields = 64

func (h *sealedHeader) fields() []byte {
	b := make([]byte, sealedFields)
	copy(b, sealedMagic)
	binary.LittleEndian.PutUint16(b[8:], h.major)
	binary.LittleEndian.PutUint16(b[10:], h.minor)
	copy(b[16:], h.key[:])
	copy(b[24:], h.salt[:])
	return b
}

// encode returns the first block of the file.
func (h *sealedHeader) encode() []byte {
	b := make([]byte, blockSize)
	for _, at := range []int{0, secondCopy} {
		copy(b[at:], h.fields())
		sumUp(b[at : at+copySize])
	}
	return b
}

// envelope encrypts one file. A nil *envelope is a file in plain text.
type envelope struct {
	header sealedHeader
	key    *key
}

func newEnvelope(k *Keys) *envelope {
	if k == nil {
		return nil
	}
	e := &envelope{key: &k.all[0], header: sealedHeader{major: sealedMajor, minor: sealedMinor, key: k.all[0].id}}
	_, _ = rand.Read(e.header.salt[:]) // never fails
	return e
}

// aead returns the cipher of a write.
func (e *envelope) aead(salt []byte) cipher.AEAD {
	block, err := aes.NewCipher(derive(e.key.secret[:], salt, "weir snapshot\x00"+string(e.header.fields()), keySize))
	if err != nil {
		panic(err) // cannot happen: the key has 32 bytes
	}
	a, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // cannot happen: these are the sizes of GCM
	}
	return a
}

// payloadOf is how long the payload of a block may be. The two copies of the header in plain text
// are in blocks of their own, so that damage to one does not cost the file.
func payloadOf(number int64) int {
	if number <= headerSize/copySize {
		return copySize
	}
	return maxPayload
}

// nonce is that of a block, by its number in the file.
func nonce(number int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), uint64(number))
}

// write writes to w what fill writes, as one write of the file from the offset at. It returns the
// number of bytes in the file.
func (e *envelope) write(w io.Writer, at int64, fill func(io.Writer) (int64, error)) (int64, error) {
	if e == nil {
		return fill(w)
	}
	s := sealer{to: w, number: at / blockSize, flags: firstOfWrite, block: make([]byte, 0, blockSize)}
	if at == 0 {
		s.sealed = e.header.encode()
		s.number++
	}
	_, _ = rand.Read(s.salt[:]) // never fails
	s.aead = e.aead(s.salt[:])
	if _, err := fill(&s); err != nil {
		return 0, err
	}
	s.seal(lastOfWrite)
	err := s.flush()
	return s.size, err
}

// sealer seals one write. A block is sealed when there is more after it, so the last one is known.
type sealer struct {
	to     io.Writer
	aead   cipher.AEAD
	salt   [saltSize]byte
	number int64 // of the block that is filled
	flags  byte  // of it
	block  []byte
	sealed []byte // blocks that are not written yet
	size   int64  // of those that are
}

// Write implements io.Writer.
func (s *sealer) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(s.block) == payloadOf(s.number) {
			s.seal(0)
		}
		room := min(len(b), payloadOf(s.number)-len(s.block))
		s.block, b = append(s.block, b[:room]...), b[room:]
	}
	return n, s.flush()
}

func (s *sealer) seal(flags byte) {
	n := len(s.block)
	s.block = s.block[:maxPayload+trailer]
	clear(s.block[n:])
	binary.LittleEndian.PutUint16(s.block[maxPayload:], uint16(n))
	s.block[maxPayload+2] = s.flags | flags
	s.sealed = append(s.sealed, s.salt[:]...)
	s.sealed = s.aead.Seal(s.sealed, nonce(s.number), s.block, nil)
	s.block, s.flags = s.block[:0], 0
	s.number++
}

func (s *sealer) flush() error {
	if len(s.sealed) == 0 {
		return nil
	}
	n, err := s.to.Write(s.sealed)
	s.size += int64(n)
	s.sealed = s.sealed[:0]
	return err
}

// KeyError says that a file is encrypted with a key that is not at hand.
type KeyError struct {
	// ID is what the key is called. Have are the keys that there are; "": there is no key file.
	ID, Have string
}

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
	b, damages, err := wholeCopy(data, sealedMagic, sealedMajor, secondCopy)
	if err != nil {
		return h, nil, err
	}
	h.major, h.minor = binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
	copy(h.key[:], b[16:])
	copy(h.salt[:], b[24:])
	return h, damages, nil
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
