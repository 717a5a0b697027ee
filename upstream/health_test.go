package upstream

import (
	"errors"
	"testing"
	"time"
)

// TestErrorIsOver: the status has an error until who met it is answered, or is no more.
func TestErrorIsOver(t *testing.T) {
	failed, now := errors.New("no"), time.Now()
	a, b := new(lane), new(lane)
	for name, row := range map[string]struct {
		events func(h *health)
		over   bool
	}{
		"an outage":                         {func(h *health) { h.failed(now, failed) }, false},
		"an outage, and an answer":          {func(h *health) { h.failed(now, failed); h.heard(now, a, true) }, true},
		"one lane":                          {func(h *health) { h.refused(now, a, failed) }, false},
		"one lane, another is answered":     {func(h *health) { h.refused(now, a, failed); h.heard(now, b, false) }, false},
		"one lane, and it is answered":      {func(h *health) { h.refused(now, a, failed); h.heard(now, a, true) }, true},
		"one lane, which ends":              {func(h *health) { h.refused(now, a, failed); h.gone(a) }, true},
		"one lane, another ends":            {func(h *health) { h.refused(now, a, failed); h.gone(b) }, false},
		"a connection, and an answer":       {func(h *health) { h.refused(now, nil, failed); h.heard(now, b, false) }, true},
		"one lane, then an outage, and one": {func(h *health) { h.refused(now, a, failed); h.failed(now, failed); h.heard(now, b, true) }, true},
		"an outage, and a lane ends":        {func(h *health) { h.failed(now, failed); h.gone(a) }, false},
	} {
		h, s := &health{}, Status{}
		row.events(h)
		if h.fillStatus(&s); row.over != (s.Err == "") || row.over != s.ErrAt.IsZero() {
			t.Errorf("%s: the error is %q of %s", name, s.Err, s.ErrAt)
		}
	}
}
