package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/levels"
)

// Readiness is what /readyz says.
type Readiness struct {
	// Ready decides the status code.
	Ready bool `json:"ready"`
	// State is "starting", "ready", "full" or "draining".
	State string `json:"state"`
	// Why is one sentence for people.
	Why string `json:"why,omitempty"`
	// ConfigRefused is when the config file was refused; zero: it is in force. GET /config has the
	// reason.
	ConfigRefused time.Time `json:"config_refused,omitzero"`
	// ConfigLastGood is when the configuration in force was accepted, if the file was refused at
	// the start.
	ConfigLastGood time.Time `json:"config_last_good,omitzero"`
	// Origins are listed whatever their state: a later outage does not make a process with a cache
	// unready.
	Origins []OriginReadiness `json:"origins"`
}

// OriginReadiness is the state of an origin.
type OriginReadiness struct {
	Name    string `json:"name"`
	Reached bool   `json:"reached"` // it has answered at least once since the start
	// Restored: from the snapshot or a seed, which counts as reached. RestoredFrom says from which:
	// snapshot, a sibling with its address, or a file.
	Restored     bool   `json:"restored,omitempty"`
	RestoredFrom string `json:"restored_from,omitempty"`
	Connected    bool   `json:"connected"`
	// Unanswered lists types that clients wait for, short names.
	Unanswered []string `json:"unanswered,omitempty"`
}

func (a *Admin) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	writeText(w, "alive\n")
}

func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	r, code := a.cfg.Readiness(), http.StatusOK
	if !r.Ready {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, r)
}

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

// What is logged, package by package.

// maxAsked bounds the body of a request for another level, in bytes.
const maxAsked = 4 << 10

func (a *Admin) levels(r *http.Request) (any, error) {
	return map[string]any{"packages": a.cfg.Levels.Status()}, a.params(r).err
}

// levelAsked is the body of a request for another level.
type levelAsked struct {
	Package string `json:"package"` // empty: all
	Level   string `json:"level"`
	For     string `json:"for"` // empty: until another one is asked for
}

// setLevel gives a package another level.
func (a *Admin) setLevel(r *http.Request) (string, error) {
	const msg = "an operator changed the log level"
	entry := a.cfg.Log.Check(zap.InfoLevel, msg) // at the old level, or else at the new one
	x, lasts, err := readLevel(http.MaxBytesReader(nil, r.Body, maxAsked))
	if err == nil {
		err = a.cfg.Levels.Set(x.Package, x.Level, time.Now(), lasts)
	}
	if err != nil {
		return "", err
	}
	of := cmp.Or(x.Package, "all packages")
	said := fmt.Sprintf("%s: %s", of, x.Level)
	if lasts > 0 {
		said += " for " + lasts.String()
	}
	if entry == nil {
		entry = a.cfg.Log.Check(zap.InfoLevel, msg)
	}
	if entry != nil {
		entry.Write(append(who(r), zap.String("package", of), zap.String("to", x.Level), zap.Duration("for", lasts))...)
	}
	return said, nil
}

// readLevel reads a request for another level.
func readLevel(body io.Reader) (x levelAsked, lasts time.Duration, err error) {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&x); err != nil {
		return x, 0, fmt.Errorf(`the body is not {"package": ..., "level": ..., "for": ...}: %w`, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return x, 0, errors.New("something follows the body")
	}
	if x.For == "" {
		return x, 0, nil
	}
	if lasts, err = time.ParseDuration(x.For); err != nil || lasts <= 0 || x.Level == levels.Configured {
		return x, 0, fmt.Errorf("for %q: write a time such as 10m, and none for the level %s", x.For, levels.Configured)
	}
	return x, lasts, nil
}
