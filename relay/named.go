package relay

import (
	"slices"
	"strings"
	"time"
)

// namedTable is the part of a shard that was asked for by name.
type namedTable struct {
	entries map[string]*entry
	wants   uint32 // that were ever made
	other   otherNames
	guard   guard
	from    *receipt // of the last response
	// lane is where the names are asked (RELAY-20): the main lane unless it carries the type's wildcard.
	lane laneIndex
	// firstGen is the generation of each lane in which names were first asked there; what is not of the lane's present
	// generation is asked anew.
	firstGen [2]uint32
	firstAt  [2]time.Time
	changed  []*want // to be looked at by the lane, besides asking anew
	// unconfirmed: an entry may be. Those whose silence counts as the origin's word are confirmed at confirmAt (confirm.go).
	unconfirmed bool
	confirmAt   time.Time
	confirming  bool   // a timer is set
	refusedGen  uint32 // generation of the last stream on which a part of a response was refused
	// presented: on the present stream the origin was told the versions of what is held, so its silence means that they are current.
	presented bool
	moving    bool // the side lane has to ask them before the main lane may be reopened without them
	// unheard are the names asked, in order of time, to be looked at after patience (ABS-1); silentAt is when, zero if there are none.
	unheard  []unheard
	silentAt time.Time
	// doubts are names held from streams before that the present one may have said are not there (stale.go); nil: none.
	doubts map[*entry]doubt
}

// unheard is a name asked on the stream of generation gen.
type unheard struct {
	want *want
	gen  uint32
	at   time.Time
}

// entry is one name of kind named: its variants, and the wants that choose among them.
type entry struct {
	name  string // canonical
	spelt string // as the client wrote it who asked first, if that is another (NAME-9)
	// variants are of one resource, which goes by the name or by an alias. holdLocked, cutLocked and emptyLocked change them.
	variants []*Variant
	wants    []*want   // one, but for the moment in which it is made or goes
	also     *heldAlso // set while it holds a resource that other entries may hold too
	notice   *Variant  // stated with the absence, which told that an alias did not resolve (ALIAS-5)

	// retired is what retired under the name, until the origin says something of it (retired.go); nil: nothing. Who has it of us is
	// said by the records' flag revived. served: somebody was to be given it, during an outage. doubted: a connected origin kept silent about it.
	retired         []*Variant
	served, doubted bool
	lost            bool   // the resource does not list the name any more (ALIAS-4)
	unconfirmed     bool   // the variants are those of a snapshot, and no stream has said anything of them (confirm.go)
	seenGen         uint32 // generation of the stream that brought the body last
}

// want is one name that some client is subscribed to, or was less than linger ago. Interest is
// level-triggered: the lane compares what is wanted with what it asked.
type want struct {
	entry *entry

	chosen *Variant // the variant for params; nil: none known
	last   *Variant // Clusters: chosen before it went (ORD-3)
	rev    uint64   // of the last change of chosen
	// fault is the last error the origin stated, until the resource itself or another error arrives (ABS-7).
	fault *NameError

	head  *record // of the clients
	count int

	lingerAt time.Time // set while count is 0 and the want is kept
	timer    bool      // a wantEnd timer is in the heap

	// asked and answered are the generation of the stream on which they happened; 0: never. A want counts as asked while
	// that is the present stream of the lane that carries the type's names.
	asked      uint32
	answered   uint32
	absentGen  uint32 // stated absent (or timed out, ABS-5) in that generation; 0: never
	wasAbsent  bool   // stated absent, in whatever generation: counts for settling (RELAY-38)
	existed    bool   // a body was known: a client that is away may hold it, so its absence lingers
	faulted    bool   // in error, and nothing else is known: counts for settling like silence, after 15 s
	unanswered bool   // silent for 15 s on a healthy stream: counts for settling only (RELAY-6)
	mute       bool   // asked 15 s ago, and the origin has said nothing of the body since (confirm.go)
	refresh    bool   // to be asked anew, by unsubscribe and subscribe (DELTA-7)
	inChanged  bool
	number     uint32 // one of its own, as good as any: see records

	sharing *sharing // nil: it shares no subscription (share.go)
}

