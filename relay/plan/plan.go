package plan

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// Config is what the order of types goes by.
type Config struct {
	Delta bool          // the stream is of the delta dialect
	Hold  time.Duration // order_hold: how long anything may wait for an acknowledgement
	Cold  time.Duration // cold_wait: how long anything may wait for the origin
}

// Stream is how far one ADS stream is. Its methods are called by one goroutine at a time.
type Stream struct {
	cfg     Config
	groups  []group
	parts   []Part // of the last step
	flights []typeFlights
	clear   time.Time // when the client acknowledged the last clusters
	shown   time.Time // when listeners or routes were written last
	began   time.Time
	wrote   time.Time // when a response was written in fact last
}

// group is how far the stream is in what comes from one origin.
type group struct {
	// back: the clusters, endpoints and secrets of this state were added and changed. None was
	// taken away that front has.
	back  *state.State
	whole bool // nothing of it is waited for any more
	// front: the listeners and routes that the client has are those of this state. Its clusters
	// were acknowledged, or waited for for order_hold.
	front  *state.State
	filled *state.State // the target that back and front were filled from
	lent   *state.State // filled, if the front has listeners or routes of it, which its backends are for
	// unsure is since when listeners or routes are not confirmed, on a stream to the origin that is
	// open; zero: they are, or there is none.
	unsure time.Time
	// doubt: listeners or routes of the front were not confirmed when it was written, so the client
	// may have others still, of which nothing is known (ORD-11).
	doubt bool
	waits bool // the front is not that of the target
	// differs: the target has other listeners or routes. Their wait is counted from when they came,
	// whatever changed before them (ORD-5).
	differs bool
	// blind: it is not known what the backends are (ORD-8). sees: it was not before this look.
	// Clusters that are written then have as long for their answer as any.
	blind, sees bool
	due         time.Time // when it is written, acknowledged or not (ORD-5)
	others      time.Time // when those fronts of other groups are that waited when it moved last
}

// typeFlights are the responses of a type that are written and not answered, the newest last.
type typeFlights struct {
	typeURL string
	all     []flight
}

// flightsOf are those of a type; nil: none was ever written.
func (s *Stream) flightsOf(typeURL string) *[]flight {
	for i := range s.flights {
		if x := &s.flights[i]; x.typeURL == typeURL {
			return &x.all
		}
	}
	return nil
}

// inFlight are those of a type.
func (s *Stream) inFlight(typeURL string) []flight {
	if all := s.flightsOf(typeURL); all != nil {
		return *all
	}
	return nil
}

// flight is a response that is not answered.
type flight struct {
	nonce   uint64
	at      time.Time
	missing bool // it has what was missing alone
}

// Ask is one type that the client asks for, as it stands.
type Ask struct {
	Client
	TypeURL string
	Named   bool      // by names, not by sets
	Names   bool      // by names, whether or not by sets, too
	Holds   bool      // the client says that it holds something of it, from before the stream
	Owes    bool      // something is owed as what refers to it was sent (WARM-2)
	Demands bool      // virtual hosts on demand, which a request of the client's waits for (ALIAS-8)
	Beat    time.Time // when a heartbeat is due; the zero time: never (TTL-4)
	// Needed is since when the client needs something of a backend that it was not sent, as what
	// was sent to it refers to that; the zero time: nothing. Routes wait for it for order_hold
	// (ORD-5).
	Needed time.Time
}

// Client knows what is asked of a type.
type Client interface {
	// Waits says, of a backend, until when later types wait for what a state of a group does not
	// know yet of what is asked; that may be past. The zero time: it knows all. See Complete.
	Waits(c Config, group int, s *state.State) time.Time
	// Unconfirmed says, of listeners and routes, whether no stream has confirmed what a state of a
	// group has of what is asked (ORD-11).
	Unconfirmed(group int, s *state.State) bool
	// Lacking says, of listeners and routes, whether a state of a group has something else of what
	// was answered once than the client has.
	Lacking(group int, s *state.State) bool
}

// Step brings one type of the client to what is known in some states.
type Step struct {
	TypeURL string
	Parts   []Part // by group, until the next step
	Only    Only
	// Push: owed endpoints are due whether or not a request for them has come (WARM-2).
	Push bool
}

// Part is the step within what comes from one origin.
type Part struct {
	To   *state.State    // nil: nothing of it yet
	Keep [3]*state.State // what one of these has, or does not know, is not taken away; see Has
	All  bool            // nothing is taken away
	// Named: nothing that the client asks for by name is (ORD-10).
	Named bool
	// Newest is where the client is brought in the end, if To is not that: bodies expire as they do
	// there (TTL-4). nil: To is.
	Newest *state.State
	// Ahead is what virtual hosts were given of on demand (ALIAS-8): what the client has of it
	// already stays. nil: nothing is.
	Ahead *state.State
}

