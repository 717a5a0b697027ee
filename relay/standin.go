package relay

import (
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay/xds"
)

// A last resort that is another origin. It has a table of its own, and is asked there for what the
// groups of the first want of types that it has said nothing of: Lacks lists that, by group, and
// StandIn takes what there is of it. From then on it is a last resort as any other (fallback.go),
// with one difference: `*` and other sets have the members that it was told of them, and not all
// names that there are.

// Place is one type of one group.
type Place struct{ Group, TypeURL string }

// Lack is what a group wants of a type of which nothing is known.
type Lack struct {
	Place
	Node *corev3.Node // what the group presents upstream; it must not be changed
	// Edition is another whenever what is wanted may be. Known: it is what the caller knows, so
	// what follows is left out.
	Edition uint64
	Known   bool
	// Open: something may stand in now. Else only what was asked before is still of use.
	Open bool
	// Sets are wanted as a whole: `*` and globs. Namespaces are, too; Names are wanted one by one.
	Sets, Namespaces, Names []string
}

// Lacks calls f for each type that a group wants something of and the origin has never spoken of.
// known is the edition that the caller has of a place; 0: none.
func (o *Origin) Lacks(now time.Time, known func(Place) uint64, f func(Lack)) {
	if o.unheard.Load() == 0 {
		return
	}
	for _, g := range o.groupList() {
		if g.tier != Newest {
			continue // what it lacks the newest tier lacks
		}
		for k := range kinds(*g.all.Load()) {
			if l, lacks := k.lack(now, known); lacks {
				f(l)
			}
		}
	}
}

// lack is what the type lacks of a last resort, and whether it lacks anything. It locks the store.
func (k *store) lack(now time.Time, known func(Place) uint64) (l Lack, lacks bool) {
	l.Place, l.Node = Place{k.group.key, k.typeURL}, k.group.node
	if xds.IsSecret(k.typeURL) || !k.group.origin.Serves(k.typeURL) {
		return l, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.heard {
		return l, false
	}
	for _, s := range k.all {
		if s.params.Len() > 0 { // needs tp2, which no such last resort goes with
			continue
		}
		s.now = now
		l.Edition = s.edition
		l.Known = known(l.Place) == s.edition
		lacks = s.noteLack(&l)
	}
	return l, lacks
}

// noteLack lists what is wanted, and reports whether anything is.
func (s *shard) noteLack(l *Lack) (wanted bool) {
	s.sets(func(t *set) {
		if !t.wanted() {
			return
		}
		wanted, l.Open = true, l.Open || s.mayStandIn(t.lane())
		switch {
		case l.Known:
		case t.kind == namespace:
			l.Namespaces = append(l.Namespaces, xds.Spelling(t.selector, t.spelt))
		default:
			l.Sets = append(l.Sets, xds.Spelling(t.selector, t.spelt))
		}
	})
	named := false
	for _, e := range s.named.entries {
		switch {
		case !e.wanted():
			continue
		case !l.Known:
			l.Names = append(l.Names, xds.Spelling(e.name, e.spelt))
		}
		if named = true; l.Known {
			break
		}
	}
	l.Open = l.Open || named && s.mayStandIn(s.lane(s.named.lane))
	return wanted || named
}

// Relief is what another origin has of a type for a group.
type Relief struct {
	From  *Origin
	Names []*xds.Variant // by name
	// Sets are those that are whole, by selector, as it was listed.
	Sets map[string][]*xds.Variant
}

// nothingYet is what another origin has before it was asked, or has answered.
var nothingYet = &fallbackType{sets: map[string]map[string][]*xds.Variant{}}

// NewAskedFallback is a last resort to which StandIn gives what it has. source is what people are
// told that it is.
func (o *Origin) NewAskedFallback(source string) *Fallback {
	return &Fallback{source: source, asked: &sync.Map{}}
}

// StandIn puts into force what the last resort has of a type for a group, in place of what it had;
// nil: it has nothing, or is not asked any more. What stands in already follows it, as it does
// where files change (SetFallback). A name that is missing stays, for that is no word about it.
//
// What has a TTL or must not be cached is left out, and a set with it: nobody vouches for that once
// the last resort is away, too.
func (o *Origin) StandIn(now time.Time, at Place, r *Relief) {
	f := o.fallback.Load()
	switch {
	case f == nil || f.asked == nil:
		return
	case r == nil:
		f.asked.Delete(at)
		return
	}
	f.asked.Store(at, r.taken(at.TypeURL, o.config().CanonicalHash, f.source))
	o.mu.Lock()
	g := o.groups[at.Group]
	o.mu.Unlock()
	if g == nil {
		return
	}
	k := g.store(at.TypeURL)
	if k == nil {
		return
	}
	for _, s := range k.shards() {
		s.mu.Lock()
		s.now = now
		s.followFallback()
		s.fallBack()
		s.unlock()
	}
}

// taken are the bodies as those of the last resort.
func (r *Relief) taken(typeURL string, canonical bool, source string) *fallbackType {
	servers, from := r.From.Servers(), map[uint8]*xds.Provenance{}
	body := func(v *xds.Variant) *xds.Variant {
		n := v.From.Server
		if from[n] == nil {
			from[n] = &xds.Provenance{
				TypeURL: typeURL, Server: NoServer, Fallback: true, Source: source, Canonical: canonical,
			}
			if servers[n] != "" {
				from[n].Source = servers[n]
			}
		}
		return v.GivenBy(from[n])
	}
	fleeting := func(v *xds.Variant) bool { return v.DoNotCache || v.Timed() }
	of := &fallbackType{names: map[string][]*xds.Variant{}, sets: map[string]map[string][]*xds.Variant{}}
	for _, v := range r.Names {
		if !fleeting(v) {
			of.names[v.Name] = []*xds.Variant{body(v)}
		}
	}
	for selector, members := range r.Sets {
		set := make(map[string][]*xds.Variant, len(members))
		for _, v := range members {
			if fleeting(v) {
				set = nil
				break
			}
			set[v.Name] = []*xds.Variant{body(v)}
		}
		of.sets[xds.NameKey(selector)] = set
	}
	return of
}
