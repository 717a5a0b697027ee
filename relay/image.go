package relay

import (
	"iter"
	"slices"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
)

// What a snapshot keeps (RELAY-96). Images takes it out of the table, a Variant is written down as
// the BodyImage that it gives of itself, Table.RestoreBody makes it again, and Table.Restore puts
// it back (restore.go).

// TypeImage is what a snapshot keeps of one type of one group, for one parameter map. Nothing in it
// may be changed: the bodies are the table's own.
//
// Not in it are what must not be cached (RELAY-9; a set with such a member is its interest alone,
// RELAY-81), absence, errors, and the groups of one client. What was restored and is not confirmed
// yet is in it like all else. Secrets have images of their own (SecretImages).
type TypeImage struct {
	Origin string
	Group  string // its key
	// Node is what the group presents upstream, an encoded corev3.Node, deterministic.
	Node []byte
	// Identity is that of all the group's clients, where the key has it; else "".
	Identity string
	TypeURL  string
	Params   constraints.Params // the parameter map that all of it is for
	// Revision tells two images of the type that one Table gave apart: it differs if they do. It is
	// never 0, and means nothing after a restart.
	Revision uint64
	// Response is the version_info of the last response to names, where clients are told the
	// origin's versions (VER-5); else empty.
	Response string
	Sets     []SetImage  // in no order
	Names    []NameImage // in no order
	// Begun is the revision before which nothing is known of the group.
	Begun uint64
	// Noted is the number of the last change of the history that is in the image already
	// (history.Noted). It means nothing after a restart.
	Noted uint64
	// Past is what was kept of the history, for Restore. nil: nothing is known of what was before.
	Past *history.Past
}

// Empty reports whether there is nothing to keep: what was kept of the type before is to be
// dropped.
func (x *TypeImage) Empty() bool { return len(x.Sets)+len(x.Names) == 0 }

// SetImage is one set that is wanted: `*`, a glob or a namespace.
type SetImage struct {
	Selector string // Wildcard, or the canonical name it is asked by
	Spelt    string // as the client wrote it who asked first, if that is another (NAME-9)
	Response string // as that of TypeImage
	// Settled: Members are all there are (RELAY-6). If one of them cannot be restored the rest is
	// no whole set, and goes to Table.Restore without it (RELAY-81): the origin is asked for what
	// lacks.
	Settled bool
	// Retired: the members had retired, and stand in while the origin is away (RELAY-81).
	Retired bool
	Members []*xds.Variant // in no order
	// Since is the revision from which on the history has all changes of members. What was before
	// Lost is not known.
	Since, Lost uint64
}

// NameImage is one name that is wanted.
type NameImage struct {
	Name  string // canonical
	Spelt string // as that of SetImage
	// Retired: the variants had retired, and stand in while the origin is away (RELAY-4).
	Retired bool
	// Variants are the bodies of the one resource that goes by the name, or by an alias of it
	// (ALIAS-1). Empty: none is known.
	Variants []*xds.Variant
	// Since is the revision from which on they are held, or changes are in the history.
	Since uint64
}

// Images gives an image of each type and parameter map of each group that has changed. changedSince
// is called once for every one that there is, with an image that says no more than which it is, and
// tells the Revision of the image that the caller has; 0: it has none. What it is not called for is
// no more. An image may be Empty.
//
// The lock of a type is held while the pointers to its bodies are collected (BenchmarkImages), and
// no lock is held outside of a step of the iteration.
func (t *Table) Images(changedSince func(*TypeImage) uint64) iter.Seq[TypeImage] {
	return t.images(false, changedSince)
}

// SecretImages is Images of the secrets that are shared by identity. They may be written in
// encrypted form alone (RELAY-75).
func (t *Table) SecretImages(changedSince func(*TypeImage) uint64) iter.Seq[TypeImage] {
	return t.images(true, changedSince)
}

func (t *Table) images(secrets bool, changedSince func(*TypeImage) uint64) iter.Seq[TypeImage] {
	return func(yield func(TypeImage) bool) {
		for _, o := range t.Origins() {
			for _, g := range o.groupList() {
				if g.dedicated {
					continue
				}
				var node []byte
				for _, s := range *g.all.Load() {
					if xds.IsSecret(s.typeURL) != secrets || secrets && !o.SecretsByIdentity() {
						continue
					}
					x := TypeImage{Origin: o.name, Group: g.key, Identity: g.identity, TypeURL: s.typeURL, Params: s.params, Begun: g.begun}
					if !s.image(&x, changedSince(&x)) {
						continue
					}
					if node == nil {
						// as what it presents upstream
						node, _ = proto.MarshalOptions{Deterministic: true}.Marshal(g.node)
					}
					if x.Node = node; !yield(x) {
						return
					}
				}
			}
		}
	}
}