// record is what one client costs for one name.
type record struct {
	want       *want
	sub        *Sub
	prev, next *record // of the want's clients
	chain      *record // of the client's records
	sent       Digest  // of the body last sent, or stated by the client in its first request
	at         uint32  // number of the answer the body was in; 0: none
	flags      recordFlags
}

type recordFlags uint16

const (
	dirty    recordFlags = 1 << iota // in sub.dirty
	owed                             // must be answered even if nothing changed (DELTA-2, SOTW-5)
	holds                            // the client was sent a body, or says it holds one
	claimed                          // it only says so
	gone                             // unsubscribed while in sub.dirty
	cold                             // waits in vain, which is to be said
	demanded                         // owed because the client asked: a request may wait for it (ALIAS-8)
	early                            // not answered yet, and may be an alias of what the client says it holds, or gave up
	beat                             // a TTL came that the client has not been told
	revived                          // holds what had retired, by our giving it
	returned                         // of a client that came back, and by what it said first holds it, or may
	faulty                           // an error was told last, which is in sub.records.faults
	listed                           // within one Replace: it is in the list
)

func (r *record) is(f recordFlags) bool { return r.flags&f != 0 }

// wantLocked finds or makes the want of a name, of which e is the entry if there is one, and asks for it. The name may be part of something
// larger, which nothing here must keep.
func (s *shard) wantLocked(e *entry, name, spelt string) *want {
	if e == nil {
		name = strings.Clone(name)
		e = &entry{name: name, spelt: strings.Clone(spelt)}
		e.retired, e.unconfirmed = s.table().retired.take(s.retiredKey(name))
		s.named.entries[name] = e
		s.shareLocked(e)
		s.shareMemberLocked(e)
		if len(e.variants) == 0 {
			for _, v := range s.matchLocked(name) {
				s.holdLocked(e, v)
			}
		}
		if len(e.variants) > 0 {
			e.retired = nil
		}
		if e.unconfirmed {
			s.named.unconfirmed = true
		}
		if e.retired != nil {
			s.expectLocked(s.lane(s.named.lane))
		}
	} else if len(e.variants) == 0 && !slices.ContainsFunc(e.wants, func(w *want) bool { return w.wasAbsent }) {
		// It gave up what must not be cached, and another name of that may have it still.
		s.shareLocked(e)
		for _, w := range e.wants {
			w.chosen = pick(e.variants, s.params)
		}
	}
	if len(e.wants) > 0 {
		return e.wants[0]
	}
	w := s.newWantLocked(e)
	w.chosen = pick(e.variants, s.params) // a live variant that matches answers a new map at once (RELAY-68)
	w.existed = w.chosen != nil || e.retired != nil
	w.rev = s.rev
	e.wants = append(e.wants, w)
	s.editedLocked()
	s.lookLocked(w)
	return w
}

func (s *shard) newWantLocked(e *entry) *want {
	s.named.wants++
	return &want{entry: e, number: s.named.wants}
}

// nameOf is the want as it goes upstream.
func (s *shard) nameOf(w *want) Name {
	return Name{Name: spelling(w.entry.name, w.entry.spelt), Params: s.params, Located: s.byLocator()}
}

// lookLocked makes the lane look at the want. Before the lane has asked any name on its present stream it looks at all of them
// anyway, so nothing is noted while the origin is away.
func (s *shard) lookLocked(w *want) {
	asked := s.lane(s.named.lane).live(s.named.firstGen[s.named.lane])
	if asked && !w.inChanged {
		w.inChanged = true
		s.named.changed = append(s.named.changed, w)
	}
	s.poke(s.named.lane)
}

