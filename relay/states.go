package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/weir-xds/weir/relay/xds"
)

// stateSum makes the ID of a state of a group: a commutative hash (VER-4) of what is configuration
// in it. Two replicas that hold the same content have the same ID, in whatever order it came, and a
// change costs one step. What is known not to exist adds nothing, nor does what is not known.
type stateSum struct{ sum xds.Sum }

// add adds what is held of a resource; nil: nothing.
func (s *stateSum) add(r *resourceKey, v *xds.Variant) {
	if v != nil {
		s.sum.Add(r.digest(v.Digest))
	}
}

// sub takes back what was added.
func (s *stateSum) sub(r *resourceKey, v *xds.Variant) {
	if v != nil {
		s.sum.Sub(r.digest(v.Digest))
	}
}

// addType adds a type, whole or as far as it is known.
func (s *stateSum) addType(t *TypeAt) {
	key := resourceKey{typeURL: t.TypeURL, params: t.Params.Key()}
	for i := range t.Sets {
		set := &t.Sets[i]
		key.set = set.Selector
		for _, v := range set.Members {
			key.name = v.Name
			s.add(&key, v)
		}
	}
	key.set = ""
	for i := range t.Names {
		key.name = t.Names[i].Name
		s.add(&key, t.Names[i].Variant)
	}
}

// id is the ID of the state.
func (s *stateSum) id() string {
	d := s.sum.Digest()
	return hex.EncodeToString(d[:])
}

// ID is the same for states of equal content of a group, on all replicas. What is urgent, and
// secrets, are no part of it.
func (s *State) ID(*Origin) string { return stateID(s.Types) }

// stateID is the ID of a state of a group.
func stateID(types []TypeAt) string {
	var s stateSum
	for i := range types {
		if !types[i].Aside {
			s.addType(&types[i])
		}
	}
	return s.id()
}

// resourceKey is where something is held in a group.
type resourceKey struct {
	typeURL, params string
	set, name       string // as those of history.Resource
}

// digest is that of content which is held there. Every part has its length before it. The digest of
// the content alone is not enough: an alias may come to stand for another resource, and a resource
// may be held for one parameter map and not for another.
func (r *resourceKey) digest(content xds.Digest) (d xds.Digest) {
	var stack [512]byte
	b := stack[:0]
	for _, part := range [...]string{r.typeURL, r.params, r.set, r.name} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(append(b, content[:]...))
	copy(d[:], sum[:])
	return d
}

// Configures reports whether what the Sub is subscribed to is a part of the states of its group.
func (s *Sub) Configures() bool { return s.shard.configures() }
