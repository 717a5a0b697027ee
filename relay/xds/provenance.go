package xds

// Provenance is what the bodies of one response have in common. It is immutable once published.
type Provenance struct {
	TypeURL string
	// Among are the groups whose Variants may be the same (Variant.Share); nil: none are.
	Among  *Sharing
	Server uint8 // the origin's server that sent the bodies and their versions
	// Shown: clients are sent the origin's versions (VER-5). Canonical: equal content may have
	// different bytes (VER-6).
	Shown, Canonical bool
	// Fallback: this is no response of the origin. The bodies are those of its fallback, and Source
	// says where that has them from.
	Fallback bool
	Source   string

	Version  string // version_info, or in delta system_version_info
	Revision uint64 // of the response
	Came     int64  // time of receipt, in nanoseconds of Unix time; 0: unknown
}

// Sharing stands for groups whose revisions compare, and that are sent what an origin says.
type Sharing struct{ _ bool }

// Newer returns the Provenance of the later response; either may be nil.
func Newer(a, b *Provenance) *Provenance {
	if a == nil || b != nil && b.Revision > a.Revision {
		return b
	}
	return a
}

// Digest returns the digest of a resource's content (VER-3).
func (from *Provenance) Digest(r *Resource) Digest {
	content := r.Payload
	if from.Canonical {
		content = CanonicalMessage(string(r.PayloadType), content)
	}
	return ContentDigest(from.TypeURL, r.Name, r.Constraints.Key(), r.Aliases, r.PayloadType, content)
}

// ShownVersion returns what a snapshot keeps of the Provenance: the version of the response, if
// clients are sent it.
func (from *Provenance) ShownVersion() string {
	if from == nil || !from.Shown {
		return ""
	}
	return from.Version
}
