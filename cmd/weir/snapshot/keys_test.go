package snapshot

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testKey is a key of equal bytes, as a key file has it.
func testKey(b byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string([]byte{b}), keySize)))
}

func testKeys(t testing.TB, bytes ...byte) *Keys {
	t.Helper()
	var lines []string
	for _, b := range bytes {
		lines = append(lines, testKey(b))
	}
	k, err := parseKeys("keys", []byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestParseKeys: what a key file may say. Errors name file and line, and quote nothing.
func TestParseKeys(t *testing.T) {
	hexed := hex.EncodeToString([]byte(strings.Repeat("x", keySize)))
	for text, want := range map[string]string{
		testKey('x') + "\n": "",
		hexed:               "",
		"# new\n  " + hexed + "\n\n#old\n" + testKey('y'): "",
		"":                                "keys: has no key",
		"# nothing\n":                     "keys: has no key",
		"# a\n" + testKey('x')[1:]:        "keys:2: is not 32 bytes in base64 or hexadecimal",
		testKey('x')[:20]:                 "keys:1: is not 32 bytes",
		hexed[:63] + "g":                  "keys:1: is not 32 bytes",
		testKey('x') + " " + testKey('y'): "keys:1: is not 32 bytes",
		testKey('x') + "\n\n" + hexed:     "keys:3: is the same key again",
		testKey('a') + "\n" + testKey('b') + "\n" + testKey('c'): "keys:3: is one key too many",
		strings.Repeat("#", maxKeyFile+1):                        "keys: has more than 65536 bytes",
	} {
		k, err := parseKeys("keys", []byte(text))
		switch {
		case want == "":
			if err != nil || k.find(testKeys(t, 'x').all[0].id) == nil {
				t.Errorf("%q: %v", text, err)
			}
		case err == nil || !strings.HasPrefix(err.Error(), want):
			t.Errorf("%.80q: %v, want %s", text, err, want)
		case strings.Contains(err.Error(), hexed[:10]), strings.Contains(err.Error(), testKey('x')[:10]):
			t.Errorf("the error quotes the key: %v", err)
		}
	}
}

// TestReadKeys: a file that everybody may read is warned of, and one that is not there is an error.
func TestReadKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if _, _, err := ReadKeys(path); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte(testKey('x')), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, warned := range map[os.FileMode]bool{0o400: false, 0o440: false, 0o644: true, 0o604: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		k, warning, err := ReadKeys(path)
		if err != nil || k.ID() != testKeys(t, 'x').ID() || warned != (warning != nil) {
			t.Errorf("mode %04o: %v, %v", mode, warning, err)
		}
	}
	if id := testKeys(t, 'x').ID(); id == testKeys(t, 'y').ID() || len(id) != 16 {
		t.Errorf("id %s", id)
	}
}
