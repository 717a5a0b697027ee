package xds

import "fmt"

// Limits that a RejectError names, by which refusals are counted.
const (
	LimitResources = "origin_resources" // origins[].limits.resources
	LimitBytes     = "origin_bytes"     // origins[].limits.bytes
)

// ParseWithin is ParseResponse for a response that may have so many resources, and as many names
// that are removed or in error; 0: no limit. Both are counted before anything is allocated for
// them: an empty element is two bytes on the wire, and some hundreds once it is taken in. Of a
// response with more nothing is kept but its header, and Accept refuses it.
func ParseWithin(b []byte, delta bool, most int) (*Response, error) {
	n := countElements(b, delta)
	r := &Response{Delta: delta, most: most}
	switch {
	case most > 0 && n.resources > most:
		r.over = fmt.Sprintf("%d resources are more than the %d of origins[].limits.resources", n.resources, most)
	case most > 0 && n.stated > most:
		r.over = fmt.Sprintf("%d names removed or in error are more than the %d of origins[].limits.resources", n.stated, most)
	default:
		r.Resources = make([][]byte, 0, n.resources)
	}
	if err := r.parse(b); err != nil {
		return nil, err
	}
	return r, nil
}

// elements are how many there are in the repeated fields of a response: resources, and names that
// it states to be removed or in error.
type elements struct{ resources, stated int }

// countElements counts as far as the response decodes.
func countElements(b []byte, delta bool) (n elements) {
	f := Walk(b)
	for f.Next() {
		switch {
		case f.Bytes == nil:
		case f.Number == FieldResources:
			n.resources++
		case f.isStatement(delta):
			n.stated++
		}
	}
	return n
}

// CountElements is how many resources and names a response has that ParseWithin counts.
func CountElements(b []byte, delta bool) int {
	n := countElements(b, delta)
	return max(n.resources, n.stated)
}

// isStatement reports whether the field of a response names something that is removed or in error.
func (f *Fields) isStatement(delta bool) bool {
	if delta {
		return f.Number == FieldRemoved || f.Number == fieldRemovedNames || f.Number == fieldErrorsDelta
	}
	return f.Number == fieldErrorsSotW
}

// The repeated fields of responses that no one else refers to.
const (
	fieldRemovedNames = 8 // DeltaDiscoveryResponse
	fieldErrorsDelta  = 9 // DeltaDiscoveryResponse
	fieldErrorsSotW   = 7 // DiscoveryResponse
)

// refusedWhole is the Update of a response with more elements than its origin may fill: nothing of
// it is taken, and no absence is concluded from it (RELAY-32).
func (r *Response) refusedWhole() (Update, *RejectError) {
	u := Update{TypeURL: r.TypeURL, Full: !r.Delta, Version: r.Version, Wire: true, Bad: true, Unread: true, Over: true}
	return u, &RejectError{TypeURL: r.TypeURL, Reasons: []string{r.over}, Limit: LimitResources}
}

// fewAliasBytes is the length of a resource below which its aliases are counted once they are read:
// they are 16 KiB at most.
const fewAliasBytes = 2 << 10

// parseResource is ParseResource, for as many aliases in all resources of a response as it may have
// resources: one of two bytes on the wire takes sixteen and more.
func (a *acceptance) parseResource(b []byte, r *Resource) error {
	if a.most > 0 && len(b) > fewAliasBytes && a.aliases+countAliases(b) > a.most {
		r.Name = StringField(b, FieldName)
		return a.manyAliases()
	}
	if err := ParseResource(b, r); err != nil {
		return err
	}
	if a.aliases += len(r.Aliases); a.most > 0 && a.aliases > a.most {
		return a.manyAliases()
	}
	return nil
}

func (a *acceptance) manyAliases() error {
	a.limit = LimitResources
	return fmt.Errorf("the response has more aliases than the %d of origins[].limits.resources", a.most)
}

func countAliases(b []byte) (n int) {
	f := Walk(b)
	for f.Next() {
		if f.IsBytes(FieldAliases) {
			n++
		}
	}
	return n
}
