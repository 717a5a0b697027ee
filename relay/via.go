package relay

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
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

// viaRefused begins the words of CheckVia, by which the relay that is refused knows them.
const viaRefused = ViaKey + ": "

// CheckVia says what is wrong with a stream that has come through these relays to the one of that instance name (RELAY-87).
func CheckVia(via []string, instance string) error {
	if slices.Contains(via, ViaName(instance)) {
		return fmt.Errorf("%sthe stream has come through %s, and back to %s: the origins form a loop, or two relays have one instance name",
			viaRefused, quote(strings.Join(via, ", ")), quote(instance))
	}
	if len(via) > MaxHops {
		return fmt.Errorf("%sthe stream has come through more than %d relays: %s", viaRefused, MaxHops, quote(strings.Join(via, ", ")))
	}
	return nil
}

// LoopRefused reports whether these are the words of CheckVia.
func LoopRefused(message string) bool { return strings.HasPrefix(message, viaRefused) }

// Through notes that a member's stream has come through these relays; the caller takes it back by Unthrough. The group presents the
// longest way of its members. In a loop each relay has a longer way than the one before, whose stream is a member of its group: so the
// ways grow until one is refused, if each lane is opened anew as soon as there is a longer way than it has presented. A list of
// all relays would not do: many edges may stand behind one relay, and are no long way.
func (g *Group) Through(via []string) {
	if len(via) == 0 {
		return
	}
	g.origin.mu.Lock()
	before := len(g.viaLocked())
	if g.vias == nil {
		g.vias = map[string]int{}
	}
	g.vias[strings.Join(via, ",")]++
	longer := len(via) > before
	g.origin.mu.Unlock()
	if !longer {
		return
	}
	lanes := g.lanes[:]
	for _, s := range *g.all.Load() {
		if s.isApart() {
			lanes = append(slices.Clone(lanes), s.lane(mainLane), s.lane(sideLane))
		}
	}
	for _, l := range lanes {
		l.checkVia()
	}
}

// Unthrough takes back what Through noted.
func (g *Group) Unthrough(via []string) {
	if len(via) == 0 {
		return
	}
	key := strings.Join(via, ",")
	g.origin.mu.Lock()
	defer g.origin.mu.Unlock()
	if g.vias[key]--; g.vias[key] == 0 {
		delete(g.vias, key)
	}
}

func (g *Group) viaLocked() (via []string) {
	for key := range g.vias {
		if x := strings.Split(key, ","); len(x) > len(via) || len(x) == len(via) && slices.Compare(x, via) < 0 {
			via = x
		}
	}
	return via
}

// Via is the way to present on the next stream of the lane, without the name of the relay that presents it.
func (l *Lane) Via() []string {
	l.group.origin.mu.Lock()
	defer l.group.origin.mu.Unlock()
	via := l.group.viaLocked()
	l.via.Store(uint32(len(via)) + 1)
	return via
}

// checkVia has an open lane opened anew if there is a longer way by now than it has presented, if it presents any.
func (l *Lane) checkVia() {
	l.group.origin.mu.Lock()
	n := uint32(len(l.group.viaLocked()))
	l.group.origin.mu.Unlock()
	if presented := l.via.Load(); presented > 0 && presented < n+1 && l.gen.Load() != 0 {
		l.reopenSoon()
	}
}
