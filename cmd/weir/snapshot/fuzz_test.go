package snapshot

import (
	"testing"

	"github.com/weir-xds/weir/relay"
)

// FuzzRecords: records that are whole and say anything, as one who can write to the directory might
// make them. Nothing panics, and what is restored leaves the table sound.
func FuzzRecords(f *testing.F) {
	dir := f.TempDir()
	filled(f, dir, 2).end()
	c, err := Read(File(dir), nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range c.shards {
		for _, r := range s.items {
			f.Add(c.origins["mesh"].meta, s.head.meta, r.meta, r.body)
		}
	}
	f.Fuzz(func(t *testing.T, origin, head, meta, body []byte) {
		table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
		if err != nil {
			t.Fatal(err)
		}
		c := &Content{origins: map[string]record{}, shards: map[string]*shardRecords{}}
		key := shardName(1) + "x"
		c.apply([]record{
			{class: classOrigin, key: "mesh", meta: origin},
			{class: classShard, key: shardName(1), meta: head},
			{class: classItem, key: key, meta: meta, body: body},
		})
		_ = c.Check()
		c.Summary(true)
		r := c.Restore(table, RestoreConfig{Now: start, Wall: start, Addresses: map[string][]string{"mesh": nil}})
		if r.Resources > 1+len(body) {
			t.Errorf("%d resources of %d bytes", r.Resources, len(body))
		}
		if err := table.Check(); err != nil {
			t.Error(err)
		}
	})
}
