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
		events func(h *Health[lane])
		over   bool
	}{
		"an outage":                         {func(h *Health[lane]) { h.Failed(now, failed) }, false},
		"an outage, and an answer":          {func(h *Health[lane]) { h.Failed(now, failed); h.Heard(now, a, true) }, true},
		"one lane":                          {func(h *Health[lane]) { h.Refused(now, a, failed) }, false},
		"one lane, another is answered":     {func(h *Health[lane]) { h.Refused(now, a, failed); h.Heard(now, b, false) }, false},
		"one lane, and it is answered":      {func(h *Health[lane]) { h.Refused(now, a, failed); h.Heard(now, a, true) }, true},
		"one lane, which ends":              {func(h *Health[lane]) { h.Refused(now, a, failed); h.Gone(a) }, true},
		"one lane, another ends":            {func(h *Health[lane]) { h.Refused(now, a, failed); h.Gone(b) }, false},
		"a connection, and an answer":       {func(h *Health[lane]) { h.Refused(now, nil, failed); h.Heard(now, b, false) }, true},
		"one lane, then an outage, and one": {func(h *Health[lane]) { h.Refused(now, a, failed); h.Failed(now, failed); h.Heard(now, b, true) }, true},
		"an outage, and a lane ends":        {func(h *Health[lane]) { h.Failed(now, failed); h.Gone(a) }, false},
	} {
		h, s := &Health[lane]{}, Status{}
		row.events(h)
		if h.Fill(&s); row.over != (s.Err == "") || row.over != s.ErrAt.IsZero() {
			t.Errorf("%s: the error is %q of %s", name, s.Err, s.ErrAt)
		}
	}
}
