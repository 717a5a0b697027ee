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
		for at := range st.places {
			if g := at.group; g.Origin() == origin && keys[g.Key()] && g.Origin().Configures(st.typeURL) {
				key, inSync = g.Key(), inSync && !st.nacking && st.lacksSince().IsZero()
			}
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

// GroupKey names a group of the table.
type GroupKey struct{ Origin, Group string }

// Standing is how the clients of a group stand with its configuration: with what is a part of its
// states (relay.Origin.States), so without endpoints that change all the time.
type Standing struct {
	Clients   int // streams that are subscribed to any of it
	Behind    int // of them, those that have not accepted all of it
	Rejecting int // and those that refused the response of a type that they judged last
}

// InSync reports whether there are clients and all of them have accepted everything.
func (s *Standing) InSync() bool { return s.Clients > 0 && s.Behind == 0 && s.Rejecting == 0 }

// Stand counts the clients of the groups that are asked for. It locks one session at a time, and
// costs about as much as looking at each stream once, whatever the number of groups.
func (s *Server) Stand(groups map[GroupKey]*Standing) {
	if len(groups) == 0 {
		return
	}
	for _, st := range s.list() {
		st.session.stand(groups)
	}
}

// stand counts the session in its groups. It locks the session.
func (s *session) stand(groups map[GroupKey]*Standing) {
	type place struct {
		*Standing
		behind, rejecting bool
	}
	var places [4]place // a stream is nearly always in one group
	of := places[:0]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.types {
		for at := range st.places {
			g := at.group
			standing := groups[GroupKey{g.Origin().Name(), g.Key()}]
			if standing == nil || !g.Origin().Configures(st.typeURL) {
				continue
			}
			i := 0
			for i < len(of) && of[i].Standing != standing {
				i++
			}
			if i == len(of) {
				of = append(of, place{Standing: standing})
			}
			of[i].behind = of[i].behind || !st.lacksSince().IsZero()
			of[i].rejecting = of[i].rejecting || st.nacking
		}
	}
	for _, p := range of {
		p.Clients++
		if p.behind {
			p.Behind++
		}
		if p.rejecting {
			p.Rejecting++
		}
	}
}
