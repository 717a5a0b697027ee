package relay

import (
	"runtime"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// A client may name a million resources in one request. Taken in under one lock they would make
// every change of the type wait for seconds, for everybody. So a list is taken in by shares, and
// whoever waits for the lock has it in between. The client itself is told nothing before its list
// has been taken in: half a list is not what it asked for (SOTW-1).

// shareNames is how many names are taken in before others have their turn.
const shareNames = 500

// longList is a request, or the end of a Sub, as it is taken in.
type longList struct {
	sub    *Sub
	now    time.Time
	names  int      // of the present share
	denied []Denied // of the shares before
	shared bool     // there was more than one share
}

// next is called before each name is looked at, with the shard locked. After a share of names it
// unlocks the shard for a moment, and locks it again.
func (l *longList) next() {
	if l.names < shareNames {
		l.names++
		return
	}
	s, k := l.sub, l.sub.shard
	l.names = 1
	l.denied = append(l.denied, s.takeDenied()...)
	if !l.shared {
		l.shared = true
		k.named.partial++
	}
	s.partial = true
	k.unlock()
	runtime.Gosched() // a mutex does not go to who waits for it if who released it is as quick
	k.mu.Lock()
	k.now = later(k.now, l.now)
}

// done ends the list, and gives what it denied.
func (l *longList) done() []Denied {
	s, n := l.sub, &l.sub.shard.named
	if l.shared {
		if n.partial--; len(n.changed) > 0 {
			s.shard.poke(n.lane) // names that stayed in the request meanwhile
		}
	}
	if s.partial {
		s.partial = false
		s.mark(s.shard.rev) // who was woken meanwhile took nothing
	}
	return append(l.denied, s.takeDenied()...)
}

// Clients may ask for 100,000 names that do not exist, and an origin may say so of all of them in
// one response. A name of which nothing is held is in nobody's view, so that it is absent need not
// be taken up with the rest of the response (RELAY-82): that is done afterwards, by shares, and
// others have the lock of the type in between. A client is told of mostAbsences in one answer, and
// of the next when it has acknowledged that.

// mostAbsences is how many names that a client does not hold it is told the absence of in one delta
// answer.
const mostAbsences = 5000

// absentOf takes out of a response the names that it says do not exist, and of which nobody holds
// anything, if there are many. rest is the response without them. It locks the store, for stepNames
// names at a time.
func (k *store) absentOf(u *update, lane laneIndex, gen uint32) (rest *update, absent []string) {
	cfg := k.group.config()
	if len(u.Removed) <= shareNames || u.Full || u.Bad || cfg.SotW || cfg.TP2 || xds.DeltaOnly(k.typeURL) {
		// a virtual host may be spoken of in several ways (ALIAS-5), and a variant, too
		return u, nil
	}
	said := make(map[string]bool, len(u.Resources))
	for i := range u.Resources {
		said[u.Resources[i].Name] = true
		for _, alias := range u.Resources[i].Aliases {
			said[xds.NameKey(alias)] = true
		}
	}
	for _, e := range u.Errors {
		said[e.Name] = true
	}
	held := make([]string, 0, len(u.Removed))
	for names := range slices.Chunk(u.Removed, stepNames) {
		k.mu.Lock()
		for _, name := range names {
			if said[name] || k.holds(name, lane, gen) {
				held = append(held, name)
			} else {
				absent = append(absent, name)
			}
		}
		k.mu.Unlock()
	}
	if len(absent) <= shareNames {
		return u, nil
	}
	without := *u
	without.Removed = held
	return &without, absent
}

// holds reports whether anything is known of a name that its absence could take away from
// somebody.
func (k *store) holds(name string, lane laneIndex, gen uint32) bool {
	for _, s := range k.all {
		if s.kind(lane, gen) != kindNamed || len(s.collections.byName) > 0 || len(s.variants(name)) > 0 ||
			s.named.other.held[name] != nil {
			return true
		}
		e := s.named.entries[name]
		if e == nil {
			continue
		}
		if e.retired != nil {
			return true
		}
		for r := e.head; r != nil; r = r.next {
			if r.is(holds) {
				return true
			}
		}
	}
	return false
}

// hasHeld reports whether a client may hold what a name stands for. That is not what the flag
// holds says, which is also set for a removal that has to be told.
func (r *record) hasHeld() bool {
	return r.sub.sets.first != nil || r.sent != (xds.Digest{}) || r.at > 0 || r.is(claimed|returned)
}
