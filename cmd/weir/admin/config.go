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
	if s.File != "" {
		fmt.Fprintf(&b, ", from %q", s.File)
	}
	b.WriteString("\n")
	if !s.Refused.IsZero() {
		fmt.Fprintf(&b, "# the file was refused at %s, and is not what is in force:\n", s.Refused.UTC().Format(time.RFC3339))
		for _, p := range s.Problems {
			fmt.Fprintf(&b, "#   %s\n", strings.ReplaceAll(p, "\n", " "))
		}
	}
	return b.String()
}
