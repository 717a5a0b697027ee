package relay

import "github.com/weir-xds/weir/relay/xds"

// update is a response on its way through the table.
type update struct {
	xds.Update
	repeats repeated // is Update.Held
	// variants: something in it has constraints.
	variants bool
	// found is what was held of each of Resources before the lock was taken to apply them, and
	// holder the one shard in which it was looked for; nil: there were several.
	found  []lookup
	holder *shard
	// later are names that it takes away, in a response that is taken up after it (gather.go).
	// listed: it is such a response, and a list said that they are gone.
	later  map[string]bool
	listed bool
	// waited: it is taken up later than it came (gather.go), when the stream had asked so many
	// collections of the type.
	waited bool
	asked  uint64
}

// inError are the names that are not listed because they are in error: that is no absence (ABS-8,
// ABS-11).
func (u *update) inError() map[string]bool {
	if len(u.Errors) == 0 {
		return nil
	}
	names := make(map[string]bool, len(u.Errors))
	for _, e := range u.Errors {
		names[e.Name] = true
	}
	return names
}

// repeated is what is held of the resources of a response, by their numbers.
type repeated []lookup

// Held is the body that is held of a resource of the response; nil: it is to be read.
func (x repeated) Held(number int) *xds.Variant { return x[number].body }

// lookup is what is held of a resource of a response.
type lookup struct {
	body   *xds.Variant // the variant of its constraints; nil: none
	member *member      // that holds it, of the set of `*`,
	entry  *entry       // or by name
}
