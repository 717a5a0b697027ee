package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// contents lists what a state of a group holds, each with where it is held. What is known not to
// exist adds nothing, nor does what is not known. The digest of that set is the ID of the state
// (VER-4): two replicas that hold the same content have the same ID, in whatever order it came.
type contents []xds.Digest

// add adds what is held of a resource; nil: nothing.
func (c *contents) add(r *resourceKey, v *xds.Variant) {
	if v != nil {
		*c = append(*c, r.digest(v.Digest))
	}
}

// addType adds a type, whole or as far as it is known.
func (c *contents) addType(t *TypeAt) {
	key := resourceKey{typeURL: t.TypeURL, params: t.Params.Key()}
	for i := range t.Sets {
		set := &t.Sets[i]
		key.set = set.Selector
		for _, v := range set.Members {
			key.name = v.Name
			c.add(&key, v)
		}
	}
	key.set = ""
	for i := range t.Names {
		key.name = t.Names[i].Name
		c.add(&key, t.Names[i].Variant)
	}
}

// ID is the same for states of equal content of a group, on all replicas. What is urgent, and
// secrets, are no part of it.
func (s *State) ID(*Origin) string { return stateID(s.Types) }

// stateID is the ID of a state of a group.
func stateID(types []TypeAt) string {
	var c contents
	for i := range types {
		if !types[i].Aside {
			c.addType(&types[i])
		}
	}
	return idOf(xds.SetOf(c))
}

func idOf(d xds.SetDigest) string { return hex.EncodeToString(d[:]) }

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

// Good notes that the state of a group at a revision was seen good: all its clients have
// acknowledged it, and it has proven itself since. The note lives as long as the history knows the
// state.
func (o *Origin) Good(now time.Time, group string, revision uint64) {
	if _, end, is := o.stateSince(group); is && revision >= end.Revision {
		o.table.past.Mark(o.name, group, history.Mark{Revision: revision, At: now}, end.Revision)
	}
}

// StateSince is the revision of the present state of a group, and since when it has been in force;
// zero: since before what is known, or there is no such group. It costs little.
func (o *Origin) StateSince(group string) (revision uint64, at time.Time) {
	last, end, _ := o.stateSince(group)
	last = end.Newer(last)
	return last.Revision, last.At()
}

// stateSince is when the group has changed last, and where what is known of it ends; false:
// there is no such group. It locks the origin.
func (o *Origin) stateSince(group string) (last, end history.Edge, is bool) {
	o.mu.Lock()
	g := o.groups[group]
	o.mu.Unlock()
	if g == nil {
		return last, end, false
	}
	end.Revision = g.begun
	for _, s := range *g.all.Load() {
		if s.configures() {
			l, e := s.table().past.Changed(s.past.Place())
			last, end = last.Newer(l), end.Newer(e)
		}
	}
	return last, end, true
}
