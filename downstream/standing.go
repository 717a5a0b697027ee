package downstream

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
		for i := range st.sub.Len() {
			part := st.sub.Part(i)
			g := part.Group()
			standing := groups[GroupKey{g.Origin().Name(), g.Key()}]
			if standing == nil || !part.Configures() {
				continue
			}
			at := 0
			for at < len(of) && of[at].Standing != standing {
				at++
			}
			if at == len(of) {
				of = append(of, place{Standing: standing})
			}
			of[at].behind = of[at].behind || !st.lacksSince().IsZero()
			of[at].rejecting = of[at].rejecting || st.nacking
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
