package downstream

import (
	"time"

	"github.com/weir-xds/weir/relay"
)

// What the canary gate sees of clients: whether they have accepted what their group has, and what
// they reject.

// Member is a stream of a client of a group.
type Member struct {
	Stream uint64 // as ClientStatus.Stream
	NodeID string
	// InSync: the client has accepted all that it is subscribed to of what is a part of the states
	// of the group (relay.Origin.States), so without endpoints that change all the time.
	InSync bool
}

// Members are the streams that have resources of some groups of an origin, by the key of the group.
// A stream that is subscribed to nothing else than endpoints is left out. keys says which groups
// are meant.
func (s *Server) Members(origin *relay.Origin, keys map[string]bool) map[string][]Member {
	all := map[string][]Member{}
	for _, st := range s.list() {
		if key, inSync := st.session.member(origin, keys); key != "" {
			all[key] = append(all[key], Member{st.id, st.session.client(), inSync})
		}
	}
	return all
}

// member is which of some groups of an origin the client is in, and whether it has accepted all
// that it is owed of its configuration; "": it is in none, or not subscribed to anything there. It
// locks the session.
func (s *session) member(origin *relay.Origin, keys map[string]bool) (key string, inSync bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inSync = true
	for _, st := range s.types {
		for i := range st.sub.Len() {
			part := st.sub.Part(i)
			if g := part.Group(); g.Origin() != origin || !keys[g.Key()] || !part.Configures() {
				continue
			}
			key, inSync = part.Group().Key(), inSync && !st.nacking && st.lacksSince().IsZero()
		}
	}
	return key, inSync && key != ""
}

// Refusal is what a client rejects of one group, at once.
type Refusal struct {
	Origin, Group string // key
	TypeURL       string
	// Names are the resources that it is about, as the origin spells them; none: the client does
	// not say which of several, or the list as a whole.
	Names           []string
	NodeID, Message string
	At              time.Time
	// Sent is when the response was written that the client rejects.
	Sent time.Time
}

// refusals are what is told of a note: one for each group that it is about.
func (n *note) refusals(node string) (all []Refusal) {
	of := func(origin, group string) *Refusal {
		for i := range all {
			if all[i].Origin == origin && all[i].Group == group {
				return &all[i]
			}
		}
		all = append(all, Refusal{
			Origin: origin, Group: group, TypeURL: n.typeURL, NodeID: clip(node, maxNodeShown), Message: clip(n.nack.Message, maxBookedText), At: n.nack.At, Sent: n.sent,
		})
		return &all[len(all)-1]
	}
	if len(n.about) == 0 {
		of(n.origin, n.group)
	}
	for i := range n.about {
		c := &n.about[i]
		if r := of(c.Origin, c.Group); c.Name != "" {
			r.Names = append(r.Names, c.Name)
		}
	}
	return all
}
