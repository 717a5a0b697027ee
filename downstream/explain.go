package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// Explained is what one client stream has to do with a name of a type, as a copy.
type Explained struct {
	ClientStatus
	// Type is the state of the type that was asked about; nil: the stream does not ask for it.
	Type *TypeStatus
	// Refused is why the name is not asked for on the client's behalf; "": it is, or may be.
	// Denied: the rules are why, and Limited: a limit.
	Refused         string
	Denied, Limited bool
	// Parts are what its subscriptions know of the name, one for each origin and parameter map.
	Parts []ExplainedPart
	// SentAt is when a response of the type was written last, and AckedAt when one was accepted
	// last; zero: none was.
	SentAt, AckedAt time.Time
}

// ExplainedPart is what one subscription knows of the name.
type ExplainedPart struct {
	relay.NameView
	// SentAt is when the response was written that has what the client was sent last, if the client
	// has not answered it; zero: it has, or that is not known.
	SentAt time.Time
	Nack   Nack        // of what the client was sent last; zero: it did not reject that
	ByName relay.Names // if no name was given
}

// Explain returns what the streams of a node have to do with a name of a type, oldest first. The
// name may be empty, for the type as a whole, and then the type too. The streams are looked at one
// after the other, and each is locked for a moment.
func (s *Server) Explain(nodeID, typeURL, name string) (all []Explained) {
	now := time.Now()
	for _, st := range s.list() {
		if x, is := st.session.explain(now, nodeID, typeURL, name); is {
			x.Stream, x.Peer = st.id, st.address()
			x.Waits = append(x.Waits, st.waits(now)...)
			all = append(all, x)
		}
	}
	return all
}

// explain is Explain for one session; false: it is another node's. It locks the session.
func (s *session) explain(now time.Time, nodeID, typeURL, name string) (x Explained, is bool) {
	s.mu.Lock()
	other := s.nodeID != nodeID
	s.mu.Unlock()
	if other {
		return x, false
	}
	x.ClientStatus = s.status(now)
	if name == "" {
		s.byName(x.Types)
	}
	i := slices.IndexFunc(x.Types, func(t TypeStatus) bool { return t.TypeURL == typeURL })
	if other := xds.OtherSpelling(typeURL); i < 0 && other != "" {
		i = slices.IndexFunc(x.Types, func(t TypeStatus) bool { return t.TypeURL == other })
	}
	if i < 0 {
		return x, true
	}
	x.Type = &x.Types[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.types {
		if st.typeURL == x.Type.TypeURL {
			s.explainType(st, name, &x)
		}
	}
	return x, true
}

// byName fills in what has become of the names of each type. It locks the session.
func (s *session) byName(types []TypeStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range types {
		for _, st := range s.types {
			if st.typeURL != types[i].TypeURL {
				continue
			}
			if st.sub != nil {
				for j := range st.sub.sources {
					types[i].ByName.Add(st.sub.sources[j].wants.Counts())
				}
			}
		}
	}
}

func (s *session) explainType(st *streamType, name string, x *Explained) {
	if st.sentAt > 0 {
		x.SentAt = s.opened.Add(st.sentAt)
	}
	if st.ackedAt > 0 {
		x.AckedAt = s.opened.Add(st.ackedAt)
	}
	if why := s.refusedFor(st, name); why != nil {
		x.Refused, x.Denied, x.Limited = why.text, why.absent || st.barred, why.limit != ""
	} else if text := s.lackOf(st, name); text != "" {
		x.Refused, x.Limited = text, true
	}
	if st.sub != nil {
		x.Parts = st.explain(name)
	}
}

// explain is what each source of the type knows of a name.
func (st *streamType) explain(name string) (all []ExplainedPart) {
	why := st.why()
	for i := range st.sub.sources {
		x := &st.sub.sources[i]
		part := ExplainedPart{NameView: x.wants.View(name, st.sub.Awaited(i))}
		if part.Located = x.located; i == st.sub.lacked {
			part.Since = st.sub.lackedSince
		}
		if name == "" {
			part.ByName = x.wants.Counts()
		}
		seen, is := st.sub.SeenOf(i, x.group.States().Newest(), xds.NameKey(name))
		if is {
			part.Item = x.wants.Item(seen)
		}
		switch at := slices.IndexFunc(st.unanswered, func(y sent) bool { return y.real && !y.nacked && y.number == seen.Answer }); {
		case seen.Refused:
			part.Nack = why[seen.Answer]
		case seen.Unjudged && at >= 0:
			part.SentAt = st.unanswered[at].at
		}
		if xds.IsSecret(st.typeURL) {
			part.unsay()
		}
		all = append(all, part)
	}
	return all
}

// unsaidOfOrigin replaces what is said of a secret between weir and the origin.
const unsaidOfOrigin = "(what is said of a secret is not kept)"

// unsay replaces what was said of a secret, which may quote it (RELAY-76).
func (p *ExplainedPart) unsay() {
	if e := p.Error; e != nil {
		p.Error = &relay.NameError{Name: e.Name, Code: e.Code, Message: unsaidOfOrigin}
	}
	if p.Rejected != nil {
		p.Rejected = &relay.Rejection{At: p.Rejected.At, Reason: unsaidOfOrigin}
	}
}

// refusedFor is why a name is refused without asking an origin; nil: it is not. It leaves no trace.
func (s *session) refusedFor(st *streamType, name string) *reason {
	if name == "" || s.group == nil || s.closed {
		return nil
	}
	asked, many, deltaOf := slices.Clone(s.authorities.asked), s.authorities.many, s.deltaOf
	defer func() { s.authorities, s.deltaOf = authorities{asked, many}, deltaOf }()
	o, why := s.judge(st, name)
	if why != nil || s.rights == nil {
		return why
	}
	saved := *s.rights
	defer func() { *s.rights = saved }()
	return s.deny(st, o, name, s.permit(o, st.typeURL, s.params(o, st.typeURL)), false)
}

// OfName reports whether a reason is one of those that names have of their own (relay.NameView),
// and not one of a stream or a type.
func OfName(w metrics.WaitReason) bool {
	switch w {
	case metrics.WaitConfirm, metrics.WaitError, metrics.WaitBadPart, metrics.WaitSettle, metrics.WaitGather, metrics.WaitGuard, metrics.WaitFreeze, metrics.WaitHold,
		metrics.WaitHost, metrics.WaitOrigin, metrics.WaitQuarantine, metrics.WaitAsk, metrics.WaitBatch, metrics.WaitQueue, metrics.WaitConnect,
		metrics.WaitBackoff, metrics.WaitPoll:
		return true
	}
	return false
}
