package downstream

import "time"

// Many small changes that follow one another reach a client together. For `coalesce` after changes
// were last written to the stream, further changes stay in the table, where they merge. The first
// change after a quiet time is written at once. Then there is at most one batch in each window, the
// last one at the end of the window.
//
// Each stream has a window of its own, over all its types. Order between types does not depend on
// the window: a stream in its window is like a stream whose writer comes late, and what is taken
// after it is taken in order as always. Only changes wait. What was taken and is held back for
// order is written as soon as it may be. Anything else that there is to write ends the window
// early, and the changes are written with it. So an older change never holds back the answer to a
// request (RELAY-84).

// gathers reports whether the stream leaves its changes in the table for now. A type that is held
// back there ends the window when it may be written.
func (s *session) gathers(now time.Time) bool {
	if !now.Before(s.changesAt.Add(s.cfg.timing.Coalesce)) {
		return false
	}
	for _, st := range s.types {
		switch {
		case s.tellable(st):
			return false
		case st.held != nil || st.sub.None():
		case !st.heldSince.IsZero():
			settles, changed := s.earlier(now, st)
			if !settles && (!changed || s.overdue(now, st)) {
				return false
			}
		case st.sub.Urgent():
			return false
		}
	}
	return true
}

// taken reports whether something that was taken has still to be written. The window does not hold
// it back.
func (s *session) taken() bool {
	for _, st := range s.types {
		if st.held != nil || st.rest != nil {
			return true
		}
	}
	return false
}

// gathered is when the window ends; the zero time if nothing waits for that.
func (s *session) gathered() time.Time {
	if s.cfg.timing.Coalesce == 0 {
		return time.Time{}
	}
	for _, st := range s.types {
		if st.peek() || st.keeps {
			return s.changesAt.Add(s.cfg.timing.Coalesce)
		}
	}
	return time.Time{}
}
