package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// How a table's images are written. An image becomes one record for itself, one for each member of
// each set, and one for each name, so that what did not change is not written again.

// shardKeySize is the length of a shardKey.
const shardKeySize = 16

// shardKey identifies one type of one group, for one parameter map. It is a hash, since names are
// long and every record has the key.
func shardKey(x *relay.TypeImage) string {
	var b []byte
	parts := []string{x.Origin, x.Group, x.TypeURL}
	if x.Params.Len() > 0 {
		parts = append(parts, x.Params.Key())
	}
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return string(sum[:shardKeySize])
}

// itemID identifies a member of a set, or a name, in a shard.
type itemID struct {
	named             bool
	selector          string // of the set; "" for a name
	name, constraints string
}

func memberID(selector string, v *xds.Variant) itemID {
	return itemID{selector: selector, name: v.Name, constraints: v.Constraints.Key()}
}

// key returns the key of the item's record.
func (id *itemID) key(shard string) string {
	b := append([]byte(shard), 'm')
	if id.named {
		b[len(b)-1] = 'n'
	}
	for _, part := range []string{id.selector, id.name} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return string(append(b, id.constraints...))
}

// setSummary describes a set as it was written, so that a reader knows whether it has all of it.
type setSummary struct {
	relay.SetImage // without its members
	members        uint64
	sum            sum
	digest         xds.SetDigest // of the marks; zero: a build wrote it that knew sums alone
	// lacking: it has members that are left out, so what is written is not all of it.
	lacking bool
}

// sum adds up marks of records. Builds before setDigest read and wrote nothing else.
type sum [2]uint64

// markOf returns a hash of a member's record: its key and content.
func markOf(r *record) (m xds.Digest) {
	h := sha256.New()
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(r.key)))) // a hash never fails
	_, _ = h.Write([]byte(r.key))
	_, _ = h.Write(r.body)
	copy(m[:], h.Sum(nil))
	return m
}

func (s *sum) add(m xds.Digest) {
	s[0] += binary.LittleEndian.Uint64(m[:])
	s[1] += binary.LittleEndian.Uint64(m[8:])
}

func (s *sum) sub(m xds.Digest) {
	s[0] -= binary.LittleEndian.Uint64(m[:])
	s[1] -= binary.LittleEndian.Uint64(m[8:])
}

func (s *sum) bytes() []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, s[0]), s[1])
}

// shardHead returns the metadata of a shard's record.
func shardHead(x *relay.TypeImage, sets []setSummary) []byte {
	return encode(func(c *coder) { shardFields(c, x, &sets) })
}

// readShard decodes what shardHead encoded. The image has its sets without members, and no names.
func readShard(meta []byte) (x relay.TypeImage, sets []setSummary, err error) {
	if err := decode(meta, func(c *coder) { shardFields(c, &x, &sets) }); err != nil {
		return x, nil, err
	}
	return x, sets, nil
}

// shardFields are the fields of classShard.
func shardFields(c *coder, x *relay.TypeImage, sets *[]setSummary) {
	c.text(1, &x.Origin)
	c.text(2, &x.Group)
	c.bytes(3, &x.Node)
	c.text(4, &x.TypeURL)
	c.text(5, &x.Response)
	c.text(8, &x.Identity) // of the group's clients; missing: the group is of no identity
	c.number(9, &x.Begun)  // revision; the group's
	paramFields(c, 7, &x.Params)
	list(c, 6, sets, maxSets, "sets", (*setSummary).fields)
}

func (y *setSummary) fields(c *coder) {
	c.text(1, &y.Selector)
	c.text(2, &y.Spelt)
	c.text(3, &y.Response)
	settled := y.Settled && !y.lacking
	c.bool(4, &settled)
	c.bool(5, &y.Retired)
	c.number(6, &y.members) // number of bodies
	sums := y.sum.bytes()   // of the marks of their records, for builds that do not know the digest
	c.bytes(7, &sums)
	c.number(8, &y.Since) // revision
	c.number(9, &y.Lost)  // revision
	c.array(10, y.digest[:])
	if c.reads {
		y.Settled = settled
		if len(sums) == 16 {
			y.sum = sum{binary.LittleEndian.Uint64(sums), binary.LittleEndian.Uint64(sums[8:])}
		}
	}
}

