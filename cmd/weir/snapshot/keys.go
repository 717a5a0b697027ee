package snapshot

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Keys are what a snapshot is encrypted with: the first encrypts, and each decrypts. They are
// immutable. A nil *Keys is none: then the snapshot is written in plain text.
type Keys struct{ all []key }

// key is one key of 32 bytes, and what it is called.
type key struct {
	secret [keySize]byte
	id     keyID
}

// keyID is what a file names its key by. Nothing of the key follows from it.
type keyID [8]byte

// String returns the id as people see it.
func (id keyID) String() string { return hex.EncodeToString(id[:]) }

const (
	keySize = 32
	// maxKeys is how many keys a file may have: two while they are rotated.
	maxKeys = 2
	// maxKeyFile bounds what is read of a file, in bytes.
	maxKeyFile = 64 << 10
)

func newKey(secret []byte) key {
	k := key{secret: [keySize]byte(secret)}
	copy(k.id[:], derive(secret, nil, "weir snapshot key id", len(k.id)))
	return k
}

// derive is HKDF-SHA256.
func derive(secret, salt []byte, info string, size int) []byte {
	out, err := hkdf.Key(sha256.New, secret, salt, info, size)
	if err != nil {
		panic(err) // cannot happen: the sizes are constants
	}
	return out
}

// ReadKeys reads a key file: a line for each key, 32 bytes in base64 or in hexadecimal, as
// `openssl rand -base64 32` or `openssl rand -hex 32` writes them. Empty lines and those that begin
// with # are skipped. Errors name file and line, and say nothing of what is in it. warning: others
// than the owner's group may read it.
func ReadKeys(path string) (_ *Keys, warning, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, nil, err
	}
	k, err := parseKeys(path, text)
	if err != nil {
		return nil, nil, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		warning = fmt.Errorf("%s: every user of this machine can read it (mode %04o)", path, mode)
	}
	return k, warning, nil
}

func parseKeys(path string, text []byte) (*Keys, error) {
	k := &Keys{}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%s: has more than %d bytes", path, maxKeyFile)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		secret, err := decodeKey(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		case len(k.all) == maxKeys:
			return nil, fmt.Errorf("%s:%d: is one key too many: the first encrypts, and one more may decrypt", path, n)
		case len(k.all) == 1 && k.all[0].secret == [keySize]byte(secret):
			return nil, fmt.Errorf("%s:%d: is the same key again", path, n)
		}
		k.all = append(k.all, newKey(secret))
	}
	if len(k.all) == 0 {
		return nil, fmt.Errorf("%s: has no key", path)
	}
	return k, nil
}

var errKey = errors.New("is not 32 bytes in base64 or hexadecimal")

func decodeKey(line string) ([]byte, error) {
	decode := base64.StdEncoding.DecodeString
	if len(line) == hex.EncodedLen(keySize) {
		decode = hex.DecodeString
	}
	secret, err := decode(line)
	if err != nil || len(secret) != keySize {
		return nil, errKey // the library's error quotes the text
	}
	return secret, nil
}

// find returns the key of an id; nil: it is not among them.
func (k *Keys) find(id keyID) *key {
	if k != nil {
		for i := range k.all {
			if k.all[i].id == id {
				return &k.all[i]
			}
		}
	}
	return nil
}

// ID is what the key that encrypts is called; "": there is none.
func (k *Keys) ID() string {
	if k == nil {
		return ""
	}
	return k.all[0].id.String()
}

// ids lists what the keys are called; "": there are none.
func (k *Keys) ids() string {
	if k == nil {
		return ""
	}
	var ids []string
	for i := range k.all {
		ids = append(ids, k.all[i].id.String())
	}
	return strings.Join(ids, " and ")
}

// same reports whether both encrypt with the same key.
func (k *Keys) same(other *Keys) bool { return k.ID() == other.ID() }
