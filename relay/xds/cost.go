package xds

// bodyCost is about what a body costs beside its bytes: its object, what finds it again, and the
// list of bodies that it is in. A body of 61 bytes in a set that a client was sent costs 590 bytes
// in all (relay: TestCostIsAboutRight).
const bodyCost = 400

// Cost is about how many bytes a body costs that the resource brings. Its bytes are there twice
// where it is a member of a set, as body and in the encoded list.
func (r *Resource) Cost() int64 {
	return cost(r.Name, r.Version, r.Aliases, r.Any, r.Metadata, r.Constraints.Key())
}

// Cost is about how many bytes the body costs, whoever holds it.
func (v *Variant) Cost() int64 {
	return cost(v.Name, v.OriginVersion(), v.Aliases, v.Any(), v.meta(), v.Constraints.Key())
}

func cost(name, version string, aliases []string, payload, metadata []byte, constraints string) int64 {
	n := len(name) + len(payload) + len(metadata) + len(constraints)
	for _, a := range aliases {
		n += len(a) + aliasCost
	}
	return int64(bodyCost + len(version) + 2*n)
}

// aliasCost is half of what an alias costs beside its text, which is a string and two prefixes.
const aliasCost = 16

// CountedIn reports whether the body's content was counted before in the count of that number, and
// notes that it is now. Equal bodies share their content, so it costs its memory once.
func (v *Variant) CountedIn(count uint32) bool { return v.counted.Swap(count) == count }

// KnownIn reports whether the body that the resource brings was counted in the count of that
// number, so that one more place for it costs no more than that. It is as dear as to make the body.
func (r *Resource) KnownIn(count uint32, from *Provenance) bool {
	c := contents.Find(from.Digest(r), func(c *content) bool { return c.is(r) })
	return c != nil && c.counted.Load() == count
}