// paramFields is a parameter map; missing: the empty one.
func paramFields(c *coder, number protowire.Number, p *constraints.Params) {
	type pair struct{ key, value string }
	var pairs []pair
	message := func(c *coder) {
		list(c, 1, &pairs, maxParams, "parameters", func(p *pair, c *coder) {
			c.text(1, &p.key)
			c.text(2, &p.value)
		})
	}
	if !c.reads && p.Len() > 0 {
		for k, v := range p.All() {
			pairs = append(pairs, pair{k, v})
		}
		c.message(number, message)
	}
	if !c.is(number) {
		return
	}
	c.message(number, message)
	m := map[string]string{}
	for _, x := range pairs {
		m[x.key] = x.value
	}
	*p = constraints.NewParams(m)
}

// Fields of classItem. A member has a selector and one variant. The body is the concatenated
// resources of the variants. The other fields are those of a name.
const (
	itemMember  = 1 // of the set of this selector
	itemVariant = 6 // repeated
)

func nameFields(c *coder, x *relay.NameImage) {
	c.text(2, &x.Name)
	c.text(3, &x.Spelt)
	c.bool(5, &x.Retired)
	c.number(7, &x.Since) // revision
}

// bodyFields are the fields of a variant. length is that of the resource, in bytes.
func bodyFields(c *coder, x *xds.BodyImage, length *uint64) {
	c.number(1, length)
	c.byte(2, &x.Server)
	c.time(3, &x.Expires)
	c.duration(4, &x.Left)
}

// memberRecord returns the record of a member of a set.
func memberRecord(shard string, id itemID, v *xds.Variant, now, wall time.Time) record {
	meta := protowire.AppendString(protowire.AppendTag(nil, itemMember, protowire.BytesType), id.selector)
	r := record{class: classItem, key: id.key(shard)}
	r.meta, r.body = appendVariant(meta, nil, v, now, wall)
	return r
}

// nameRecord returns the record of a name.
func nameRecord(shard string, id itemID, x *relay.NameImage, now, wall time.Time) record {
	r := record{class: classItem, key: id.key(shard), meta: encode(func(c *coder) { nameFields(c, x) })}
	for _, v := range x.Variants {
		r.meta, r.body = appendVariant(r.meta, r.body, v, now, wall)
	}
	return r
}

func appendVariant(meta, body []byte, v *xds.Variant, now, wall time.Time) (_, _ []byte) {
	x := v.Image(now, wall)
	length := uint64(len(x.Resource))
	b := encode(func(c *coder) { bodyFields(c, &x, &length) })
	if body == nil {
		return appendBytes(meta, itemVariant, b), x.Resource
	}
	return appendBytes(meta, itemVariant, b), append(body, x.Resource...)
}

// itemImage is a decoded item.
type itemImage struct {
	member   bool
	selector string // of the set that it is a member of
	name     relay.NameImage
	bodies   []xds.BodyImage
}

func readItem(r *record) (x itemImage, err error) {
	rest := r.body
	err = decode(r.meta, func(c *coder) {
		nameFields(c, &x.name)
		if c.is(itemMember) {
			x.member, x.selector = true, c.field.text()
		}
		if !c.is(itemVariant) {
			return
		}
		var b xds.BodyImage
		var n uint64
		c.read(c.field.bytes, func(c *coder) { bodyFields(c, &b, &n) })
		if c.err != nil || n > uint64(len(rest)) {
			c.err = errFields
			return
		}
		b.Resource, rest = rest[:n], rest[n:]
		if x.bodies = append(x.bodies, b); len(x.bodies) > maxVariants {
			c.err = tooMany(maxVariants, "variants")
		}
	})
	return x, err
}
