package snapshot

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// sealedWrites are writes of one file: of many blocks, of some, and of one.
func sealedWrites() [][]record {
	return [][]record{
		{
			{class: classOrigin, key: "mesh", meta: appendText(nil, 1, "m")},
			{class: classShard, key: shardName(1), meta: appendText(nil, 1, "one")},
			item(1, "a", strings.Repeat("first", 3000)), item(1, "b", "hush"), item(1, "c", strings.Repeat("c", maxPayload)),
		},
		{item(1, "a", strings.Repeat("second", 1000)), gone(item(1, "b", ""))},
		{item(1, "d", "new")},
	}
}

// sealed is an encrypted file, what a reader must find after each write, and where it ends.
func sealed(t testing.TB, keys *Keys) (data []byte, states []string, ends []int) {
	t.Helper()
	m := newMemory()
	l := &log{files: m, path: testFile, deployment: "edge", keys: keys}
	plain := &log{files: newMemory(), path: testFile}
	for i, records := range sealedWrites() {
		for _, l := range []*log{l, plain} {
			err := l.append
			if i == 0 {
				err = l.replace
			}
			if err := err(start.Add(time.Duration(i)*time.Second), slices.Values(records), LeftOut{}); err != nil {
				t.Fatal(err)
			}
		}
		data = m.files[testFile].data
		if int64(len(data)) != l.size {
			t.Fatalf("the file has %d bytes, and its writer says %d", len(data), l.size)
		}
		states = append(states, stateOf(t, plain.files.(*memory).files[testFile].data))
		ends = append(ends, len(data))
	}
	return data, states, ends
}

// opened reads a copy of an encrypted file.
func opened(t testing.TB, data []byte, keys *Keys) *Content {
	t.Helper()
	c, err := Decode("x", slices.Clone(data), keys)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSealed: what was written with a key is read with it, after each write, and nothing of it is
// in the file as it is.
func TestSealed(t *testing.T) {
	keys := testKeys(t, 'x')
	data, states, ends := sealed(t, keys)
	for i, end := range ends {
		c := opened(t, data[:end], keys)
		if got := stateText(c); got != states[i] || len(c.Report.Damages) > 0 || c.Report.CutOff != 0 || c.Report.Key != keys.ID() || c.Report.Bytes != int64(end) {
			t.Errorf("after write %d: %+v\n%.200s\nwant\n%.200s", i, c.Report, got, states[i])
		}
	}
	for _, text := range []string{"hush", "edge", "shard-", magic, "first"} {
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("the file has %q", text)
		}
	}
	if len(data)%blockSize != 0 || ends[2]-ends[1] != blockSize {
		t.Errorf("ends at %d", ends)
	}
	again, _, _ := sealed(t, keys)
	for at := blockSize; at < len(data); at += blockSize {
		if bytes.Equal(data[at+saltSize:at+blockSize], again[at+saltSize:at+blockSize]) {
			t.Errorf("block %d is the same in two files", at/blockSize)
		}
	}
}