// image fills x, and reports false if it is the same as at an edition before. It locks the shard.
func (s *shard) image(x *TypeImage, before uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.edition == before {
		return false
	}
	x.Revision, x.Response, x.Noted = s.edition, s.named.from.ShownVersion(), s.past.Seq()
	n := len(s.named.entries)
	c := roster{since: s.named.since, names: make([]NameImage, 0, n), variants: make([]*xds.Variant, 0, n)}
	s.walk(func(t *set) bool { return t == nil || t.wanted() && x.addSet(t) }, func(k known) {
		if k.set == nil {
			c.add(k.entry)
			return
		}
		of := &x.Sets[len(x.Sets)-1]
		of.Members = append(of.Members, k.variants...)
	})
	if n > 0 {
		x.Names = c.names
	}
	return true
}

// roster is the names of an image while the lock is held: what they have is in one piece for all,
// since there may be many.
type roster struct {
	since    func(*entry) uint64
	names    []NameImage
	variants []*xds.Variant
}

// addSet takes up a set, and reports whether its members are kept.
func (x *TypeImage) addSet(t *set) bool {
	x.Sets = append(x.Sets, SetImage{Selector: t.selector, Spelt: t.spelt, Response: t.from.ShownVersion(), Since: t.unnoted, Lost: t.lost})
	if len(t.uncached) > 0 || t.needsOrigin || t.standsIn() || t.ofResort() || t.members.len() == 0 && !t.settled {
		return false
	}
	of := &x.Sets[len(x.Sets)-1]
	// which is whole, and not told while a stream has still to say so
	of.Settled, of.Retired = t.settled || t.revived, t.revived
	of.Members = make([]*xds.Variant, 0, t.members.len())
	return true
}

// ofResort reports whether the newest tier had members of the set from the last resort.
func (t *set) ofResort() bool {
	if t.shard.group.tier == Newest {
		return false
	}
	for it := range t.members.all() {
		if slices.ContainsFunc(it.variants, func(v *xds.Variant) bool { return v.From.Fallback }) {
			return true
		}
	}
	return false
}

// add takes up a name. Nobody asks for one only to learn again that it does not exist (RELAY-39).
func (c *roster) add(e *entry) {
	if !e.wanted() || e.wasStatedAbsent() {
		return
	}
	x := NameImage{Name: e.name, Spelt: e.spelt, Since: c.since(e)}
	variants := e.variants
	switch {
	case e.aliasDropped:
		variants = nil // it waits for what it stands for now (ALIAS-4)
	case len(variants) == 0 && !e.standsIn():
		variants = e.revivable()
		x.Retired = variants != nil
	}
	from := len(c.variants)
	for _, v := range variants {
		if !v.DoNotCache && !v.From.Fallback {
			c.variants = append(c.variants, v)
		}
	}
	x.Variants = c.variants[from:len(c.variants):len(c.variants)]
	c.names = append(c.names, x)
}

// Restoring the history of a snapshot. The revisions of the table go on after those of the process
// that wrote it (Resume), so those of the past keep their numbers. What is restored as the present
// is newer than all of them.

// Resume has the revisions go on after one of a process that ran before. It is called before
// anything is restored.
func (t *Table) Resume(revision uint64) {
	for {
		now := t.rev.Load()
		if now >= revision || t.rev.CompareAndSwap(now, revision) {
			return
		}
	}
}

// restorePast restores the history of a shard that was restored just now.
func (s *shard) restorePast(x *TypeImage) {
	if x.Past == nil {
		return
	}
	past := *x.Past
	for i := range past.Changes {
		c := &past.Changes[i]
		c.Params = x.Params.Key()
		if c.Was != nil && c.Was.Body != nil && !s.mayHaveHeld(&c.Resource, c.Was.Body) {
			c.Was.Body = nil
			c.Lose()
		}
	}
	s.table().expireHistory(s.past.Restore(past, s.heldOf, s.rev, s.now))
}

// mayHaveHeld reports whether a body fits a resource, as if an origin had sent it.
func (s *shard) mayHaveHeld(r *history.Resource, v *xds.Variant) bool {
	if v.From.TypeURL != s.typeURL || v.Notice() || v.DoNotCache || !v.Constraints.Match(s.params) || xds.IsSecret(s.typeURL) {
		return false
	}
	if r.Set == "" {
		return v.ListsAs(r.Name)
	}
	return v.Name == r.Name
}

// heldOf is what is held of a resource of the history now; nil: nothing.
func (s *shard) heldOf(r history.Resource) *xds.Variant {
	if r.Set == "" {
		if e := s.named.entries[r.Name]; e != nil {
			return e.chosen
		}
		return nil
	}
	t := s.star
	if r.Set != xds.Wildcard {
		t = s.collections.byName[r.Set]
	}
	if t == nil {
		return nil
	}
	if m := t.members.get(r.Name); m != nil {
		return t.given(m)
	}
	return nil
}

// sinceOf is the revision from which on the history has what was restored, of which the snapshot
// says since when. whole: all of it was restored.
func (r *restoration) sinceOf(since uint64, whole bool) uint64 {
	if r.past && whole {
		return min(since, r.shard.rev)
	}
	return r.shard.rev
}

// remember notes from which revision on a restored entry had what it has.
func (n *namedTable) remember(e *entry, since uint64) {
	if n.before == nil {
		n.before = make(map[*entry]uint64, len(n.entries))
	}
	n.before[e] = since
}
