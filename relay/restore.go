package relay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
)

// Restoring a snapshot (RELAY-96). Restored content counts as content that was live when its stream
// broke (RELAY-2). Its subscriptions linger, so the origin is asked for them at once. Another
// replica may meanwhile have sent a client something newer. So a client that says it holds
// something is sent restored content only after the origin has confirmed it: a restored set is
// settled and not firm (set.go), and a restored entry is unconfirmed (confirm.go). All other
// clients are served at once.

// Restored secrets stay until the origin has confirmed them, whether or not a client has them: they
// do not retire, and a client that starts later in the outage needs them as much (RELAY-75).

// RestoreBody makes a body from what a snapshot recorded of it. The body is checked as if the
// origin sent it, since a damaged file may have anything in it. The error names the resource. Give
// the body to Restore only in images of the same type and origin.
func (t *Table) RestoreBody(now, wall time.Time, origin, typeURL string, b xds.BodyImage) (*xds.Variant, error) {
	o := t.Origin(origin)
	if o == nil {
		return nil, fmt.Errorf("origin %s is not configured", xds.Quote(origin))
	}
	from := &xds.Provenance{TypeURL: typeURL, Server: b.Server, Shown: o.config().OriginVersions, Canonical: o.config().CanonicalHash}
	return b.Body(from, !o.config().SotW, now, wall)
}

// Restore puts the content of an image back. It is called before any client is served. Bodies that
// have expired are left out (RELAY-54). An error says what is wrong. Then nothing of this image is
// restored; other images are not affected.
func (t *Table) Restore(now time.Time, x TypeImage) error {
	fail := func(err error) error {
		return fmt.Errorf("origin %s, group %s, type %s: %w", xds.Quote(x.Origin), xds.Quote(x.Group), xds.Quote(x.TypeURL), err)
	}
	o := t.Origin(x.Origin)
	switch {
	case o == nil:
		return fail(errors.New("the origin is not configured"))
	case !o.Serves(x.TypeURL) || x.TypeURL == "" || len(x.TypeURL) > xds.MaxTypeURL:
		return fail(errors.New("the origin is not asked for the type"))
	case xds.IsSecret(x.TypeURL) && !o.SecretsByIdentity():
		return fail(errors.New("secrets are not restored, unless they are shared by identity (RELAY-75)"))
	case x.Params.Len() > 0 && !o.TP2():
		return fail(errors.New("the origin is not known to understand parameters by now (DYN-17)"))
	case x.Empty():
		return nil
	case x.Past != nil:
		if err := x.Past.Check(t.Revision() + 1); err != nil {
			return fail(fmt.Errorf("its history: %w", err))
		}
	}
	up, err := o.restoredNode(x.Group, x.Node, x.Identity)
	if err != nil {
		return fail(err)
	}
	if err := o.checkImage(&x); err != nil {
		return fail(err)
	}
	g, err := o.restoredGroup(now, &x, up)
	if err != nil {
		return fail(err)
	}
	if x.Past == nil { // of one type it is not known what was before, so it is not of the group
		g.begun = t.Revision() + 1
	}
	g.seen.Store(true)
	g.used.Store(true)
	s := g.shard(x.TypeURL, x.Params)
	s.mu.Lock()
	defer s.unlock()
	if s.dead || s.subs > 0 || s.rev > 0 || s.star.wanted() || len(s.collections.byName)+len(s.named.entries) > 0 {
		return fail(errors.New("it is in use already"))
	}
	s.restore(now, &x)
	restored, _ := s.held(counts.Add(1)) // what is restored stays, and counts
	o.fill.total.add(restored)
	return nil
}

// maxRestoredNode bounds what the node of a group is decoded to, in bytes. It has the fields of a
// group's key and no others.
const maxRestoredNode = 16 << 20

// restoredNode is the node to present upstream for a group that presented the encoded node when it
// was recorded. The group's key is made from the same fields, and from the identity of its clients.
// It is an error if they make another key now, since then clients are grouped in another way.
func (o *Origin) restoredNode(key string, encoded []byte, who string) (*corev3.Node, error) {
	key, tier := CutTier(key)
	if tier != Newest && !o.Canaries() {
		return nil, errors.New("the origin no longer has canaries, so all clients get its current state")
	}
	n := &corev3.Node{}
	if err := xds.Unmarshal(encoded, n, maxRestoredNode); err != nil {
		return nil, fmt.Errorf("its node does not decode: %w", err)
	}
	rules := o.nodeRules()
	own := rules.GroupID(key)
	if n.Id == own {
		n.Id = "" // it was made for the group, and is no client's
	}
	now, up := rules.Group(n, who)
	fixed := o.config().NodeID != "" && slices.Contains(o.config().GroupBy, "id") ||
		// The node has the configured value in place of the clients' own.
		o.config().NodeCluster != "" && slices.Contains(o.config().GroupBy, "cluster")
	switch {
	case now == key:
	case !fixed || slices.Contains(rules.GroupBy, node.Identity) != (who != ""):
		return nil, errors.New("group_by, or what is mapped to parameters, is another by now")
	case len(key) != len(now):
		return nil, errors.New("it is no group's key")
	}
	if o.config().NodeID == "" && n.Id == "" {
		up.Id = own
	}
	return up, nil
}

