package downstream

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
)

// maxDeniedNames is how many names of one request are told one by one.
const maxDeniedNames = 5

// The results of decisions: a closed set (metrics.Decided).
const (
	decidedAllowed = "allowed"
	decidedDenied  = "denied"
	decidedEnded   = "ended"
)

// decisions are what the rules decided on one request. The session collects them, and its caller
// counts and logs them after it is unlocked.
type decisions struct {
	allowed int
	denials []denial // by origin and reason: nearly always none or one
}

// denial is what was denied for one reason at one origin.
type denial struct {
	origin, typeURL string
	why             *deniedReason
	names           []string // the first few, cut
	count           int
}

// deniedReason says why something is denied, for people.
type deniedReason struct {
	text string
	ends bool // the stream
}

var (
	deniedName     = &deniedReason{text: "no rule allows the name"}
	deniedPart     = &deniedReason{text: "no rule allows any of the names that it stands for"}
	deniedSecret   = &deniedReason{text: "no rule that names the client's identity allows the secret"}
	deniedClaims   = &deniedReason{text: "the node meets the claims of no rule", ends: true}
	deniedIdentity = &deniedReason{text: "no rule is for the identity at this listener", ends: true}
)

// deny adds a name that is denied.
func (d *decisions) deny(o *relay.Origin, typeURL, name string, why *deniedReason) {
	n := slices.IndexFunc(d.denials, func(x denial) bool { return x.why == why && x.origin == o.Name() })
	if n < 0 {
		n = len(d.denials)
		d.denials = append(d.denials, denial{origin: o.Name(), typeURL: typeURL, why: why})
	}
	x := &d.denials[n]
	if x.count++; len(x.names) < maxDeniedNames {
		x.names = append(x.names, strings.Clone(clip(name, maxBookedName)))
	}
}

// unfit is the decision that ends the stream of a client that no rule fits.
func unfit(of *authz.Allowances) *decisions {
	why := deniedClaims
	if of.None() {
		why = deniedIdentity
	}
	return &decisions{denials: []denial{{why: why, count: 1}}}
}

// judged records a subscription that is allowed, or the part of what it stands for (selects).
func (s *session) judged(st *streamType, o *relay.Origin, name string, p *relay.Permit, selects bool) {
	switch {
	case !selects || p.Meets(o, name):
		s.rights.decided.allowed++
	case s.delta || !st.wildcard: // a list of state of the world has it each time
		s.rights.decided.deny(o, st.typeURL, name, deniedPart)
	}
}

// judgedAll is judged for `*` that is meant, and not named.
func (s *session) judgedAll(st *streamType) {
	if s.rights == nil {
		return
	}
	o := s.cfg.origin
	p := s.permit(o, st.typeURL, s.params(o, st.typeURL))
	s.judged(st, o, xds.Wildcard, p, p != nil)
}

// judgedList leaves of the decisions on a list of state of the world those on names that are new in
// it, by how many more are allowed than in the last.
func (s *session) judgedList(st *streamType, before int) {
	n := s.rights.decided.allowed - before
	s.rights.decided.allowed = before + max(0, n-int(st.allowed))
	st.allowed = uint32(n)
}

// noteDecisions has the caller count and log what was decided since the last time.
func (s *session) noteDecisions() {
	if s.rights == nil || s.rights.decided.allowed+len(s.rights.decided.denials) == 0 {
		return
	}
	d := s.rights.decided
	s.rights.decided = decisions{}
	s.notes = append(s.notes, note{decided: &d})
}

// decided counts and logs what the rules decided on a request.
func (st *stream) decided(now time.Time, set *settings, d *decisions) {
	var who *deniedClient
	if len(d.denials) > 0 {
		who = deniedTo(set, &st.session.from, st.session.client(), st.address())
	}
	st.server.decided(now, d, who, zap.Uint64("stream", st.id))
}

// decided counts, books and logs what the rules decided on a request of a client.
func (s *Server) decided(now time.Time, d *decisions, who *deniedClient, fields ...zap.Field) {
	m, b := s.cfg.Metrics, s.denials
	if d.allowed > 0 {
		m.Decided(decidedAllowed, d.allowed)
		b.allowed.Add(uint64(d.allowed))
	}
	for i := range d.denials {
		x := &d.denials[i]
		if x.why.ends {
			m.Decided(decidedEnded, x.count)
			b.ended.Add(uint64(x.count))
		} else {
			m.Decided(decidedDenied, x.count)
			b.denied.Add(uint64(x.count))
		}
		b.note(now, who, x)
		s.denialLog.note(now, who, x, fields)
	}
}

const (
	// denialLines is how many lines of denials are logged in a second.
	denialLines = 10
	// denialEach is how often one client identity has a line, after the first few.
	denialEach = 2 * time.Second
	// denialBurst is the time of the first few.
	denialBurst = 5 * denialEach
	// denialOwners bounds the identities that are remembered.
	denialOwners = 4096
)

// denialLog logs denials: a line for a request, ten lines in a second, and of one client identity
// five at once and one each two seconds. A line says how many were left out since the last.
type denialLog struct {
	log *zap.Logger // set once

	mu     sync.Mutex // guards what follows; a leaf
	all    bucket
	owners *simplelru.LRU[peerKey, *bucket]
	more   int // lines left out since the last
}

func newDenialLog(log *zap.Logger) *denialLog {
	return &denialLog{log: log, all: newBucket(denialLines), owners: newLRU[*bucket](denialOwners)}
}

// admit reports whether a line may be logged now, and how many were not since the last one. It
// locks the log.
func (l *denialLog) admit(now time.Time, by peerKey) (more int, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, known := l.owners.Get(by)
	if !known {
		own = &bucket{each: denialEach, burst: denialBurst}
		l.owners.Add(by, own)
	}
	if own.ready(now) > 0 || l.all.ready(now) > 0 {
		l.more++
		return 0, false
	}
	own.take(now)
	l.all.take(now)
	more, l.more = l.more, 0
	return more, true
}

// note logs what was denied.
func (l *denialLog) note(now time.Time, who *deniedClient, d *denial, fields []zap.Field) {
	more, write := l.admit(now, who.by)
	if !write {
		return
	}
	out := append([]zap.Field{
		zap.String("identity", who.identity), zap.String("client", who.node), zap.String("peer", who.peer),
		zap.String("listener", who.listener), zap.String("reason", d.why.text),
	}, fields...)
	text := "the rules of authorization fit no client like this, and its stream ends"
	if !d.why.ends {
		text = "the rules of authorization deny what a client asks for"
		out = append(out, zap.String("origin", d.origin), zap.String("type_url", d.typeURL),
			zap.Int("names", d.count), zap.Strings("such_as", d.names))
	}
	l.log.Warn(text, append(out, zap.Int("not_logged", more))...)
}
