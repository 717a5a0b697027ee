package downstream

import (
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/grpc/codes"
)

// shortFor is how long a stream lasts after names were denied for lack of memory or because of a
// limit. Clients do not ask again for a name that they are subscribed to, so this client would miss
// the names for as long as the stream lasts. By then another replica may have room for them.
const shortFor = 5 * time.Minute

// shortLook is how often such a stream checks whether there is memory again. Then it ends at once.
const shortLook = 10 * time.Second

// lack is that names are missing because of a limit.
type lack struct {
	limit string
	text  string // as the client was told it
	since time.Time
	next  time.Time // when to check it
}

// short records that a name is missing because of a limit.
func (s *session) short(now time.Time, why *reason) {
	if s.lack == nil {
		s.lack = &lack{why.limit, why.text, now, now.Add(shortFor)}
		if why.limit == "memory" {
			s.lack.next = now.Add(shortLook)
		}
	}
}

// lackOf is why a name that the client is not subscribed to may be one that the table had no room
// for; "": it is not. In delta it is not kept which names were refused.
func (s *session) lackOf(st *streamType, name string) string {
	switch {
	case name == "" || !st.short || s.lack == nil:
		return ""
	case s.delta:
		return s.lack.text + ". Other names of the type were refused for that; so was this one, unless the client has not asked for it"
	}
	_, denied := st.denied[s.refusalKey(name)]
	if _, refused := st.refused[name]; denied || refused {
		return s.lack.text
	}
	return ""
}

// lookShort ends the stream because of missing names: when there is memory again, or after
// shortFor.
func (s *session) lookShort(now time.Time) error {
	switch {
	case s.lack == nil || now.Before(s.lack.next):
		return nil
	case now.Before(s.lack.since.Add(shortFor)) && s.cfg.table.Tight():
		s.lack.next = now.Add(shortLook)
		return nil
	}
	return s.errShort()
}

// errShort is the status of that end.
func (s *session) errShort() error {
	return &limitError{
		key: s.lack.limit, code: codes.Unavailable, elsewhere: true,
		text: "limits." + s.lack.limit + ": names were refused for want of room: come again, there may be some now, and resume by version",
	}
}

// denied sends the client what the table had no room for: an error for each name. `*` cannot have
// an error (ABS-12), so the stream ends for it. Names in before were sent their error already. at:
// the names are locators of this batch.
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
		s.short(now, why)
		st.short = true
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

// noRoom says for each limit of the table what there is no room for.
var noRoom = map[string]string{
	"memory": "there is no room for what nobody has asked for yet",
	"views":  "so many sets are asked for",

	"parameter_sets_per_group": "the client's group has so many maps of dynamic parameters",
}
