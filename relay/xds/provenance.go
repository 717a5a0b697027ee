package xds

// Provenance is what the bodies of one response have in common. It does not change once the first
// of them can be seen.
type Provenance struct {
	TypeURL string
	Server  uint8 // of the origin, that gave the bodies and their versions
	// Shown: clients are sent the origin's versions (VER-5). Canonical: equal content may have
	// other bytes (VER-6).
	Shown, Canonical bool
	// Fallback: it is no response. The bodies are those of the last resort, and Source says where
	// that has them from.
	Fallback bool
	Source   string

	Version  string // version_info, or in delta system_version_info
	Revision uint64 // of the response
	Came     int64  // when, in nanoseconds of Unix time; 0: not known
}

// Newer is the Provenance of the later response; either may be nil.
func Newer(a, b *Provenance) *Provenance {
	if a == nil || b != nil && b.Revision > a.Revision {
		return b
	}
	return a
}

// Digest is the digest of a resource's content (VER-3).
func (from *Provenance) Digest(r *Resource) Digest {
	content := r.Payload
	if from.Canonical {
		content = CanonicalMessage(string(r.PayloadType), content)
	}
	return ContentDigest(from.TypeURL, r.Name, r.Constraints.Key(), r.Aliases, r.PayloadType, content)
}

// ShownVersion is what a snapshot keeps of the Provenance: the version of the response, if clients
// are sent it.
func (from *Provenance) ShownVersion() string {
	if from == nil || !from.Shown {
		return ""
	}
	return from.Version
}
