package admin

import (
	"fmt"
	"strings"
	"time"
)

// ConfigState says where the configuration in force is from.
type ConfigState struct {
	// File is its path; empty: there is none, so no reloads.
	File string `json:"file,omitempty"`
	// Hash is the SHA-256 of the text in force, in hexadecimal.
	Hash string `json:"hash,omitempty"`
	// LastGood is the file with the text in force, and Accepted when that was accepted: File has
	// been refused since the start. Empty: the text in force is File's.
	LastGood string    `json:"last_good,omitempty"`
	Accepted time.Time `json:"accepted,omitzero"`
	// Since is when it came into force.
	Since time.Time `json:"since"`
	// Read is when the file was last read, with whatever result.
	Read time.Time `json:"read"`
	// Refused is when the file was refused. Zero: it was not, or it is in force.
	Refused time.Time `json:"refused,omitzero"`
	// Problems are why it was refused, one line each, with line and key.
	Problems []string `json:"problems,omitempty"`
}

// comment returns the comment above the configuration in YAML.
func (s *ConfigState) comment() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# in force since %s", s.Since.UTC().Format(time.RFC3339))
	switch {
	case s.LastGood != "":
		fmt.Fprintf(&b, ", from %q, as accepted last at %s", s.LastGood, s.Accepted.UTC().Format(time.RFC3339))
	case s.File != "":
		fmt.Fprintf(&b, ", from %q", s.File)
	}
	fmt.Fprintf(&b, "\n# sha256 of the text: %s\n", s.Hash)
	if !s.Refused.IsZero() {
		fmt.Fprintf(&b, "# the file was refused at %s, and is not what is in force:\n", s.Refused.UTC().Format(time.RFC3339))
		for _, p := range s.Problems {
			fmt.Fprintf(&b, "#   %s\n", strings.ReplaceAll(p, "\n", " "))
		}
	}
	return b.String()
}
