package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const testFile = "/dir/" + fileName

func shardName(i int) string { return fmt.Sprintf("shard-%010d", i) }

func item(shard int, name, body string) record {
	return record{class: classItem, key: shardName(shard) + name, meta: appendText(nil, 1, name), body: []byte(body)}
}

func gone(r record) record {
	return record{class: classRemove, key: string([]byte{byte(r.class)}) + r.key}
}

// written is a file of several writes, and what a reader must find after each, with where it ends.
func written(t testing.TB) (data []byte, states []string, ends []int) {
	m := newMemory()
	l := &log{files: m, path: testFile, deployment: "edge"}
	writes := [][]record{
		{
			{class: classOrigin, key: "mesh", meta: appendText(nil, 1, "m")},
			{class: classShard, key: shardName(1), meta: appendText(nil, 1, "one")},
			{class: classShard, key: shardName(2), meta: appendText(nil, 1, "two")},
			item(1, "a", "first"), item(1, "b", strings.Repeat("b", 70)), item(2, "a", ""), item(2, "c", "third"),
		},
		{item(1, "a", "second"), gone(item(1, "b", ""))},
		{gone(record{class: classShard, key: shardName(2)}), item(1, "d", "new")},
	}
	for i, records := range writes {
		var err error
		if i == 0 {
			err = l.replace(start, slices.Values(records), LeftOut{})
		} else {
			err = l.append(start.Add(time.Duration(i)*time.Second), slices.Values(records), LeftOut{})
		}
		if err != nil {
			t.Fatal(err)
		}
		data = m.files[testFile].data
		states, ends = append(states, stateOf(t, data)), append(ends, len(data))
	}
	return data, states, ends
}

func stateOf(t testing.TB, data []byte) string {
	t.Helper()
	c, err := parse("x", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stateText(c)
}

// stateText is a content in a form that compares.
func stateText(c *Content) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.origins)) {
		fmt.Fprintf(&b, "origin %s\n", name)
	}
	for _, key := range slices.Sorted(maps.Keys(c.shards)) {
		s := c.shards[key]
		fmt.Fprintf(&b, "shard %q head %q\n", key, s.head.meta)
		for _, name := range slices.Sorted(maps.Keys(s.items)) {
			fmt.Fprintf(&b, "  %q %q %q\n", name, s.items[name].meta, s.items[name].body)
		}
	}
	return b.String()
}

func TestEveryWriteCounts(t *testing.T) {
	_, states, _ := written(t)
	want := []string{"first", "second", "new"}
	for i, s := range states {
		if !strings.Contains(s, want[i]) {
			t.Errorf("after write %d: no %q in\n%s", i, want[i], s)
		}
	}
	if last := states[2]; strings.Contains(last, "bbb") || strings.Contains(last, "third") {
		t.Errorf("what was removed is there:\n%s", last)
	}
}

