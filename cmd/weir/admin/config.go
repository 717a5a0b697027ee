package admin

import (
	"fmt"
	"strings"
	"time"
)

// ConfigState is how the configuration in force came to be.
type ConfigState struct {
	// File is where it is from; empty: it does not change.
	File string `json:"file,omitempty"`
	// Hash is the SHA-256 of the text that is in force, in hexadecimal digits.
	Hash string `json:"hash,omitempty"`
	// LastGood is the file that the text in force was kept in, and Accepted when it was accepted:
	// File was refused at the start, and since. Empty: what is in force is from File.
	LastGood string    `json:"last_good,omitempty"`
	Accepted time.Time `json:"accepted,omitzero"`
	// Since is when it came into force.
	Since time.Time `json:"since"`
	// Read is when the file was read last, whatever came of it.
	Read time.Time `json:"read"`
	// Refused is when the file was refused: it holds something else now. Zero: it
	// was not, or the file is in force by now.
	Refused time.Time `json:"refused,omitzero"`
	// Problems are what it was refused for, one line each, with line and key.
	Problems []string `json:"problems,omitempty"`
}

// comment is what stands above the configuration, in YAML.
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
