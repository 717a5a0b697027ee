package admin

import (
	"net/http"
	"time"
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