// TestRotatedKeys: each key of a file decrypts, and any other, or none, is said by name.
func TestRotatedKeys(t *testing.T) {
	old := testKeys(t, 'x')
	data, states, _ := sealed(t, old)
	if got := stateText(opened(t, data, testKeys(t, 'y', 'x'))); got != states[2] {
		t.Errorf("with a second key: %.200s", got)
	}
	for text, keys := range map[string]*Keys{
		"x: it is encrypted with the key " + old.ID() + ", and no key file is given":                            nil,
		"x: it is encrypted with the key " + old.ID() + ", and the key file has " + testKeys(t, 'y', 'z').ids(): testKeys(t, 'y', 'z'),
	} {
		var e *KeyError
		if _, err := Decode("x", slices.Clone(data), keys); !errors.As(err, &e) || err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

// TestSealedCutAnywhere: a file that ends anywhere after its first write is the state of an earlier
// one, and nothing to complain of. One that ends before is damaged.
func TestSealedCutAnywhere(t *testing.T) {
	keys := testKeys(t, 'x')
	data, states, ends := sealed(t, keys)
	for n := 2 * blockSize; n <= len(data); n += 61 {
		c := opened(t, data[:n], keys)
		i := len(ends) - 1
		for i >= 0 && ends[i] > n {
			i--
		}
		switch {
		case i < 0:
			if len(c.Report.Damages) == 0 {
				t.Fatalf("cut at %d, in the first write: no damage is told", n)
			}
		case stateText(c) != states[i] || len(c.Report.Damages) > 0 || c.Report.CutOff == 0 && n != ends[i]:
			t.Fatalf("cut at %d: %+v", n, c.Report)
		}
	}
	c := opened(t, append(slices.Clone(data), make([]byte, 3*blockSize)...), keys)
	if stateText(c) != states[2] || len(c.Report.Damages) > 0 || c.Report.CutOff != 3*blockSize {
		t.Errorf("zeros at the end: %+v", c.Report)
	}
}

// spoilt reads a file that somebody changed. Each record in it must be one that was written.
func spoilt(t testing.TB, data []byte, keys *Keys) *Content {
	t.Helper()
	c, err := Decode("x", slices.Clone(data), keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.shards {
		for _, r := range s.items {
			if !wasWritten(&r) {
				t.Fatalf("a record that never was: %.60q", r.key)
			}
		}
	}
	return c
}

func wasWritten(r *record) bool {
	for _, records := range sealedWrites() {
		if slices.ContainsFunc(records, func(x record) bool {
			return x.class == r.class && x.key == r.key && bytes.Equal(x.meta, r.meta) && bytes.Equal(x.body, r.body)
		}) {
			return true
		}
	}
	return false
}

// TestSealedFlipAnywhere: any one byte costs what is in its block at most, and is told with its
// place.
func TestSealedFlipAnywhere(t *testing.T) {
	keys := testKeys(t, 'x')
	data, states, _ := sealed(t, keys)
	for at := 0; at < len(data); at += 61 {
		bad := slices.Clone(data)
		bad[at] ^= 0x40
		c := spoilt(t, bad, keys)
		block := int64(at / blockSize * blockSize)
		told := slices.ContainsFunc(c.Report.Damages, func(d Damage) bool { return d.Offset >= block && d.Offset < block+blockSize })
		unused := block == 0 && at%secondCopy >= copySize
		if !told && !unused {
			t.Fatalf("byte %d: not told in %+v", at, c.Report)
		}
		if block <= 2*blockSize && stateText(c) != states[2] {
			t.Fatalf("byte %d of a header cost more than itself", at)
		}
		if block == 4*blockSize && !strings.Contains(stateText(c), `"new"`) {
			t.Fatalf("byte %d cost what is in other blocks: %.300s", at, stateText(c))
		}
	}
}

// TestSealedReordered: blocks that were moved, repeated, left out, or taken from another file of
// the same key.
func TestSealedReordered(t *testing.T) {
	keys := testKeys(t, 'x')
	data, _, ends := sealed(t, keys)
	other, _, _ := sealed(t, keys)
	block := func(i int) []byte { return data[i*blockSize : (i+1)*blockSize] }
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	last := len(data)/blockSize - 1
	for name, bad := range map[string][]byte{
		"moved":            join(data[:2*blockSize], block(3), block(2), data[4*blockSize:]),
		"repeated":         join(data[:3*blockSize], block(2), data[3*blockSize:]),
		"left out":         join(data[:2*blockSize], data[3*blockSize:]),
		"last of a write":  join(data[:ends[1]-blockSize], data[ends[1]:]),
		"a write left out": join(data[:ends[0]], data[ends[1]:]),
		"writes swapped":   join(data[:ends[0]], data[ends[1]:], data[ends[0]:ends[1]]),
		"another file's":   join(data[:2*blockSize], other[2*blockSize:3*blockSize], data[3*blockSize:]),
		"another's end":    join(data[:ends[1]], other[ends[1]:]),
		"appended":         join(data, block(last)),
	} {
		c := spoilt(t, bad, keys)
		if len(c.Report.Damages) == 0 {
			t.Errorf("%s: not told", name)
		}
	}
	if _, err := Decode("x", join(other[:blockSize], data[blockSize:]), keys); err == nil {
		t.Error("another file's header: not told")
	}
	// What a writer of the same file wrote in the same place before, and then took back.
	m := newMemory()
	l := &log{files: m, path: testFile, keys: keys}
	if err := l.replace(start, slices.Values(sealedWrites()[0]), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	many := []record{item(1, "a", strings.Repeat("x", 3*maxPayload))}
	if err := l.append(start, slices.Values(many), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	whole := slices.Clone(m.files[testFile].data)
	l.size = int64(ends[0])
	if err := l.append(start, slices.Values(many), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	mixed := join(m.files[testFile].data[:ends[0]+blockSize], whole[ends[0]+blockSize:])
	if c := opened(t, mixed, keys); len(c.Report.Damages) == 0 {
		t.Error("two writes that were mixed: not told")
	}
}

// TestNoNonceTwice: a write that failed, and is repeated in its place, is encrypted with another
// key.
func TestNoNonceTwice(t *testing.T) {
	m := newMemory()
	l := &log{files: m, path: testFile, keys: testKeys(t, 'x')}
	if err := l.replace(start, slices.Values(sealedWrites()[0]), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	size := int(l.size)
	seen := map[string]bool{}
	for range 3 {
		if err := l.append(start, slices.Values(sealedWrites()[2]), LeftOut{}); err != nil {
			t.Fatal(err)
		}
		l.size = int64(size) // as after an error
		seen[string(m.files[testFile].data[size+saltSize:size+blockSize])] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d forms of three equal writes in the same place", len(seen))
	}
}

// FuzzUnseal: whatever somebody without the key makes of a file, no record is made up, and nothing
// panics.
func FuzzUnseal(f *testing.F) {
	keys := testKeys(f, 'x')
	data, _, _ := sealed(f, keys)
	f.Add(uint16(0), uint16(0), []byte{})
	for i := range len(data) / blockSize {
		f.Add(uint16(i*blockSize+5), uint16(1), []byte{0x55})
		f.Add(uint16(i*blockSize), uint16(blockSize), data[:blockSize])
	}
	f.Add(uint16(100), uint16(9), bytes.Repeat([]byte{0}, 300))
	f.Fuzz(func(t *testing.T, at, lost uint16, instead []byte) {
		from := min(int(at), len(data))
		to := min(from+int(lost), len(data))
		bad := slices.Concat(data[:from], instead, data[to:])
		c, err := Decode("x", slices.Clone(bad), keys)
		if err != nil || c.Report.Key == "" { // the header is gone; or it says that it is in plain text
			return
		}
		spoilt(t, bad, keys)
	})
}
