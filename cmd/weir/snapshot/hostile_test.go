package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// hostileFile is a whole file of these records, as one who can write it makes it.
func hostileFile(t *testing.T, records ...record) []byte {
	t.Helper()
	var b bytes.Buffer
	h := Header{Major: formatMajor, Minor: formatMinor, Created: start, Deployment: "weir", mark: newMark()}
	all := func(yield func(record) bool) {
		for _, r := range records {
			if !yield(r) {
				return
			}
		}
	}
	if _, err := writeFile(&b, &h, all, LeftOut{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// many is a field, again and again: two bytes each, which became up to three hundred.
func many(number protowire.Number, n int) []byte {
	return bytes.Repeat(appendBytes(nil, number, nil), n)
}

// TestHostileRecords: what is in a record is refused before it has cost much, and the rest is
// restored.
func TestHostileRecords(t *testing.T) {
	const n = 4 << 20
	x := relay.TypeImage{Origin: "mesh", Group: "g", TypeURL: relaytest.ClusterType}
	shard := shardKey(&x)
	head := record{class: classShard, key: shard, meta: shardHead(&x, nil)}
	pair := appendBytes(nil, 1, appendText(nil, 1, "k"))
	for name, row := range map[string]struct {
		records []record
		want    string
	}{
		"variants":  {[]record{head, {class: classItem, key: shard + "nx", meta: append(appendText(nil, 2, "x"), many(itemVariant, n)...)}}, "more than 10000 variants"},
		"sets":      {[]record{{class: classShard, key: shard, meta: append(head.meta, many(6, n)...)}}, "more than 100000 sets"},
		"params":    {[]record{{class: classShard, key: shard, meta: appendBytes(head.meta, 7, bytes.Repeat(pair, n/4))}}, "more than 1000 parameters"},
		"addresses": {[]record{head, {class: classOrigin, key: "mesh", meta: many(2, n)}}, ""},
		"orders":    {[]record{head, {class: classOrigin, key: "mesh", meta: many(6, n)}}, ""},
		"gates":     {[]record{head, {class: classOrigin, key: "mesh", meta: many(7, n)}}, ""},
		"marks":     {[]record{head, {class: classMarks, key: "mesh\x00g", meta: many(3, n)}}, ""},
		"changes": {[]record{
			head,
			{class: classHistory, meta: appendNumber(nil, 1, 7)},
			{class: classHistory, key: shard, meta: appendNumber(nil, 2, 1)},
			{class: classHistory, key: partRecord(shard, 0, nil).key, body: many(partChange, n)},
		}, ""},
		"node": {[]record{{class: classShard, key: shard, meta: append(shardHead(&x, []setSummary{{}}), appendBytes(nil, 3, many(5, n))...)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			data := hostileFile(t, row.records...)
			c, err := Decode("a file", data, nil)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := c.Restore(w.table, RestoreConfig{Now: start, Wall: start, Addresses: map[string][]string{"mesh": nil}})
			_ = c.groups()
			_, _ = c.Export(&bytes.Buffer{})
			runtime.ReadMemStats(&after)
			if said := fmt.Sprint(r.Problems); !strings.Contains(said, row.want) || len(said) > 1<<16 {
				t.Errorf("%.300s\nand not %s", said, row.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
				t.Errorf("%d MiB were allocated for %d bytes", took>>20, len(data))
			}
		})
	}
}

// TestManyDamages: a file that is damaged throughout is not described throughout.
func TestManyDamages(t *testing.T) {
	h := Header{Major: formatMajor, Minor: formatMinor, Created: start, Deployment: "weir", mark: newMark()}
	data := h.encode()
	for i := range 100_000 {
		r := record{class: classOrigin, key: "k"}
		data = append(r.appendHead(data, h.mark), 'x') // which is not what the head says
		if i == 99_999 {
			r = record{class: classCommit}
			data = r.appendHead(data, h.mark)
		}
	}
	c, err := Decode("a file", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := c.Report.Damages
	if len(d) != maxDamages+1 || !strings.HasPrefix(d[maxDamages].What, "99000 more parts up to here") {
		t.Fatalf("%d damages, of which the last is %s", len(d), d[len(d)-1])
	}
	if last := d[maxDamages]; last.Offset != d[maxDamages-1].Offset+33 || last.Offset+last.Length != int64(len(data)-headSize) {
		t.Errorf("the last is %+v", last)
	}
}

// TestRoom: where there is no room for a file, or for what is in it, the process goes on without,
// and what cannot be restored is set aside.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, dir)
	w.want(relaytest.ClusterType, "*")
	bodies := map[string]string{}
	for i := range 3000 {
		bodies[fmt.Sprint("c", i)] = "1"
	}
	w.apply(relaytest.ClusterType, bodies)
	w.save()
	w.end()
	info, err := os.Stat(File(dir))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		room func(n int64) bool
		want string
	}{
		"the file":    {func(n int64) bool { return n < info.Size() }, "memory is short: it has "},
		"its records": {func(n int64) bool { return n > 0 }, "memory is short: not all of it was read"},
		"its content": {restoredRoom(), "memory is short: "},
		"all":         {func(int64) bool { return true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			data, err := os.ReadFile(File(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(File(to), data, 0o600); err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, to, func(cfg *Config) { cfg.Room = row.room })
			r := w.keeper.Load(start)
			var said []string
			for _, e := range w.log.All() {
				said = append(said, fmt.Sprint(e.Message, e.ContextMap()))
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, row.want) || (row.want == "") != (r.Resources == 3000) || strings.Contains(all, "kept a copy of the snapshot") != (row.want != "") {
				t.Errorf("%d resources, and\n%s", r.Resources, all)
			}
		})
	}
}

// restoredRoom has room until the content is restored.
func restoredRoom() func(int64) bool {
	calls := 0
	return func(int64) bool { calls++; return calls < 4 }
}
