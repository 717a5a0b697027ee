package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay"
)

// The groups that an order concerns. What the table has as the tiers of one group is one here: they
// go back and forward together.

// dedicatedKey begins the keys of groups of one stream alone, which end with it.
const dedicatedKey = "dedicated-"

func isDedicated(key string) bool { return strings.HasPrefix(key, dedicatedKey) }

// goes is a group that an order concerns.
type goes struct {
	key string // of all its tiers
	// mayStay: it keeps no other group from going back if it cannot: it is one stream's alone, or
	// has no client.
	mayStay bool
}

// groupsOf are the groups that an order concerns: all of the origin, or the one whose key is given,
// or as much of it as no other begins with. The tiers of a group are one.
func groupsOf(part *relay.Origin, group string) (all []goes, _ error) {
	known := map[string]*goes{}
	for _, g := range part.Groups() {
		key := keyOfTiers(part, g.Key)
		x := known[key]
		if x == nil {
			x = &goes{key, true}
			known[key] = x
		}
		x.mayStay = x.mayStay && (g.Dedicated || g.Clients == 0)
	}
	keys := slices.Sorted(maps.Keys(known))
	if group != wholeOrigin {
		found := thatBegin(keys, keyOfTiers(part, group))
		switch len(found) {
		case 0:
			return nil, notFound("%s has no group %q; GET /groups lists them", part.Name(), group)
		case 1:
			return []goes{{key: found[0]}}, nil
		}
		return nil, tooShort(part.Name(), group, len(found))
	}
	if len(keys) == 0 {
		return nil, conflict("%s has no groups: there is nothing to go back to", part.Name())
	}
	for _, key := range keys {
		all = append(all, *known[key])
	}
	return all, nil
}

// keyOfTiers is what the keys of a group's tiers have in common (origins[].canary).
func keyOfTiers(part *relay.Origin, key string) string {
	if part.Canaries() {
		key, _ = relay.CutTier(key)
	}
	return key
}

// tiersOf are the keys of a group that clients are in.
func tiersOf(part *relay.Origin, key string) []string {
	if part.Canaries() && !isDedicated(key) {
		return []string{relay.Canary.Of(key), relay.Rest.Of(key)}
	}
	return []string{key}
}

// shownTier is the key whose states are those of a group: that of most of its clients.
func shownTier(part *relay.Origin, key string) string {
	tiers := tiersOf(part, key)
	for _, g := range part.Groups() {
		if g.Key == tiers[len(tiers)-1] {
			return g.Key
		}
	}
	return tiers[0]
}

// free ends that an operator has a group held. Tiers stay held, by their gate, which goes on from
// there.
func free(part *relay.Origin, key string) {
	if !part.Canaries() || isDedicated(key) {
		part.Free(key)
	}
}

// thatBegin are the keys that begin with so much of a key, if it is enough, or the one that is it.
func thatBegin(keys []string, group string) (found []string) {
	for _, key := range keys {
		if key == group {
			return []string{key}
		}
		if len(group) >= admin.KeyDigits && strings.HasPrefix(key, group) {
			found = append(found, key)
		}
	}
	return found
}

func tooShort(origin, group string, n int) error {
	return conflict("%s has %d groups whose keys begin with %q: give more of the key", origin, n, group)
}