// isAskedLocked reports whether the want is asked on the stream that is open now.
func (s *shard) isAskedLocked(w *want) bool {
	return s.lane(s.named.lane).live(w.asked)
}

// absentLocked reports whether the origin's word that the name does not exist still stands: as long as the upstream
// subscription does (RELAY-37, RELAY-38).
func (s *shard) absentLocked(w *want) bool {
	return w.chosen == nil && w.absentGen != 0 && w.absentGen == w.asked && s.isAskedLocked(w)
}

// goneLocked reports whether the name is known not to exist, as far as that can be known: stated, or silence for 15 s.
func (w *want) goneLocked() bool { return w.chosen == nil && (w.wasAbsent || w.unanswered) }

func (w *want) link(r *record) {
	r.next = w.head
	if w.head != nil {
		w.head.prev = r
	}
	w.head = r
	w.count++
	w.lingerAt = time.Time{}
}

// unlinkLocked takes a client's record out; the want outlives its last one by linger, unless it is known never to have existed
// (RELAY-39, which is about guessed names). What existed and went is remembered: a client that was away when it went comes back
// with its version, and asking anew would not help, since many origins state no absence of what they were never seen to have.
func (s *shard) unlinkLocked(r *record, now time.Time) {
	w := r.want
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		w.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	w.count--
	if w.count > 0 {
		return
	}
	if w.chosen != nil && w.chosen.DoNotCache {
		s.abandonLocked(w)
		return
	}
	if linger := s.lingerLocked(); linger > 0 && (w.existed || !s.absentLocked(w)) {
		w.lingerAt = now.Add(linger)
		if !w.timer {
			w.timer = true
			s.push(timer{at: w.lingerAt, kind: wantEnd, shard: s, want: w})
		}
		return
	}
	s.unwantLocked(w)
}

// abandonLocked lets go at once of a want that nobody has and whose body must not be cached. Should it be wanted again before the
// lane has unsubscribed, it is asked anew (RELAY-9).
func (s *shard) abandonLocked(w *want) {
	if e := w.entry; !slices.ContainsFunc(e.wants, func(x *want) bool { return x.count > 0 }) {
		for _, v := range slices.Clone(e.variants) {
			if v.DoNotCache {
				s.cutLocked(e, v.Constraints.Key())
			}
		}
		e.lost = e.lost && len(e.variants) > 0
		s.mindLocked(mortalKey{name: e.name}, e.variants)
		for _, x := range e.wants {
			x.chosen = pick(e.variants, s.params)
		}
		w.refresh, w.answered = s.isAskedLocked(w), 0
	}
	s.unwantLocked(w)
}

// endWant ends a want whose linger has passed.
func (s *shard) endWant(w *want, now time.Time) {
	s.mu.Lock()
	w.timer = false
	if w.count == 0 && !w.lingerAt.IsZero() {
		if waits := s.lingersOn(w.lingerAt, now, w.chosen != nil); !waits.IsZero() {
			w.timer = true
			s.push(timer{at: waits, kind: wantEnd, shard: s, want: w})
		} else {
			s.unwantLocked(w)
		}
	}
	dead := s.dropIfEmptyLocked()
	s.unlock()
	if dead {
		s.group.dropShard(s)
	}
}

// unwantLocked lets go of a want: the lane unsubscribes first if it had asked, and then deletes it.
func (s *shard) unwantLocked(w *want) {
	w.lingerAt = time.Time{}
	s.editedLocked()
	s.bequeathLocked(w)
	if s.isAskedLocked(w) {
		s.lookLocked(w)
		return
	}
	s.deleteLocked(w)
}

func (w *want) wanted() bool { return w.count > 0 || !w.lingerAt.IsZero() }