// restoredGroup finds or makes the group of a key. The group ends as if its last client had left
// now. It locks the origin.
func (o *Origin) restoredGroup(now time.Time, x *TypeImage, up *corev3.Node) (*Group, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[x.Group]
	if g == nil {
		var err error
		of, tier := CutTier(x.Group)
		if g, err = o.open(of, tier, up, x.Identity, nil); err != nil {
			return nil, err
		}
		if x.Past != nil {
			g.begun = min(g.begun, x.Begun)
		}
		g.ending = true
		o.table.timers.push(timer{at: now.Add(max(g.linger(), leastRestored)), kind: groupEnd, group: g})
	}
	return g, nil
}

// checkImage reports why an image cannot be restored; nil: it can.
func (o *Origin) checkImage(x *TypeImage) error {
	// This shard is only used to find out which names are collections.
	s := &shard{store: &store{group: &Group{origin: o}, typeURL: x.TypeURL}}
	seen := map[string]bool{}
	for i := range x.Sets {
		y := &x.Sets[i]
		t := newSet(s, y.Selector)
		if y.Selector != xds.Wildcard {
			var ok bool
			if t.kind, ok = s.collectionOf(y.Selector); !ok || xds.NameKey(y.Selector) != y.Selector {
				return fmt.Errorf("%s is no collection", xds.Quote(y.Selector))
			}
			t.reach = xds.GlobOf(y.Selector)
		}
		if seen[y.Selector] {
			return fmt.Errorf("set %s: is listed twice", xds.Quote(y.Selector))
		}
		seen[y.Selector] = true
		if err := checkBodies(x, y.Members, t.includes); err != nil {
			return fmt.Errorf("set %s: %w", xds.Quote(y.Selector), err)
		}
	}
	clear(seen)
	for i := range x.Names {
		y := &x.Names[i]
		switch {
		case xds.NameKey(y.Name) != y.Name || xds.IsNameless(y.Name):
			return fmt.Errorf("name %s: is not canonical", xds.Quote(y.Name))
		case seen[y.Name]:
			return fmt.Errorf("name %s: is listed twice", xds.Quote(y.Name))
		}
		seen[y.Name] = true
		for _, v := range y.Variants[min(1, len(y.Variants)):] {
			if v != nil && y.Variants[0] != nil && v.Name != y.Variants[0].Name {
				return fmt.Errorf("name %s: stands for %s and %s", xds.Quote(y.Name), xds.Quote(y.Variants[0].Name), xds.Quote(v.Name))
			}
		}
		if err := checkBodies(x, y.Variants, nil); err != nil {
			return fmt.Errorf("name %s: %w", xds.Quote(y.Name), err)
		}
		if len(y.Variants) > 0 && !slices.ContainsFunc(y.Variants, func(v *xds.Variant) bool { return v.ListsAs(y.Name) }) {
			return fmt.Errorf("name %s: %s does not use it", xds.Quote(y.Name), xds.Quote(y.Variants[0].Name))
		}
	}
	return nil
}

// collectionOf returns the kind of collection that a name in a snapshot stands for. For virtual
// hosts that is a namespace, also if the name has a slash: a client may have declared it so
// (ALIAS-6).
func (s *shard) collectionOf(name string) (selectorKind, bool) {
	return s.selectorOf(name, map[string]bool{name: true})
}

// checkBodies reports why bodies of an image cannot be restored; nil: they can. covers reports
// whether a set may have a member of that name; nil: the bodies are of a name.
func checkBodies(x *TypeImage, vs []*xds.Variant, covers func(string) bool) error {
	seen := make(map[xds.Identity]bool, len(vs))
	for _, v := range vs {
		switch {
		case v == nil || v.Notice():
			return errors.New("has a resource without a body")
		case v.From.TypeURL != x.TypeURL:
			return fmt.Errorf("%s has type %s", xds.Quote(v.Name), xds.Quote(v.From.TypeURL))
		case v.DoNotCache:
			return fmt.Errorf("%s must not be cached", xds.Quote(v.Name))
		case !v.Constraints.Match(x.Params):
			return fmt.Errorf("%s does not match the parameters", xds.Quote(v.Name))
		case covers != nil && !covers(v.Name):
			return fmt.Errorf("%s is no member", xds.Quote(v.Name))
		}
		id := xds.Identity{Name: v.Name, Constraints: v.Constraints.Key()}
		if seen[id] {
			return fmt.Errorf("%s is listed twice", xds.Quote(v.Name))
		}
		seen[id] = true
	}
	return nil
}

