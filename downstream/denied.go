package downstream

import (
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/grpc/codes"
)

// shortFor is how long a stream lasts on which names are missing for want of room. Clients do not
// ask for a name again that they are subscribed to, so this one would miss them for as long as the
// stream lasts; and by then another replica may have the room.
const shortFor = 5 * time.Minute

// shortLook is how often such a stream looks whether there is memory again, which it would rather
// come back for at once.
const shortLook = 10 * time.Second

// short notes that a name is missing for a limit.
func (s *session) short(now time.Time, limit string) {
	if s.shortOf == "" {
		s.shortOf, s.shortFrom, s.shortAt = limit, now, now.Add(shortFor)
		if limit == "memory" {
			s.shortAt = now.Add(shortLook)
		}
	}
}

// lookShort ends the stream for what is missing: when there is memory again, or in the end.
func (s *session) lookShort(now time.Time) error {
	switch {
	case s.shortOf == "" || now.Before(s.shortAt):
		return nil
	case now.Before(s.shortFrom.Add(shortFor)) && s.cfg.table.Tight():
		s.shortAt = now.Add(shortLook)
		return nil
	}
	return s.errShort()
}

// errShort is the end of the stream then.
func (s *session) errShort() error {
	return &limitError{
		key: s.shortOf, code: codes.Unavailable, elsewhere: true,
		text: "limits." + s.shortOf + ": names were refused for want of room: come again, there may be some now, and resume by version",
	}
}

// denied tells the client what the table had no room for: names one by one, and `*`, for
// which there is no error (ABS-12), by the stream's end. Of before it was told already. at: they
// are locators of it.
func (s *session) denied(now time.Time, st *streamType, denied []relay.Denied, at *locatorBatch, before map[uint64]struct{}) error {
	if len(denied) == 0 {
		return nil
	}
	about := ""
	if at != nil {
		about = s.about(at.params)
	}
	var why *reason
	for _, d := range denied {
		if d.Name == xds.Wildcard {
			return s.cfg.full(d.Limit, d.Most, noRoom[d.Limit])
		}
		if why == nil || why.limit != d.Limit {
			why = limitReason(d.Limit, d.Most, noRoom[d.Limit])
		}
		s.short(now, d.Limit)
		named := d.Name
		if at != nil {
			named = locatorKey(d.Name, at.params)
		}
		key := s.refusalKey(named)
		if !s.delta {
			if st.denied == nil {
				st.denied = map[uint64]struct{}{}
			}
			st.denied[key] = struct{}{}
			if _, told := before[key]; told {
				continue
			}
		}
		s.refuseAbout(st, d.Name, about, key, why)
	}
	if why != nil && why.limit == "memory" && s.noteUntold(0) {
		return s.cfg.full(why.limit, denied[0].Most, "more names are refused than their clients take note of")
	}
	return nil
}

// noRoom says for each limit of the table what it is that there is no room for.
var noRoom = map[string]string{
	"memory": "there is no room for what nobody has asked for yet",
	"views":  "so many sets are asked for",

	"parameter_sets_per_group": "the client's group has so many maps of dynamic parameters",
}
