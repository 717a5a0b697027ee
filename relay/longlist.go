package relay

import (
	"runtime"
	"time"
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
