package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
)

// How a table's images are written. An image becomes one record for itself, one for each member of
// each set, and one for each name, so that what did not change is not written again.

// Fields of classShard.
const (
	shardOrigin   = 1
	shardGroup    = 2
	shardNode     = 3
	shardTypeURL  = 4
	shardResponse = 5
	shardSet      = 6 // repeated
	shardParams   = 7 // the parameter map of all of it; missing: the empty map
	shardIdentity = 8 // of the group's clients; missing: the group is of no identity
	shardBegun    = 9 // revision; the group's

	setSelector = 1
	setSpelt    = 2
	setResponse = 3
	setSettled  = 4
	setRetired  = 5
	setMembers  = 6  // number of bodies
	setSum      = 7  // of the marks of their records, for builds that do not know setDigest
	setSince    = 8  // revision
	setLost     = 9  // revision
	setDigest   = 10 // of the marks of their records
)

// Fields of classItem. A member has a selector and one variant. The body is the concatenated
// resources of the variants.
const (
	itemMember  = 1 // of the set of this selector
	itemName    = 2
	itemSpelt   = 3
	itemRetired = 5
	itemVariant = 6 // repeated
	itemSince   = 7 // revision; of a name

	paramsPair = 1 // repeated
	pairKey    = 1
	pairValue  = 2

	variantLength  = 1 // of the resource, in bytes
	variantServer  = 2
	variantExpires = 3
	variantLeft    = 4
)

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
	b := appendText(nil, shardOrigin, x.Origin)
	b = appendText(b, shardGroup, x.Group)
	b = appendBytes(b, shardNode, x.Node)
	b = appendText(b, shardTypeURL, x.TypeURL)
	b = appendText(b, shardResponse, x.Response)
	b = appendText(b, shardIdentity, x.Identity)
	b = appendNumber(b, shardBegun, x.Begun)
	if x.Params.Len() > 0 {
		b = appendBytes(b, shardParams, encodeParams(x.Params))
	}
	for i := range sets {
		b = appendBytes(b, shardSet, sets[i].encode())
	}
	return b
}

func (y *setSummary) encode() []byte {
	b := appendText(nil, setSelector, y.Selector)
	b = appendText(b, setSpelt, y.Spelt)
	b = appendText(b, setResponse, y.Response)
	b = appendBool(b, setSettled, y.Settled && !y.lacking)
	b = appendBool(b, setRetired, y.Retired)
	b = appendNumber(b, setMembers, y.members)
	b = appendBytes(b, setSum, y.sum.bytes())
	b = appendNumber(appendNumber(b, setSince, y.Since), setLost, y.Lost)
	if y.digest != (xds.SetDigest{}) {
		b = appendBytes(b, setDigest, y.digest[:])
	}
	return b
}

// readShard decodes what shardHead encoded. The image has its sets without members, and no names.
func readShard(meta []byte) (x relay.TypeImage, sets []setSummary, err error) {
	for f, err := range fields(meta) {
		if err != nil {
			return x, nil, err
		}
		switch f.number {
		case shardOrigin:
			x.Origin = f.text()
		case shardGroup:
			x.Group = f.text()
		case shardNode:
			x.Node = f.bytes
		case shardTypeURL:
			x.TypeURL = f.text()
		case shardResponse:
			x.Response = f.text()
		case shardIdentity:
			x.Identity = f.text()
		case shardBegun:
			x.Begun = f.n
		case shardParams:
			if x.Params, err = readParams(f.bytes); err != nil {
				return x, nil, err
			}
		case shardSet:
			y, err := readSet(f.bytes)
			if err != nil {
				return x, nil, err
			}
			sets = append(sets, y)
		}
	}
	return x, sets, nil
}

func readSet(b []byte) (y setSummary, err error) {
	for f, err := range fields(b) {
		if err != nil {
			return y, err
		}
		switch f.number {
		case setSelector:
			y.Selector = f.text()
		case setSpelt:
			y.Spelt = f.text()
		case setResponse:
			y.Response = f.text()
		case setSettled:
			y.Settled = f.bool()
		case setRetired:
			y.Retired = f.bool()
		case setMembers:
			y.members = f.n
		case setSince:
			y.Since = f.n
		case setLost:
			y.Lost = f.n
		case setSum:
			if len(f.bytes) == 16 {
				y.sum = sum{binary.LittleEndian.Uint64(f.bytes), binary.LittleEndian.Uint64(f.bytes[8:])}
			}
		case setDigest:
			if len(f.bytes) == len(y.digest) {
				y.digest = xds.SetDigest(f.bytes)
			}
		}
	}
	return y, nil
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
	meta := appendText(appendText(nil, itemName, x.Name), itemSpelt, x.Spelt)
	r := record{class: classItem, key: id.key(shard), meta: appendBool(meta, itemRetired, x.Retired)}
	r.meta = appendNumber(r.meta, itemSince, x.Since)
	for _, v := range x.Variants {
		r.meta, r.body = appendVariant(r.meta, r.body, v, now, wall)
	}
	return r
}

func appendVariant(meta, body []byte, v *xds.Variant, now, wall time.Time) (_, _ []byte) {
	x := v.Image(now, wall)
	b := appendNumber(nil, variantLength, uint64(len(x.Resource)))
	b = appendNumber(b, variantServer, uint64(x.Server))
	b = appendTime(b, variantExpires, x.Expires)
	b = appendNumber(b, variantLeft, protowire.EncodeZigZag(int64(x.Left)))
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
	for f, err := range fields(r.meta) {
		if err != nil {
			return x, err
		}
		switch f.number {
		case itemMember:
			x.member, x.selector = true, f.text()
		case itemName:
			x.name.Name = f.text()
		case itemSpelt:
			x.name.Spelt = f.text()
		case itemRetired:
			x.name.Retired = f.bool()
		case itemSince:
			x.name.Since = f.n
		case itemVariant:
			b, n, err := readVariant(f.bytes)
			if err != nil || n > uint64(len(rest)) {
				return x, errFields
			}
			b.Resource, rest = rest[:n], rest[n:]
			x.bodies = append(x.bodies, b)
		}
	}
	return x, nil
}

func encodeParams(p constraints.Params) (b []byte) {
	for k, v := range p.All() {
		b = appendBytes(b, paramsPair, appendText(appendText(nil, pairKey, k), pairValue, v))
	}
	return b
}

func readParams(b []byte) (constraints.Params, error) {
	m := map[string]string{}
	for f, err := range fields(b) {
		if err != nil {
			return constraints.Params{}, err
		}
		if f.number != paramsPair {
			continue
		}
		var key, value string
		for f, err := range fields(f.bytes) {
			switch {
			case err != nil:
				return constraints.Params{}, err
			case f.number == pairKey:
				key = f.text()
			case f.number == pairValue:
				value = f.text()
			}
		}
		m[key] = value
	}
	return constraints.NewParams(m), nil
}

func readVariant(b []byte) (x xds.BodyImage, length uint64, err error) {
	for f, err := range fields(b) {
		if err != nil {
			return x, 0, err
		}
		switch f.number {
		case variantLength:
			length = f.n
		case variantServer:
			x.Server = uint8(min(f.n, relay.NoServer))
		case variantExpires:
			x.Expires = f.time()
		case variantLeft:
			x.Left = time.Duration(protowire.DecodeZigZag(f.n))
		}
	}
	return x, length, nil
}
