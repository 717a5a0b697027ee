package relay

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// ViaKey is the gRPC metadata in which each relay on the way of a stream has left its instance name, in order (RELAY-87).
const ViaKey = "weir-via"

// MaxHops is how many relays a stream may have come through.
const MaxHops = 4

// ViaName is an instance name as it stands in ViaKey: of few characters, so that no proxy stumbles over it, and without a comma,
// which some join several values with.
func ViaName(instance string) string { return url.PathEscape(instance) }

// ParseVia reads the values of ViaKey.
func ParseVia(values []string) (via []string) {
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				via = append(via, name)
			}
		}
	}
	return via
}

const (
	// viaRefused begins the words of CheckVia, by which the relay that is refused knows them.
	viaRefused = ViaKey + ": "
	// passedBefore follows the name of the relay that refuses what has come through it before.
	passedBefore = " has been passed before"
	// refusalHolds is how long a refusal counts for streams that come the same way: the origin may be another relay by then.
	refusalHolds = time.Minute
	// maxRefusals bounds what is remembered of them.
	maxRefusals = 16
	// polledWayHolds is how long the way of a poll counts, and maxPolledWays bounds what a group remembers of
	// them.
	polledWayHolds = time.Minute
	maxPolledWays  = 16
)

// CheckVia says what is wrong with a stream that has come through these relays to the one of that instance name (RELAY-87).
func CheckVia(via []string, instance string) error {
	if name := ViaName(instance); slices.Contains(via, name) {
		return fmt.Errorf("%s%s%s: the stream has come through %s, so the origins form a loop, or two relays have one instance name",
			viaRefused, name, passedBefore, quote(strings.Join(via, ", ")))
	}
	if len(via) > MaxHops {
		return fmt.Errorf("%sthe stream has come through more than %d relays: %s", viaRefused, MaxHops, quote(strings.Join(via, ", ")))
	}
	return nil
}

// LoopRefused reports whether these are the words of CheckVia.
func LoopRefused(message string) bool { return strings.HasPrefix(message, viaRefused) }

// Way is how a member's stream came to a group: through which relays. The group presents the longest way of its members. In a loop each
// relay has a longer way than the one before, whose stream is a member of its group: so the ways grow until one is refused, if each
// lane is opened anew as soon as there is a longer way than it has presented. A list of all relays would not do: many edges may
// stand behind one relay, and are no long way.
//
// A way is a client's word. One that is refused upstream would cost all members their lane: so those who came by it are sent away,
// with the words of the refusal, and the others' lane is opened anew at once (Lane.Looped).
type Way struct {
	// Set once by Group.Through.
	group *Group
	key   string
	owner *Subscriber

	refused atomic.Pointer[string] // in which words
}