// States are those that the step depends on.
func (p *Part) States() [4]*state.State {
	return [...]*state.State{p.To, p.Keep[0], p.Keep[1], p.Keep[2]}
}

// Only says what of a type may be written in a step.
type Only uint8

// What may be written: all that differs; what the client has not and what it is owed, as a response
// is not answered (NONCE-10); virtual hosts on demand (ALIAS-8); heartbeats of what it has (TTL-4).
const (
	Everything Only = iota
	Missing
	Demanded
	Heartbeats
)

// New makes the plan of a stream to which nothing was written.
func New(c Config, groups int) *Stream {
	return &Stream{cfg: c, groups: make([]group, groups), parts: make([]Part, groups)}
}

// Join adds a group, of which nothing was written, and returns its number.
func (s *Stream) Join() int {
	s.groups, s.parts = append(s.groups, group{}), append(s.parts, Part{})
	return len(s.groups) - 1
}

// Ack notes that the client has acknowledged a response, or rejected it: neither holds anything
// back (ORD-7). In state of the world an answer to a response is one to all before it (NONCE-2).
func (s *Stream) Ack(now time.Time, typeURL string, nonce uint64) {
	if all := s.flightsOf(typeURL); all != nil {
		*all = slices.DeleteFunc(*all, func(f flight) bool { return f.nonce == nonce || !s.cfg.Delta && f.nonce < nonce })
	}
	if typeURL == xds.ClusterType && s.clear.IsZero() {
		s.clear = now
	}
}

// Wrote notes when a response was written in fact. Only then the wait for its answer begins.
func (s *Stream) Wrote(now time.Time, typeURL string, nonce uint64) {
	all := s.inFlight(typeURL)
	for i := range all {
		if f := &all[i]; f.nonce == nonce {
			for g := range s.groups { // the time in which the client did not read is none of its waiting
				if x := &s.groups[g]; x.waits {
					x.due = earlier(x.due.Add(now.Sub(f.at)), now.Add(s.cfg.Hold))
				}
			}
			f.at, s.wrote = now, now
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Due is until when listeners and routes are held back at most; zero: none are.
func (s *Stream) Due() (due time.Time) {
	for i := range s.groups {
		if x := &s.groups[i]; x.waits && x.due.After(due) {
			due = x.due
		}
	}
	return due
}

// Has is what the client is to have of a name after the step, of one group. held is what it has.
// has is what its subscription selects of the name in a state, and whether that is known there: of
// a set that is not settled a name is not known to be gone. What To has not, or has emptied as its
// cluster went, stays as it is while a state of Keep has it, or does not know it.
func (p *Part) Has(held state.Entry, has func(*state.State) (e state.Entry, known bool)) state.Entry {
	if p.To == nil {
		return held
	}
	to, known := has(p.To)
	if p.Ahead != nil {
		if e, _ := has(p.Ahead); same(e, held) {
			return held
		}
	}
	switch {
	case exists(to) || !exists(held):
		return to
	case !known || p.All:
		return held
	}
	for _, s := range p.Keep {
		if s == nil {
			continue
		}
		if e, known := has(s); !known || exists(e) {
			return held
		}
	}
	return to
}

func same(a, b state.Entry) bool {
	v, w := a.Body(), b.Body()
	return v != nil && w != nil && v.Digest == w.Digest
}

// exists reports whether an entry has something of use. An assignment that is emptied before its
// cluster is taken away has not.
func exists(e state.Entry) bool {
	v := e.Body()
	return e.Has() && (v == nil || !v.Orphaned())
}

// backend are the types that listeners and routes refer to.
func backend(typeURL string) bool {
	switch typeURL {
	case xds.ClusterType, xds.EndpointType, xds.LbEndpointType, xds.SecretType:
		return true
	}
	return false
}

// front are the types that choose among backends. They are written when the backends are there.
func front(typeURL string) bool {
	switch typeURL {
	case xds.ListenerType, xds.ScopedRouteType, xds.RouteType, xds.VirtualHostType, xds.ExtensionConfigType:
		return true
	}
	return false
}

// Complete is until when later types wait for sets of a state, which may be past; the zero time if
// all are settled. It counts from when the origin was asked, so a set that was waited for in vain
// for cold_wait holds nothing more, for any client (ORD-8).
func (c Config) Complete(sets ...state.Selected) (until time.Time) {
	for _, x := range sets {
		if end := x.Asked.Add(c.Cold); x.Phase < state.Settled && end.After(until) {
			until = end
		}
	}
	return until
}
