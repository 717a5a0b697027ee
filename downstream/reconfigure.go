package downstream

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxAuthorities is how many authorities a stream's names may have before every change of an
// authority affects it.
const maxAuthorities = 64

// errReconfigured ends a stream. The client that resumes is served by the present configuration.
var errReconfigured = status.Error(codes.Unavailable,
	"the configuration of this relay has changed for this stream: reconnect, and resume by version")

// Reconfiguration is what may change of a server in use. Everything else stays as it was given to
// New.
type Reconfiguration struct {
	// Limits and Timing apply to open streams as well, but no stream ends because of a limit that
	// it did not exceed before. StreamsPerConnection, RequestBytes and Keepalive of open listeners
	// stay those of New.
	Limits Limits
	Timing Timing
	// Rules are Config.Rules. A stream whose client may have something else by them is one that
	// Concerned ends at once.
	Rules *authz.Rules
	// Listeners are all listeners that are or will be served, with their settings. A listener that
	// is missing is closed. TLS, and the kind of a listener that is served already, do not change.
	Listeners map[net.Listener]ListenerConfig
	// Change is what has changed in the table.
	Change *relay.Change
}

// Concerned are the streams that a change of the configuration takes something from, and the
// listeners that are to be closed.
type Concerned struct {
	server  *Server
	streams []*stream
	denied  []*stream // whose clients may have something else by the rules
	closed  []*listener
}

// Len is the number of streams.
func (c *Concerned) Len() int { return len(c.streams) + len(c.denied) }

// Reconfigure activates other settings. From now on no stream joins what the change has ended. The
// streams that joined it before are returned, for the caller to end. All other streams go on with
// the new settings. On an error nothing has changed.
//
// It is called after the table's Commit, by one goroutine at a time.
func (s *Server) Reconfigure(r Reconfiguration) (*Concerned, error) {
	cfg := s.cfg
	cfg.Limits, cfg.Timing, cfg.Rules = r.Limits, r.Timing, r.Rules
	err := cfg.normalize()
	for l, lc := range r.Listeners {
		err = errors.Join(err, lc.normalize(cfg.Table))
		r.Listeners[l] = lc
	}
	if err != nil {
		return nil, err
	}
	c, now := &Concerned{server: s}, time.Now()
	s.mu.Lock()
	s.cfg.Limits, s.cfg.Timing, s.cfg.Rules, s.configs = cfg.Limits, cfg.Timing, cfg.Rules, r.Listeners
	s.ruled.put(cfg.Rules, now)
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
	// A stream that is not in the list yet looks at the settings again when it is (serve).
	for _, st := range s.list() {
		if !st.session.keepsRights(st.listener.settings.Load()) {
			c.denied = append(c.denied, st)
		} else if slices.Contains(c.closed, st.listener) || !st.session.adopt(st.listener.settings.Load(), r.Change) {
			c.streams = append(c.streams, st)
		} else {
			st.session.mailbox.Signal() // its deadlines may have changed
		}
	}
	return c, nil
}

// End ends the streams spread over the time, so that their clients do not all come back at once,
// but at once those whose clients may have something else: they are sent the difference when they
// come back. It closes the listeners that are to be closed. It returns early if ctx or the server
// ends.
func (c *Concerned) End(ctx context.Context, over time.Duration) {
	s := c.server
	for _, st := range c.denied {
		st.end(errReruled)
	}
	s.reruleLoads()
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

// adopt gives a stream other settings, and reports whether it can go on with them: false if what
// served it is no longer configured. It locks the session.
func (s *session) adopt(set *settings, change *relay.Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rights, same := s.rightsBy(set)
	if !same || s.concerned(set, change) {
		return false
	}
	s.cfg, s.rights = set, rights
	for _, st := range s.types {
		st.responseHeader = nil
	}
	s.nodeHash = 0 // the meaning of a node depends on it
	return true
}

func (s *session) concerned(set *settings, c *relay.Change) bool {
	// It has joined nothing yet, and will join what is configured now.
	if s.closed || s.group == nil {
		return false
	}
	if set.origin != s.cfg.origin {
		return true
	}
	if c.Regrouped(s.cfg.origin) {
		return true
	}
	for o := range s.others {
		if c.Regrouped(o) {
			return true
		}
	}
	if s.authorities.many && c.Rerouted() {
		return true
	}
	// A stream is in a group of another origin because of an authority.
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

// authorities are those of the names that a stream has asked for, with or without an origin that
// answers for them.
type authorities struct {
	asked []string // in order
	many  bool     // there are more
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

// noteDelta records that what was asked for depends on the dialect of an origin.
func (s *session) noteDelta(o *relay.Origin) {
	if !slices.Contains(s.deltaOf, o) {
		s.deltaOf = append(s.deltaOf, o)
	}
}

// nodeKept is how much of the first request's node is kept.
type nodeKept uint8

const (
	nodeGone  nodeKept = iota // no group but the listener's own needs it
	nodeFacts                 // what groups are made of
	nodeWhole                 // for streams of its own upstream
)

// need ends a stream that needs more of its node than was kept. When the node came nothing needed
// that part, and a group joined without it would be another client's.
func (s *session) need(k nodeKept) error {
	if s.nodeKept < k {
		s.outdated = true
		return errReconfigured
	}
	return nil
}