// Through takes a member in whose stream has come through these relays; the caller gives the way back by Way.Leave. Its owner is woken
// when it is refused. The error says that it was, a while ago. Without relays there is no way.
func (g *Group) Through(now time.Time, via []string, owner *Subscriber) (*Way, error) {
	if len(via) == 0 {
		return nil, nil
	}
	w := &Way{group: g, key: strings.Join(via, ","), owner: owner}
	err := g.addWay(now, via, func() {
		if g.ways == nil {
			g.ways = map[string]map[*Way]struct{}{}
		}
		if g.ways[w.key] == nil {
			g.ways[w.key] = map[*Way]struct{}{}
		}
		g.ways[w.key][w] = struct{}{}
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// ViaOfPoll is Through for a poll. It is over soon, and others follow it by the same way: so the way counts
// for polledWayHolds, and no lane is opened anew for each poll.
func (g *Group) ViaOfPoll(now time.Time, via []string) error {
	if len(via) == 0 {
		return nil
	}
	key := strings.Join(via, ",")
	return g.addWay(now, via, func() {
		maps.DeleteFunc(g.polled, func(_ string, until time.Time) bool { return !now.Before(until) })
		if g.polled == nil {
			g.polled = map[string]time.Time{}
		}
		if _, known := g.polled[key]; known || len(g.polled) < maxPolledWays {
			g.polled[key] = now.Add(polledWayHolds)
		}
	})
}

// addWay adds a way unless it was refused a while ago, and has the lanes present it if it is longer than
// theirs.
func (g *Group) addWay(now time.Time, via []string, addLocked func()) error {
	g.origin.mu.Lock()
	for _, r := range g.origin.refusals {
		if now.Before(r.until) && r.concerns(via) {
			g.origin.mu.Unlock()
			return errors.New(r.message)
		}
	}
	before := len(g.viaLocked())
	addLocked()
	longer := len(g.viaLocked()) > before
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

// Leave takes back Through.
func (w *Way) Leave() {
	if w == nil {
		return
	}
	o := w.group.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	all := w.group.ways[w.key]
	if delete(all, w); len(all) == 0 {
		delete(w.group.ways, w.key)
	}
}

// Refused is in which words the way was refused; "": it was not.
func (w *Way) Refused() string {
	if w != nil {
		if m := w.refused.Load(); m != nil {
			return *m
		}
	}
	return ""
}

// refusal is what an origin that is a relay said of the ways it does not take.
type refusal struct {
	passed  string // those through this relay; "":
	longest int    // those of so many relays or more
	message string
	until   time.Time
}

func (r *refusal) concerns(via []string) bool {
	if r.passed != "" {
		return slices.Contains(via, r.passed)
	}
	return len(via) >= r.longest
}

// Looped notes that the origin refused the lane because of its way (RELAY-87), in these words: who came by such a way has to leave, and
// none like it is taken in for a while. It reports whether it was such a way that the lane presented, so that the next one is another and
// worth to be tried at once. Otherwise the loop is real, and nobody but this relay is in it any more.
func (l *Lane) Looped(now time.Time, message string) (again bool) {
	presented := l.presented()
	if len(presented) == 0 {
		return false // it came by no way but this relay itself
	}
	r := refusal{message: message, until: now.Add(refusalHolds)}
	name, _, passed := strings.Cut(strings.TrimPrefix(message, viaRefused), passedBefore)
	if passed {
		r.passed = name
	} else {
		r.longest = len(presented)
	}
	o := l.group.origin
	var woken []*Subscriber
	o.mu.Lock()
	o.refusals = slices.DeleteFunc(o.refusals, func(x refusal) bool {
		return !now.Before(x.until) || x.passed == r.passed && x.longest == r.longest
	})
	o.refusals = append(o.refusals, r)
	if n := len(o.refusals) - maxRefusals; n > 0 {
		o.refusals = slices.Delete(o.refusals, 0, n)
	}
	for key, all := range l.group.ways {
		if !r.concerns(strings.Split(key, ",")) {
			continue
		}
		delete(l.group.ways, key)
		for w := range all {
			w.refused.Store(&r.message)
			woken = append(woken, w.owner)
		}
	}
	maps.DeleteFunc(l.group.polled, func(key string, _ time.Time) bool { return r.concerns(strings.Split(key, ",")) })
	o.mu.Unlock()
	for _, s := range woken {
		s.Signal()
	}
	return r.concerns(presented)
}

func (g *Group) viaLocked() (via []string) {
	look := func(key string) {
		if x := strings.Split(key, ","); len(x) > len(via) || len(x) == len(via) && slices.Compare(x, via) < 0 {
			via = x
		}
	}
	for key := range g.ways {
		look(key)
	}
	for key := range g.polled {
		look(key)
	}
	return via
}

// Via is the way to present on the next stream of the lane, without the name of the relay that presents it.
func (l *Lane) Via() []string {
	l.group.origin.mu.Lock()
	defer l.group.origin.mu.Unlock()
	via := l.group.viaLocked()
	l.via.Store(&via)
	return via
}

// presented is the way that the lane presented last; nil if it presents none.
func (l *Lane) presented() []string {
	if via := l.via.Load(); via != nil {
		return *via
	}
	return nil
}

// checkVia has an open lane opened anew if there is a longer way by now than it has presented, if it presents any.
func (l *Lane) checkVia() {
	l.group.origin.mu.Lock()
	n := len(l.group.viaLocked())
	l.group.origin.mu.Unlock()
	if via := l.via.Load(); via != nil && len(*via) < n && l.gen.Load() != 0 {
		l.reopenSoon()
	}
}
