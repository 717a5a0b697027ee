package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
)

// shownMaps is how many parameter maps of a type or a client are listed by default.
const shownMaps = 10

// groupType is the state of a type of a group, summed over the parameter maps that it is asked
// with.
type groupType struct {
	Type    string `json:"type"`
	TypeURL string `json:"type_url"`
	typeState
	// ParameterSets is the number of those maps, not counting the empty one. Unless the empty map
	// is the only one, ByParameters has the first of them, or all with full=true.
	ParameterSets int       `json:"parameter_sets,omitempty"`
	ByParameters  []typeMap `json:"by_parameters,omitempty"`
}

// typeMap is the state of a type for one parameter map, as canonical text; "" is the empty map.
type typeMap struct {
	Parameters string `json:"parameters"`
	typeState
}

type typeState struct {
	relay.TypeStatus
	// Resources are the distinct names that have content, and Stale those of them that no open
	// stream vouches for.
	Resources int `json:"resources"`
	Stale     int `json:"stale"`
	// Digests of the wildcard's set, and of what is held by name: equal on replicas that hold the
	// same. A sum over maps has none.
	Digest      string `json:"digest,omitempty"`
	NamesDigest string `json:"names_digest,omitempty"`
}

// typesOf returns the types of a group. A type that is asked with several maps is settled if every
// subscribed set is.
func typesOf(s *inspect.GroupStatus, full bool) []groupType {
	all, digests := make([]groupType, 0, len(s.Types)), s.Digests()
	for i := range s.Types {
		t := &s.Types[i]
		state := typeState{*t, t.Resources.Map, t.StaleResources.Map, digests[i].Set, digests[i].Names}
		if i == 0 || s.Types[i-1].TypeURL != t.TypeURL {
			all = append(all, groupType{Type: metrics.ShortName(t.TypeURL), TypeURL: t.TypeURL, typeState: state})
		} else {
			all[len(all)-1].add(&state, t)
		}
		g, others := &all[len(all)-1], i+1 < len(s.Types) && s.Types[i+1].TypeURL == t.TypeURL
		if t.Params != "" {
			g.ParameterSets++
		}
		if (others || t.Params != "") && (full || len(g.ByParameters) < shownMaps) {
			g.ByParameters = append(g.ByParameters, typeMap{t.Params, state})
		}
	}
	return all
}

// add adds the state for another map. What it has in common with those before counts once.
func (g *groupType) add(s *typeState, t *relay.TypeStatus) {
	switch {
	case g.Wildcard && s.Wildcard:
		g.Settled = g.Settled && s.Settled
	case s.Wildcard:
		g.Settled = s.Settled
	}
	g.Wildcard = g.Wildcard || s.Wildcard
	g.Members += s.Members
	g.Collections += s.Collections
	g.Names += s.Names
	g.Absent += s.Absent
	g.Waiting += s.Waiting
	g.Resources += t.Resources.Group
	g.Bodies += s.Bodies
	g.Bytes += s.Bytes - t.Shared
	g.Digest, g.NamesDigest = "", ""
	g.Stale += t.StaleResources.Group
	g.Held += s.Held
	if s.Until.After(g.Until) {
		g.Until = s.Until
	}
	g.Frozen += s.Frozen
	g.Views += s.Views
	g.Tombstones += s.Tombstones
	g.Unrequested += s.Unrequested
	g.Unanswered += s.Unanswered
}

// KeyDigits is how much of a group's key has to be given, where no other begins so.
const KeyDigits = 6

// shownDigits is how much of a group's key people see, everywhere.
const shownDigits = 8

// ShortKey is a group's key as people see it: its first digits, and the tier (origins[].canary).
// The key of a group of one stream alone is whole.
func ShortKey(key string) string {
	of, tier := relay.CutTier(key)
	if strings.HasPrefix(of, relay.DedicatedKey) {
		return key
	}
	return tier.Of(of[:min(shownDigits, len(of))])
}

// isGroup reports whether a text means a group: it is its key, or enough of its beginning, with or
// without the tier.
func isGroup(text, key string) bool {
	if text == key || len(text) >= KeyDigits && strings.HasPrefix(key, text) {
		return true
	}
	of, tier := relay.CutTier(text)
	whole, its := relay.CutTier(key)
	return tier != relay.Newest && tier == its && len(of) >= KeyDigits && strings.HasPrefix(whole, of)
}

// groupsMeant are the keys of the groups of origins that a text means.
func groupsMeant(text string, origins []*relay.Origin) (keys []string) {
	for _, o := range origins {
		for _, g := range o.Groups() {
			switch {
			case g.Key == text:
				return []string{text}
			case isGroup(text, g.Key) && !slices.Contains(keys, g.Key):
				keys = append(keys, g.Key)
			}
		}
	}
	return keys
}

// keyMeant is the key of the one group that a text means. Of a group and its tiers that is the
// group, whose content the origin states. A text that means none now stays as it is; known says
// whether there is one.
func keyMeant(text string, origins []*relay.Origin) (key string, known bool, err error) {
	keys := groupsMeant(text, origins)
	if len(keys) == 0 {
		return text, false, nil
	}
	of := keys[0]
	if len(keys) > 1 {
		of, _ = relay.CutTier(of)
	}
	for _, key := range keys[1:] {
		if whole, _ := relay.CutTier(key); whole != of {
			return "", true, fmt.Errorf("group=%q: the keys of %d groups begin so: write more of it", text, len(keys))
		}
	}
	return of, true, nil
}

// noGroup is the error of a text that means no group.
func noGroup(text, origin string) error {
	at, list := "no origin has a", "/groups"
	if origin != "" {
		at, list = "origin "+origin+" has no", list+"?origin="+origin
	}
	return fmt.Errorf("group=%q: %s group with this key now; write the key, or at least %d digits of its beginning, as %s lists them", text, at, KeyDigits, list)
}

// Suggestions is the answer of /groups/suggest: which fields of each origin's group keys made a
// difference to its answers so far.
type Suggestions struct {
	Origins []inspect.Suggestion `json:"origins"`
}

func (a *Admin) suggest(r *http.Request) (any, error) {
	p, out := a.params(r, "origin"), Suggestions{Origins: []inspect.Suggestion{}}
	if p.origin(); p.err != nil {
		return nil, p.err
	}
	for _, o := range p.asked() {
		out.Origins = append(out.Origins, inspect.Suggest(o))
	}
	return out, nil
}
