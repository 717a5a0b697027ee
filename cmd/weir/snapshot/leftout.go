package snapshot

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weir/sensitive"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// LeftOut is how many resources are not in a file, since it is in plain text and they are secret.
type LeftOut struct {
	// Secrets are resources of type Secret. WithKeys are others with a private key, a password or
	// the like in them (package sensitive).
	Secrets  int `json:"secrets"`
	WithKeys int `json:"with_keys"`
}

// fields are those of classCommit, but for the time.
func (x *LeftOut) fields(c *coder) {
	c.count(2, &x.Secrets)
	c.count(3, &x.WithKeys)
}

func readLeftOut(meta []byte) (x LeftOut) {
	if decode(meta, x.fields) != nil {
		return LeftOut{}
	}
	return x
}

// strip drops secrets, and resources with a key in them. A set that lacks one is not settled from
// then on (RELAY-81). A name that lacks one is still asked for.
func (c *Content) strip() LeftOut {
	left := c.Report.LeftOut
	for _, key := range slices.Collect(maps.Keys(c.shards)) {
		s := c.shards[key]
		x, sets, err := readShard(s.head.meta)
		switch {
		case err != nil || s.head.class != classShard:
			delete(c.histories, key)
			delete(c.shards, key) // of what type they are is not known, and they are not restored
		case xds.IsSecret(x.TypeURL):
			left.Secrets += s.resources()
			delete(c.shards, key)
			delete(c.histories, key)
		default:
			c.stripHistory(key)
			if n := s.strip(sets); n > 0 {
				left.WithKeys += n
				s.head.meta = shardHead(&x, sets)
			}
		}
	}
	c.Report.LeftOut = left
	return left
}

// strip drops the items with a key in them, and corrects the sets. An item that cannot be read may
// have one.
func (s *shardRecords) strip(sets []setSummary) (n int) {
	had, lost := map[string]*keptSet{}, map[string]map[xds.Digest]bool{} // by selector
	for i := range sets {
		had[sets[i].Selector], lost[sets[i].Selector] = &keptSet{setSummary: sets[i]}, map[xds.Digest]bool{}
	}
	for key, r := range s.items {
		x, err := readItem(&r)
		set := had[x.selector]
		member := err == nil && x.member && set != nil
		if member {
			set.count(&r)
		}
		if err == nil && !slices.ContainsFunc(x.bodies, func(b xds.BodyImage) bool { return resourceHolds(b.Resource) }) {
			continue
		}
		n += max(1, len(x.bodies))
		if err != nil || x.member {
			delete(s.items, key)
		} else {
			s.items[key] = bareName(r.key, &x.name)
		}
		if member {
			lost[x.selector][markOf(&r)] = true
		}
	}
	for i := range sets {
		if y := &sets[i]; len(lost[y.Selector]) > 0 {
			y.lose(had[y.Selector], lost[y.Selector])
		}
	}
	return n
}

// bareName is the record of a name without what it stands for.
func bareName(key string, x *relay.NameImage) record {
	bare := relay.NameImage{Name: x.Name, Spelt: x.Spelt}
	return record{class: classItem, key: key, meta: encode(func(c *coder) { nameFields(c, &bare) })}
}

// lose takes members with these marks from a set that was found with others. If it lacked members
// before, it still does.
func (y *setSummary) lose(had *keptSet, marks map[xds.Digest]bool) {
	if had.isWhole() {
		y.digest = xds.SetOf(slices.DeleteFunc(had.marks, func(m xds.Digest) bool { return marks[m] }))
	}
	for m := range marks {
		y.sum.sub(m)
	}
	y.members -= uint64(len(marks))
	y.Settled = false
}

// resourceHolds reports whether an encoded Resource has a key in it.
func resourceHolds(resource []byte) bool {
	f := xds.Walk(resource)
	for f.Next() {
		if f.IsBytes(protowire.Number(xds.FieldPayload)) && sensitive.Holds(f.Bytes) {
			return true
		}
	}
	return f.Err() != nil
}
