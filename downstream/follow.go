package downstream

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

// watchers are told what happens to clients: the log, if its level is debug; those who follow one
// client; and Config.Traces. While nobody wants to know, no event is made.
type watchers struct {
	// Set once.
	log    *zap.Logger
	traces Traces // nil: there are none

	followers atomic.Pointer[[]*Follower] // nil: there are none; the list is never changed

	mu sync.Mutex // guards changes of followers; a leaf
}

// Traces is told what becomes of the updates that are traced. Its methods are called from many
// goroutines, with no lock of a session held but in Open, which must not wait.
type Traces interface {
	// Open reports whether anything is traced now.
	Open() bool
	// Note is told of an event.
	Note(e *Event)
}

const (
	// maxFollowers bounds those who follow clients at a time.
	maxFollowers = 8
	// followed is how many events wait for one who follows. What comes beyond them is counted.
	followed = 256
)

// ErrFollowers is returned by Follow if too many follow clients already.
var ErrFollowers = errors.New("eight requests follow a client already")

// Follower gets the events of one client, which may have several streams, one after the other or at
// a time.
type Follower struct {
	node   string // set once
	events chan *Event
	missed atomic.Int64
}

// Events has the events, as they happen. What a stream reads and what it writes is told apart, so
// two events of one moment may come in either order; their times have it.
func (f *Follower) Events() <-chan *Event { return f.events }

// Missed is how many events there was no room for since the last call, as they were not read in
// time.
func (f *Follower) Missed() int64 { return f.missed.Swap(0) }

// Follow begins to follow the client with a node id, until stop is called.
func (s *Server) Follow(node string) (_ *Follower, stop func(), _ error) {
	w, f := s.cfg.watchers, &Follower{node: node, events: make(chan *Event, followed)}
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*Follower
	if now := w.followers.Load(); now != nil {
		all = *now
	}
	if len(all) >= maxFollowers {
		return nil, nil, ErrFollowers
	}
	all = append(slices.Clone(all), f)
	w.followers.Store(&all)
	return f, func() { w.leave(f) }, nil
}

// Unsent returns of each traced update how many streams have still to be sent it, as far as
// revisions tell: a client of names counts that has not been sent older changes of other names.
func (s *Server) Unsent(all []*relay.Traced) []int {
	unsent := make([]int, len(all))
	for _, st := range s.list() {
		st.session.countUnsent(all, unsent)
	}
	return unsent
}

// countUnsent adds those that the client has still to be sent. It locks the session.
func (s *session) countUnsent(all []*relay.Traced, unsent []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.types {
		for i, x := range all {
			if st.typeURL == x.TypeURL && st.lacks(x) {
				unsent[i]++
			}
		}
	}
}

// lacks reports whether the client has still to be sent a traced update of the type.
func (st *streamType) lacks(x *relay.Traced) bool {
	if st.sub == nil {
		return false
	}
	for i := range st.sub.sources {
		if of := &st.sub.sources[i]; of.group == x.Source && of.has < x.Revision && st.sub.Lacks(i, of.group.States().Newest()) {
			return true
		}
	}
	return false
}

// leave ends a Follow. It locks the watchers.
func (w *watchers) leave(f *Follower) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(*w.followers.Load()), func(x *Follower) bool { return x == f })
	if len(rest) == 0 {
		w.followers.Store(nil)
		return
	}
	w.followers.Store(&rest)
}

// wants reports whether anybody wants to know what happens to the client with a node id. It takes
// no lock.
func (w *watchers) wants(node string) bool {
	if w == nil {
		return false
	}
	if w.log.Core().Enabled(zap.DebugLevel) || w.traces != nil && w.traces.Open() {
		return true
	}
	all := w.followers.Load()
	return all != nil && slices.ContainsFunc(*all, func(f *Follower) bool { return f.node == node })
}

// tell passes an event of a stream on.
func (w *watchers) tell(st *stream, e *Event) {
	e.Stream, e.Peer = st.id, st.address()
	if w.traces != nil {
		w.traces.Note(e)
	}
	if ce := w.log.Check(zap.DebugLevel, messages[e.Kind]); ce != nil {
		ce.Write(e.fields()...)
	}
	all := w.followers.Load()
	if all == nil || e.NodeID == "" {
		return
	}
	for _, f := range *all {
		if f.node != e.NodeID {
			continue
		}
		select {
		case f.events <- e:
		default:
			f.missed.Add(1)
		}
	}
}

// tellStream tells of an event of a stream that no request or answer makes.
func (w *watchers) tellStream(st *stream, kind EventKind, more func(*Event)) {
	if w == nil {
		return
	}
	node := st.session.client()
	if !w.wants(node) {
		return
	}
	e := &Event{At: time.Now(), Kind: kind, NodeID: node}
	more(e)
	w.tell(st, e)
}
