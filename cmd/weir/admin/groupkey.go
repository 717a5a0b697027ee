package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay"
)

// KeyDigits is how much of a group's key has to be given, where no other begins so.
const KeyDigits = 6

// isGroup reports whether a text means a group: it is its key, or enough of its beginning.
func isGroup(text, key string) bool {
	return text == key || len(text) >= KeyDigits && strings.HasPrefix(key, text)
}

// groupsMeant are the keys of the groups that a text means, at an origin or, without one, at any.
func groupsMeant(text, origin string, origins []*relay.Origin) (keys []string) {
	for _, o := range origins {
		if origin != "" && o.Name() != origin {
			continue
		}
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
func keyMeant(text, origin string, origins []*relay.Origin) (key string, known bool, err error) {
	keys := groupsMeant(text, origin, origins)
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
