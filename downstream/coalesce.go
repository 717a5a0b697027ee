package downstream

import "time"

// Many small changes that come one after the other reach a client together: for `coalesce` after
// the stream was last written changes, further ones stay in the table, where they merge. The first
// change after quiet is written at once, and then there is at most one batch a window, the last
// when the window ends.
//
// The window is the stream's, over all its types, and each stream's is its own. So it knows nothing
// of the order between types: a stream in its window is one whose writer happens to come late, and
// what is taken after it is taken in order as ever. Nothing but changes waits. What was taken and
// is held for order leaves by itself when it may. Whatever else there is to write ends the window
// early, and takes the changes with it, so that no answer to a request is ever held back by a
// change that is older (RELAY-84).

// gathers reports whether the stream leaves what there is in the table for now. A type that
// is held back there ends the window when it may go.
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

// taken reports whether something that was taken is still to be written. The window does not
// hold it back.
func (s *session) taken() bool {
	for _, st := range s.types {
		if st.held != nil || st.rest != nil {
			return true
		}
	}
	return false
}

// gathered is when the window is over; the zero time if nothing waits for that.
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