// restore puts an image that was checked into an empty shard.
func (s *shard) restore(now time.Time, x *TypeImage) {
	s.now = now
	rev := s.nextRev()
	s.named.restoredAt = rev
	r := restoration{shard: s, past: x.Past != nil, receipts: map[xds.Provenance]*xds.Provenance{}, until: now.Add(max(s.linger(), leastRestored))}
	for i := range x.Sets {
		r.set(&x.Sets[i])
	}
	for i := range x.Names {
		r.name(&x.Names[i], x.Response)
	}
	for _, h := range s.named.other.held {
		s.named.other.list(h)
	}
	for _, e := range s.named.entries {
		s.expiring.track(expiringKey{name: e.name}, e.variants)
		e.onHeld(pick(e.variants, s.params))
		e.rev = rev
		s.named.revise(e)
	}
	r.answered(&s.named.scope, x.Response)
	if x.says() {
		s.hear()
	}
	s.rememberRestored(now)
	s.restorePast(x)
}

// says reports whether the image has anything that the origin stated, and not only subscriptions.
func (x *TypeImage) says() bool {
	return slices.ContainsFunc(x.Sets, func(y SetImage) bool { return y.Settled || len(y.Members) > 0 }) ||
		slices.ContainsFunc(x.Names, func(y NameImage) bool { return len(y.Variants) > 0 })
}

// restoration is the state while one image is restored.
type restoration struct {
	shard    *shard
	past     bool // the history is restored, too
	receipts map[xds.Provenance]*xds.Provenance
	until    time.Time // the end of the linger of what no client has subscribed to by then
}

// provenance returns the provenance of a body. Bodies with the same one share the object, which is
// larger than some bodies.
func (r *restoration) provenance(of *xds.Provenance, version string) *xds.Provenance {
	key := *of
	key.Version, key.Revision = version, r.shard.rev
	if r.receipts[key] == nil {
		r.receipts[key] = &key
	}
	return r.receipts[key]
}

// answered records the version of the last response, if no body came with one.
func (r *restoration) answered(c *scope, version string) {
	if s := r.shard; c.from == nil && version != "" {
		c.from = r.provenance(&xds.Provenance{TypeURL: s.typeURL, Shown: s.group.config().OriginVersions}, version)
	}
}

// bodies returns the bodies that have not expired, with their provenance. No client has them yet,
// so they may be changed here.
func (r *restoration) bodies(vs []*xds.Variant, response string) []*xds.Variant {
	vs = slices.Clone(vs)
	vs, _ = living(vs, r.shard.now)
	for _, v := range vs {
		v.From = r.provenance(v.From, response)
		r.shard.constrained = r.shard.constrained || v.Constraints != nil
	}
	return vs
}

// set restores a set with its members.
func (r *restoration) set(x *SetImage) {
	s := r.shard
	t := s.star
	if x.Selector != xds.Wildcard {
		k, _ := s.collectionOf(x.Selector)
		t = s.collections.set(x.Selector, x.Spelt, k)
	}
	members := r.bodies(x.Members, x.Response)
	for _, v := range members {
		m := t.member(v.Name)
		m.variants = append(m.variants, v)
		t.from = v.From
	}
	for m := range t.members.all() {
		t.offer(m, s.rev)
	}
	r.answered(&t.scope, x.Response)
	whole := x.Settled && !x.Retired && len(members) == len(x.Members)
	t.unnoted, t.lost = r.sinceOf(x.Since, whole), r.sinceOf(x.Lost, whole)
	t.settled, t.restored, t.revived = x.Settled, x.Settled, x.Retired && x.Settled
	t.restoredPart = !x.Settled && len(members) > 0
	t.revise()
	s.lingerUntil(&t.interest, r.until, timer{set: t})
	t.look()
}

// name restores a name with its variants.
func (r *restoration) name(x *NameImage, response string) {
	s := r.shard
	e := s.named.newEntry(x.Name, x.Spelt)
	variants := r.bodies(x.Variants, response)
	if since := r.sinceOf(x.Since, !x.Retired && len(variants) == len(x.Variants)); since < s.rev {
		s.named.remember(e, since)
	}
	if x.Retired {
		e.onRetired(variants)
		variants = nil
	}
	for _, v := range variants {
		// All entries of one resource hold the same body.
		if h := s.named.other.held[v.Name]; h != nil {
			if same := find(h.entries[0].variants, v.Constraints.Key()); same != nil && same.Digest == v.Digest {
				v = same
			}
		}
		s.named.hold(e, v)
		s.named.from = xds.Newer(s.named.from, v.From)
	}
	e.onRestored(len(e.variants)+len(e.retiredBodies()) > 0)
	s.named.unconfirmed = s.named.unconfirmed || e.unconfirmed
	s.lingerUntil(&e.interest, r.until, timer{entry: e})
	s.named.look(e)
}