// TestCutAnywhere: a file that ends anywhere after its first write is the state of an earlier one,
// and nothing to complain of. One that ends before never was in place, and is damaged.
func TestCutAnywhere(t *testing.T) {
	data, states, ends := written(t)
	for n := range len(data) + 1 {
		c, err := parse("x", data[:n], nil)
		if n < headerSize {
			if n < copySize != (err != nil) {
				t.Fatalf("cut at %d: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		i := len(ends) - 1
		for i >= 0 && ends[i] > n {
			i--
		}
		if i < 0 {
			if len(c.Report.Damages) == 0 {
				t.Fatalf("cut at %d, in the first write: no damage is told", n)
			}
			continue
		}
		if got := stateText(c); got != states[i] || len(c.Report.Damages) > 0 || c.Report.CutOff != int64(n-ends[i]) {
			t.Fatalf("cut at %d: damages %v, cut off %d, state\n%s\nwant %d cut off and\n%s", n, c.Report.Damages, c.Report.CutOff, got, n-ends[i], states[i])
		}
	}
}

// TestZerosAtTheEnd: space that was made for a write that a crash of the machine took away.
func TestZerosAtTheEnd(t *testing.T) {
	data, states, _ := written(t)
	c, err := parse("x", append(slices.Clone(data), make([]byte, 5000)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	if stateText(c) != states[2] || len(c.Report.Damages) != 0 || c.Report.CutOff != 5000 {
		t.Errorf("%+v", c.Report)
	}
}

// TestFlipAnywhere: any one byte costs the record it is in, and is told with its place.
func TestFlipAnywhere(t *testing.T) {
	data, _, _ := written(t)
	h, _, err := readHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	count := func(data []byte) (records map[int]string, s *scanner) {
		s = &scanner{data: data, mark: h.mark}
		records = map[int]string{}
		for at, r := range s.records() {
			records[at] = fmt.Sprintf("%d %q %q %q", r.class, r.key, r.meta, r.body)
		}
		return records, s
	}
	whole, _ := count(data)
	for at := range data {
		for _, bit := range []byte{1, 0x80, 0xff} {
			bad := slices.Clone(data)
			bad[at] ^= bit
			c, err := parse("x", bad, nil)
			if err != nil {
				t.Fatalf("byte %d: %v", at, err)
			}
			if at >= headerSize {
				got, _ := count(bad)
				for place, r := range got {
					if whole[place] != r {
						t.Fatalf("byte %d: a record that never was, at %d: %s", at, place, r)
					}
				}
				if len(got) != len(whole)-1 {
					t.Fatalf("byte %d: %d records are left of %d", at, len(got), len(whole))
				}
			}
			told := slices.ContainsFunc(c.Report.Damages, func(d Damage) bool {
				return int64(at) >= d.Offset && int64(at) < d.Offset+d.Length
			})
			cutOff := int64(at) >= int64(len(bad))-c.Report.CutOff
			if !told && !cutOff {
				t.Fatalf("byte %d: not told in %v", at, c.Report)
			}
		}
	}
}

// TestBodiesAreNotRecords: what a body holds is not taken for a record, not even beside damage.
func TestBodiesAreNotRecords(t *testing.T) {
	m := newMemory()
	l := &log{files: m, path: testFile}
	forged := item(1, "forged", "evil")
	inner := append(forged.appendHead(nil, mark{1, 2, 3}), forged.key...)
	inner = append(append(inner, forged.meta...), forged.body...)
	if err := l.replace(start, slices.Values([]record{item(1, "a", string(inner)), item(1, "b", "good")}), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	data := m.files[testFile].data
	data[headerSize+9] ^= 1 // the head before the body
	got := stateOf(t, data)
	if strings.Contains(got, "evil") || !strings.Contains(got, "good") {
		t.Error(got)
	}
}

// stamped is a file of another version.
func stamped(data []byte, major, minor uint16) []byte {
	out := slices.Clone(data)
	for _, b := range [][]byte{out[:copySize], out[copySize:headerSize]} {
		binary.LittleEndian.PutUint16(b[8:], major)
		binary.LittleEndian.PutUint16(b[10:], minor)
		binary.LittleEndian.PutUint32(b[copySize-4:], crc32.Checksum(b[:copySize-4], castagnoli))
	}
	return out
}

// TestVersions: a later minor version is read but for what is new in it; another major one is told
// apart from damage.
func TestVersions(t *testing.T) {
	m := newMemory()
	l := &log{files: m, path: testFile}
	future := record{class: 77, key: "?", meta: []byte("??")}
	known := item(1, "a", "kept")
	known.meta = appendBytes(appendNumber(known.meta, 1000, 7), 1001, []byte("new"))
	if err := l.replace(start, slices.Values([]record{future, known}), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	data := m.files[testFile].data
	c, err := parse("x", stamped(data, formatMajor, formatMinor+1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stateText(c), "kept") || c.Report.Unknown != 1 || len(c.Report.Damages) > 0 {
		t.Errorf("a later minor: %+v\n%s", c.Report, stateText(c))
	}
	var version *VersionError
	for _, other := range [][]byte{stamped(data, formatMajor+1, 0), stamped(data, formatMajor+1, 0)[:20]} {
		if _, err = parse("x", other, nil); !errors.As(err, &version) || version.Major != formatMajor+1 {
			t.Errorf("a later major: %v", err)
		}
	}
}

// FuzzParse: whatever the bytes, nothing is made up, and nothing panics. With good writes before
// them, none of those is lost.
func FuzzParse(f *testing.F) {
	data, _, ends := written(f)
	f.Add(data, uint16(len(data)))
	for i := 0; i < len(data); i += 13 {
		f.Add(data[i:], uint16(i))
	}
	f.Add(make([]byte, 400), uint16(ends[0]))
	states := map[int]string{}
	for _, end := range ends {
		states[end] = stateOf(f, data[:end])
	}
	f.Fuzz(func(t *testing.T, tail []byte, keep uint16) {
		_, _ = parse("x", tail, nil)
		good := data[:min(int(keep), len(data))]
		c, err := parse("x", append(slices.Clone(good), tail...), nil)
		if len(good) < headerSize {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		had, _ := parse("x", good, nil)
		if c.Report.Records < had.Report.Records || c.Report.Commits < had.Report.Commits {
			t.Errorf("of %d good records %d are left, of %d writes %d", had.Report.Records, c.Report.Records, had.Report.Commits, c.Report.Commits)
		}
		size := 0
		for _, s := range c.shards {
			for _, r := range s.items {
				size += int(r.size())
			}
		}
		if size > len(good)+len(tail) {
			t.Errorf("%d bytes of records in %d bytes", size, len(good)+len(tail))
		}
	})
}
