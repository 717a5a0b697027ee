package chaos

import (
	"maps"
	"sync"
	"time"
)

// fact is something an origin came to state: that a resource has a content, or that it is not
// there.
type fact struct {
	seq  uint64 // counts all facts
	at   time.Time
	body uint64 // the number in the content; 0: it is gone
}

// resource is one thing as the origin states it at present.
type resource struct {
	body    uint64
	version string
	ref     string // of a route: the cluster
}

// truth is what the origin has stated and states: what clients are judged by. It lives in the test,
// so it survives the origin's death. Safe for concurrent use.
type truth struct {
	mu    sync.Mutex
	seq   uint64
	facts map[string]map[string][]fact   // by type URL and name, in order
	now   map[string]map[string]resource // by type URL and name
	// clusters whose coming and going the origin itself may have torn from the routes to them
	torn   map[string]bool
	epoch  int    // counts the origin's forgetting of its version counters
	counts uint64 // the version counter of this epoch
}

func newTruth() *truth {
	t := &truth{facts: map[string]map[string][]fact{}, now: map[string]map[string]resource{}, torn: map[string]bool{}}
	for _, typeURL := range types {
		t.facts[typeURL], t.now[typeURL] = map[string][]fact{}, map[string]resource{}
	}
	return t
}

// set states a new content, and returns it.
func (t *truth) set(typeURL, name, ref string) resource {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.put(typeURL, name, resource{ref: ref})
}

// put states a content: a new one if it has no number yet.
func (t *truth) put(typeURL, name string, r resource) resource {
	t.seq++
	t.counts++
	if r.body == 0 {
		r.body = t.seq
	}
	r.version = version(t.epoch, t.counts)
	t.facts[typeURL][name] = append(t.facts[typeURL][name], fact{seq: t.seq, at: time.Now(), body: r.body})
	t.now[typeURL][name] = r
	return r
}

// remove states that something is gone.
func (t *truth) remove(typeURL, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropName(typeURL, name)
}

func (t *truth) dropName(typeURL, name string) {
	if _, ok := t.now[typeURL][name]; !ok {
		return
	}
	t.seq++
	t.facts[typeURL][name] = append(t.facts[typeURL][name], fact{seq: t.seq, at: time.Now()})
	delete(t.now[typeURL], name)
}

// tear notes that the origin's own order of changes to a cluster and its routes may have been lost.
func (t *truth) tear(clusters ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range clusters {
		t.torn[c] = true
	}
}

// state is a copy of what is stated now.
func (t *truth) state() map[string]map[string]resource {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := map[string]map[string]resource{}
	for typeURL, set := range t.now {
		s[typeURL] = maps.Clone(set)
	}
	return s
}

// restate makes an earlier state the present one: an origin that came up from an old backup, or
// with nothing. What does not differ is not stated anew.
func (t *truth) restate(s map[string]map[string]resource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for typeURL, set := range t.now {
		for name := range maps.Clone(set) {
			if _, ok := s[typeURL][name]; !ok {
				t.dropName(typeURL, name)
			}
		}
		for name, r := range s[typeURL] {
			if set[name].body != r.body {
				t.put(typeURL, name, r)
			}
		}
	}
}

// recount gives every resource a version of counters that start anew; contents stay.
func (t *truth) recount() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch, t.counts = t.epoch+1, 0
	for _, set := range t.now {
		for name, r := range set {
			t.counts++
			r.version = version(t.epoch, t.counts)
			set[name] = r
		}
	}
}

// last is the position of the last fact.
func (t *truth) last() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq
}

// at is when a content was stated first; zero: it was not.
func (t *truth) at(typeURL, name string, body uint64) (at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.facts[typeURL][name] {
		if f.body == body {
			return f.at
		}
	}
	return at
}

// isTorn reports whether the origin itself may have torn a cluster from its routes.
func (t *truth) isTorn(cluster string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.torn[cluster]
}

// carries gives the first fact from a position on that states the content, and was stated by then;
// false if there is none.
func (t *truth) carries(typeURL, name string, from, body uint64, by time.Time) (seq uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.facts[typeURL][name] {
		if f.seq >= from && f.body == body && !f.at.After(by) {
			return f.seq, true
		}
	}
	return 0, false
}

// stood gives the names that were stated at a moment and never removed until another.
func (t *truth) stood(typeURL string, from, to time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for name, facts := range t.facts[typeURL] {
		there, always := false, true
		for _, f := range facts {
			switch {
			case !f.at.After(from):
				there = f.body != 0
			case !f.at.After(to):
				always = always && f.body != 0
			}
		}
		if there && always {
			names = append(names, name)
		}
	}
	return names
}
