package downstream

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxAuthorities is how many authorities a stream's names may have before it counts as concerned by
// every change of one.
const maxAuthorities = 64

// errReconfigured: the client that resumes is served by what is in force.
var errReconfigured = status.Error(codes.Unavailable,
	"the configuration of this relay has changed, and with it what the stream was served from: come again, and resume by version")

// Reconfiguration is what may change of a server in use. What is not here is as it was given to
// New.
type Reconfiguration struct {
	// Limits and Timing are in force for the streams there are as well; but none is ended for a
	// limit that it did not break before. StreamsPerConnection, RequestBytes and Keepalive are
	// those of New for the listeners there are.
	Limits Limits
	Timing Timing
	// Listeners are all that are served, or will be, with their settings. One that is missing is
	// closed. TLS and what it is of a listener that is served already do not change.
	Listeners map[net.Listener]ListenerConfig
	// Change is what has changed in the table.
	Change *relay.Change
}

// Concerned are the streams that a change of the configuration takes something from, and the
// listeners that are closed.
type Concerned struct {
	server  *Server
	streams []*stream
	closed  []*listener
}

// Len is how many streams there are.
func (c *Concerned) Len() int { return len(c.streams) }

// Reconfigure puts other settings into force. From now on no stream joins what the change has
// ended; those that did before are told apart, for the caller to end. All other streams go on, with
// the new settings. On an error nothing has changed.
//
// It is called after the table's Commit, by one goroutine at a time.
func (s *Server) Reconfigure(r Reconfiguration) (*Concerned, error) {
	cfg := s.cfg
	cfg.Limits, cfg.Timing = r.Limits, r.Timing
	err := cfg.normalize()
	for l, lc := range r.Listeners {
		err = errors.Join(err, lc.normalize(cfg.Table))
		r.Listeners[l] = lc
	}
	if err != nil {
		return nil, err
	}
	c := &Concerned{server: s}
	s.mu.Lock()
	s.cfg.Limits, s.cfg.Timing, s.configs = cfg.Limits, cfg.Timing, r.Listeners
	for _, ln := range s.listeners {
		lc, served := r.Listeners[ln.port]
		if !served {
			c.closed = append(c.closed, ln)
			continue
		}
		set := newSettings(cfg, lc)
		set.seed = ln.settings.Load().seed
		ln.settings.Store(set)
	}
	s.listeners = slices.DeleteFunc(s.listeners, func(ln *listener) bool { return slices.Contains(c.closed, ln) })
	s.mu.Unlock()
	s.arrivals.set(cfg.Limits.NewStreamsPerSecond)
	s.headers.set(cfg.Limits.NewStreamsPerSecond)
	s.names.set(cfg.Limits.NewNamesPerSecond)
	s.conns.set(cfg.Limits.Connections, cfg.Limits.ConnectionsPerPeer)
	// A stream that is not in the list yet looks at the settings once more when it is (serve).
	for _, st := range s.list() {
		if slices.Contains(c.closed, st.listener) || !st.session.adopt(st.listener.settings.Load(), r.Change) {
			c.streams = append(c.streams, st)
		} else {
			st.session.mailbox.Signal() // its deadlines may be others
		}
	}
	return c, nil
}

// End ends the streams spread over the time, so that their clients do not all come back at once,
// and closes the listeners that are to be. It returns early if ctx ends or the server does.
func (c *Concerned) End(ctx context.Context, over time.Duration) {
	s := c.server
	for _, ln := range c.closed {
		ln.health.Shutdown()
		s.graceful.Add(1)
		go s.sayGoodbye(ln)
	}
	s.endSlowly(ctx, c.streams, over, errReconfigured)
	for _, ln := range c.closed {
		ln.stop()
	}
}

// adopt puts other settings into force for a stream, and reports whether it can go on with them:
// false if what it was served from is no longer in force. It locks the session.
func (s *session) adopt(set *settings, change *relay.Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.concerned(set, change) {
		return false
	}
	s.cfg = set
	for _, st := range s.types {
		st.responseHeader = nil
	}
	s.nodeHash = 0 // what a node means depends on it
	return true
}

func (s *session) concerned(set *settings, c *relay.Change) bool {
	if s.closed || s.group == nil { // it has joined nothing yet, and will join what is in force
		return false
	}
	if set.origin != s.cfg.origin {
		return true
	}
	if s.authorities.many && c.Rerouted() {
		return true
	}
	// whoever is in a group of another origin came there by one
	for _, authority := range s.authorities.asked {
		if c.Moved(authority) {
			return true
		}
	}
	if slices.ContainsFunc(s.deltaOf, c.Dialect) {
		return true
	}
	return slices.ContainsFunc(s.types, func(st *streamType) bool { return st.barred != s.barredBy(set, st.typeURL) })
}

// authorities are those of the names that a stream has asked for, whether or not anybody answers
// for them.
type authorities struct {
	asked []string // in order
	many  bool     // and others
}

func (a *authorities) note(authority string) {
	i, known := slices.BinarySearch(a.asked, authority)
	switch {
	case known || a.many:
	case len(a.asked) == maxAuthorities:
		a.many = true
	default:
		a.asked = slices.Insert(a.asked, i, strings.Clone(authority))
	}
}

// noteDelta notes that what was asked for depends on the dialect in which an origin is asked.
func (s *session) noteDelta(o *relay.Origin) {
	if !slices.Contains(s.deltaOf, o) {
		s.deltaOf = append(s.deltaOf, o)
	}
}

// nodeKept is how much of the first request's node is remembered.
type nodeKept uint8

const (
	nodeGone  nodeKept = iota // no group but the listener's own needs it
	nodeFacts                 // what groups are made of
	nodeWhole                 // for streams of its own upstream
)

// need has a stream end that needs more of its node than was remembered: when it came nothing
// here could need it, and a group joined without it would be another client's.
func (s *session) need(k nodeKept) error {
	if s.nodeKept < k {
		s.outdated = true
		return errReconfigured
	}
	return nil
}
