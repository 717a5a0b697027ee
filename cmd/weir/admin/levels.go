package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/levels"
)

// What is logged, package by package.

// maxAsked bounds the body of a request for another level, in bytes.
const maxAsked = 4 << 10

func (a *Admin) levels(w http.ResponseWriter, r *http.Request) {
	if err := known(r.URL.RawQuery, nil); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"packages": a.cfg.Levels.Status()})
}

// levelAsked is the body of a request for another level.
type levelAsked struct {
	Package string `json:"package"` // empty: all
	Level   string `json:"level"`
	For     string `json:"for"` // empty: until another one is asked for
}

// setLevel gives a package another level.
func (a *Admin) setLevel(w http.ResponseWriter, r *http.Request) {
	const msg = "an operator changed the log level"
	entry := a.cfg.Log.Check(zap.InfoLevel, msg) // at the old level, or else at the new one
	x, lasts, err := readLevel(http.MaxBytesReader(w, r.Body, maxAsked))
	if err == nil {
		err = a.cfg.Levels.Set(x.Package, x.Level, time.Now(), lasts)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	of := x.Package
	if of == "" {
		of = "all packages"
	}
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
	writeText(w, said+"\n")
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
