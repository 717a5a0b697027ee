package snapshot

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// FuzzRecords: records that are whole and say anything, as one who can write to the directory might
// make them, of the content and of its history. Nothing panics, and what is restored leaves the
// table sound.
func FuzzRecords(f *testing.F) {
	dir := f.TempDir()
	w := withHistory(f, dir, longHistory)
	w.want(clusters, xds.Wildcard)
	w.want(endpoints, "c000000", "unknown")
	for _, text := range []string{"one", "two", "one"} {
		w.apply(clusters, numbered(2, text))
		w.apply(endpoints, map[string]string{"c000000": text})
	}
	w.save()
	w.end()
	c, err := Read(File(dir), nil)
	if err != nil {
		f.Fatal(err)
	}
	for key, s := range c.shards {
		h := c.histories[key]
		part := partRecord(key, 0, nil)
		for _, r := range s.items {
			f.Add(c.origins["mesh"].meta, s.head.meta, r.meta, r.body, h.head.meta, h.parts[part.key].body)
		}
	}
	f.Fuzz(func(t *testing.T, origin, head, meta, body, past, part []byte) {
		bounds := history.Bounds{Versions: 9, Bytes: 1 << 20, Age: 1 << 60}
		table, err := relay.New(relay.Config{History: bounds, Origins: []relay.OriginConfig{{Name: "mesh"}}})
		if err != nil {
			t.Fatal(err)
		}
		c := newContent()
		key := shardName(1) + "x"
		c.apply([]record{
			{class: classOrigin, key: "mesh", meta: origin},
			{class: classShard, key: shardName(1), meta: head},
			{class: classItem, key: key, meta: meta, body: body},
			revisionRecord(1 << 20),
			{class: classHistory, key: shardName(1), meta: past},
			partRecord(shardName(1), 0, part),
		})
		_ = c.Check()
		c.Summary(true)
		r := c.Restore(table, RestoreConfig{Now: start, Wall: start, Addresses: map[string][]string{"mesh": nil}})
		if r.Resources > 1+len(body) || r.Changes > len(part) {
			t.Errorf("%d resources of %d bytes, and %d changes of %d", r.Resources, len(body), r.Changes, len(part))
		}
		if k := table.History().Kept(); k.Bytes > bounds.Bytes {
			t.Errorf("the history has %d bytes", k.Bytes)
		}
		table.Advance(start.Add(time.Hour))
		for _, g := range table.Origin("mesh").Groups() {
			for revision := range uint64(3) {
				table.Origin("mesh").At(g.Key, revision)
			}
		}
		c.strip()
		if err := table.Check(); err != nil {
			t.Error(err)
		}
	})
}