func (s *shard) deleteLocked(w *want) {
	s.editedLocked()
	e := w.entry
	for i, x := range e.wants {
		if x == w {
			e.wants = append(e.wants[:i:i], e.wants[i+1:]...)
			break
		}
	}
	if len(e.wants) == 0 && s.named.entries[e.name] == e {
		delete(s.named.entries, e.name)
		s.mindLocked(mortalKey{name: e.name}, nil)
		s.retireLocked(e)
		s.emptyLocked(e)
		if s.named.moving && !s.hasNamesLocked() { // nothing is left for the side lane to ask first
			s.movedLocked()
		}
		s.lane(s.named.lane).poke() // it may have been the last thing the lane was open for
	}
}

// offerNamedLocked shows an entry's variants to its wants. stated: the origin spoke of the name itself, so that a want without a
// match knows that there is none.
func (s *shard) offerNamedLocked(e *entry, rev uint64, gen uint32, stated bool) {
	old := e.retired
	if stated || len(e.variants) > 0 {
		e.retired = nil // the origin has spoken
	}
	for _, w := range e.wants {
		chosen := pick(e.variants, s.params)
		switch {
		case chosen != nil:
			changed := w.chosen == nil || w.chosen.Digest != chosen.Digest
			if w.fault != nil && !changed {
				w.curedLocked(rev)
			}
			if !changed && !w.chosen.Expires().Equal(chosen.Expires()) {
				w.renewedLocked(rev)
			}
			w.fault, w.faulted = nil, false
			w.chosen, w.answered, w.absentGen, w.wasAbsent, w.unanswered = chosen, gen, 0, false, false
			w.existed, w.last = true, nil
			if e.lost {
				w.answered = 0
			}
			if changed {
				w.rev = rev
				s.tellLocked(w, rev)
			}
			if w.count == 0 && chosen.DoNotCache {
				s.abandonLocked(w)
			}
		case stated:
			known := w.chosen == nil && w.absentGen == gen
			if !e.lost && (w.fault == nil || !s.group.origin.ends(w.fault)) {
				w.fault = notFound(e.name) // for clients who could not be told otherwise (ABS-10)
			}
			if last := w.chosen; s.typeURL == ClusterType {
				if last == nil {
					last = pick(old, s.params)
				}
				if last != nil {
					w.last = last
				}
			}
			w.chosen, w.answered, w.absentGen, w.wasAbsent, w.unanswered = nil, gen, gen, true, false
			if e.lost { // of the alias itself nothing was said
				w.answered, w.absentGen = 0, 0
			}
			if !known {
				w.rev = rev
				w.dueLocked()
				s.tellLocked(w, rev)
			}
			if w.count == 0 && !w.lingerAt.IsZero() && !w.existed { // RELAY-39: absence does not linger
				s.unwantLocked(w)
			}
		}
	}
	e.lost = e.lost && len(e.variants) > 0
}

// curedLocked: the resource is the same as before, and is sent again to those who were told an error of it: they remember that
// until the resource arrives (ABS-7).
func (w *want) curedLocked(rev uint64) {
	for r := w.head; r != nil; r = r.next {
		if r.fault() != nil {
			r.sub.dirtyLocked(r, rev)
		}
	}
}

// renewedLocked: the TTL is another. Who is told TTLs is told this one; who is not may have had the body withheld for it (RELAY-51).
func (w *want) renewedLocked(rev uint64) {
	for r := w.head; r != nil; r = r.next {
		if r.sub.ttl {
			r.flags |= beat
		}
		if r.sub.ttl || r.fault() != nil {
			r.sub.touchedLocked(r, rev)
		}
	}
}

// dueLocked: a removal that was stated while a client was subscribed is told it, whatever the upstream stream does meanwhile. It may
// have to wait: a SotW client that came back is answered once all it names is known (RELAY-7).
func (w *want) dueLocked() {
	for r := w.head; r != nil; r = r.next {
		if r.is(owed|holds) && !r.heldBack() {
			r.flags = r.flags&^claimed | holds
		}
	}
}

// tellLocked marks the clients of a want.
func (s *shard) tellLocked(w *want, rev uint64) {
	for r := w.head; r != nil; r = r.next {
		r.sub.touchedLocked(r, rev)
	}
}
