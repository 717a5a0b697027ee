package relay

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay/node"
)

const (
	// pathRejectionHolds is how long a refusal counts for streams that come by the same path: the
	// origin may be another relay by then.
	pathRejectionHolds = time.Minute
	// maxPathRejections bounds what is remembered of them.
	maxPathRejections = 16
	// polledPathHolds is how long the path of a poll counts, and maxPolledPaths bounds what a group
	// remembers of them.
	polledPathHolds = time.Minute
	maxPolledPaths  = 16
)

// Path is how a member's stream came to a group: through which relays. The group presents the
// longest path of its members. In a loop each relay has a longer path than the one before, whose
// stream is a member of its group: so the paths grow until one is refused, if each lane is opened
// anew as soon as there is a longer path than it has presented. A list of all relays would not do:
// many edges may stand behind one relay, and are no long path.
//
// A path is a client's word. One that is refused upstream would cost all members their lane: so
// those who came by it are sent away, with the words of the refusal, and the others' lane is opened
// anew at once (Lane.Looped).
type Path struct {
	// Set once by Group.Join.
	group *Group
	key   string
	owner *Subscriber

	refused atomic.Pointer[string] // in which words
}

// Join takes a member in whose stream has come through these relays; the caller gives the path back
// by Path.Close. Its owner is woken when it is refused. The error says that it was, a while ago.
// Without relays there is no path.
func (g *Group) Join(now time.Time, via []string, owner *Subscriber) (*Path, error) {
	if len(via) == 0 {
		return nil, nil
	}
	p := &Path{group: g, key: strings.Join(via, ","), owner: owner}
	err := g.addPath(now, via, func() {
		if g.paths == nil {
			g.paths = map[string]map[*Path]struct{}{}
		}
		if g.paths[p.key] == nil {
			g.paths[p.key] = map[*Path]struct{}{}
		}
		g.paths[p.key][p] = struct{}{}
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// JoinPoll is Join for a poll. It is over soon, and others follow it by the same path: so the path
// counts for polledPathHolds, and no lane is opened anew for each poll.
func (g *Group) JoinPoll(now time.Time, via []string) error {
	if len(via) == 0 {
		return nil
	}
	key := strings.Join(via, ",")
	return g.addPath(now, via, func() {
		maps.DeleteFunc(g.polled, func(_ string, until time.Time) bool { return !now.Before(until) })
		if g.polled == nil {
			g.polled = map[string]time.Time{}
		}
		if _, known := g.polled[key]; known || len(g.polled) < maxPolledPaths {
			g.polled[key] = now.Add(polledPathHolds)
		}
	})
}

// addPath adds a path unless it was refused a while ago, and has the lanes present it if it is
// longer than theirs. It locks the origin.
func (g *Group) addPath(now time.Time, via []string, add func()) error {
	g.origin.mu.Lock()
	for _, r := range g.origin.pathRejections {
		if now.Before(r.until) && r.concerns(via) {
			g.origin.mu.Unlock()
			return errors.New(r.message)
		}
	}
	before := len(g.via())
	add()
	longer := len(g.via()) > before
	g.origin.mu.Unlock()
	if !longer {
		return nil
	}
	lanes := g.lanes[:]
	for _, s := range *g.all.Load() {
		if !s.sharesLanes() { // quarantined, or of an origin with a stream for each type
			lanes = append(slices.Clone(lanes), s.lane(mainLane), s.lane(sideLane))
		}
	}
	for _, l := range lanes {
		l.checkVia()
	}
	return nil
}

// Close takes back Join.
func (p *Path) Close() {
	if p == nil {
		return
	}
	o := p.group.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	all := p.group.paths[p.key]
	if delete(all, p); len(all) == 0 {
		delete(p.group.paths, p.key)
	}
}

// Refused is in which words the path was refused; "": it was not.
func (p *Path) Refused() string {
	if p != nil {
		if m := p.refused.Load(); m != nil {
			return *m
		}
	}
	return ""
}

// pathRejection is what an origin that is a relay said of the paths it does not take.
type pathRejection struct {
	passed  string // those through this relay; "": of any
	longest int    // those of so many relays or more
	message string
	until   time.Time
}

func (r *pathRejection) concerns(via []string) bool {
	if r.passed != "" {
		return slices.Contains(via, r.passed)
	}
	return len(via) >= r.longest
}

// Looped notes that the origin refused the lane because of its path (RELAY-87), in these words: who
// came by such a path has to leave, and none like it is taken in for a while. It reports whether it
// was such a path that the lane presented, so that the next one is another and worth to be tried at
// once. Otherwise the loop is real, and nobody but this relay is in it any more.
func (l *Lane) Looped(now time.Time, message string) (again bool) {
	presented := l.presented()
	if len(presented) == 0 {
		return false // it came by no path but this relay itself
	}
	r := pathRejection{message: message, until: now.Add(pathRejectionHolds)}
	if r.passed = node.LoopedAt(message); r.passed == "" {
		r.longest = len(presented)
	}
	o := l.group.origin
	var woken []*Subscriber
	o.mu.Lock()
	o.pathRejections = slices.DeleteFunc(o.pathRejections, func(x pathRejection) bool {
		return !now.Before(x.until) || x.passed == r.passed && x.longest == r.longest
	})
	o.pathRejections = append(o.pathRejections, r)
	if n := len(o.pathRejections) - maxPathRejections; n > 0 {
		o.pathRejections = slices.Delete(o.pathRejections, 0, n)
	}
	for key, all := range l.group.paths {
		if !r.concerns(strings.Split(key, ",")) {
			continue
		}
		delete(l.group.paths, key)
		for p := range all {
			p.refused.Store(&r.message)
			woken = append(woken, p.owner)
		}
	}
	maps.DeleteFunc(l.group.polled, func(key string, _ time.Time) bool { return r.concerns(strings.Split(key, ",")) })
	o.mu.Unlock()
	for _, s := range woken {
		s.Signal()
	}
	return r.concerns(presented)
}

func (g *Group) via() (via []string) {
	look := func(key string) {
		if x := strings.Split(key, ","); len(x) > len(via) || len(x) == len(via) && slices.Compare(x, via) < 0 {
			via = x
		}
	}
	for key := range g.paths {
		look(key)
	}
	for key := range g.polled {
		look(key)
	}
	return via
}

// Via is the path to present on the next stream of the lane, without the name of the relay that
// presents it.
func (l *Lane) Via() []string {
	l.group.origin.mu.Lock()
	defer l.group.origin.mu.Unlock()
	via := l.group.via()
	l.via.Store(&via)
	return via
}

// presented is the path that the lane presented last; nil if it presents none.
func (l *Lane) presented() []string {
	if via := l.via.Load(); via != nil {
		return *via
	}
	return nil
}

// checkVia has an open lane opened anew if there is a longer path by now than it has presented, if
// it presents any. It locks the origin.
func (l *Lane) checkVia() {
	l.group.origin.mu.Lock()
	n := len(l.group.via())
	l.group.origin.mu.Unlock()
	if via := l.via.Load(); via != nil && len(*via) < n && l.gen.Load() != 0 {
		l.reopenSoon()
	}
}
