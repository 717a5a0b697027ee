package relay

import "iter"

// records are the names that a client is subscribed to, found by their entries. It is a hash table
// whose chains run through the records themselves. Besides the record, which is needed anyway, a
// name costs the client four to eight bytes here. A map keyed by pointer costs 20 to 40 bytes for
// each name, and a map keyed by the name 30 to 55 (TestKnownNameCost).
type records struct {
	chains []*record // indexed by the entry's number; the length is a power of two
	n      int
	// sentErrors are the errors that were sent last instead of a resource. Only few names have one.
	sentErrors map[*record]*NameError
}

const (
	firstChains  = 8
	longestChain = 2 // on average
)

// len is the number of names.
func (t *records) len() int {
	if t == nil {
		return 0
	}
	return t.n
}

// of is the record of an entry; nil: there is none.
func (t *records) of(e *entry) *record {
	if t.len() == 0 {
		return nil
	}
	r := t.chains[e.number&uint32(len(t.chains)-1)]
	for r != nil && r.entry != e {
		r = r.chain
	}
	return r
}

// all yields the records, in no order. The one that was yielded last may be removed meanwhile, and
// no other.
func (t *records) all() iter.Seq[*record] {
	return func(yield func(*record) bool) {
		if t.len() == 0 {
			return
		}
		for _, r := range t.chains {
			for r != nil {
				next := r.chain
				if !yield(r) {
					return
				}
				r = next
			}
		}
	}
}

// add adds the record of an entry that has none here.
func (t *records) add(r *record) {
	if t.n == longestChain*len(t.chains) {
		t.grow()
	}
	t.link(r)
	t.n++
}

func (t *records) link(r *record) {
	at := &t.chains[r.entry.number&uint32(len(t.chains)-1)]
	r.chain, *at = *at, r
}

func (t *records) grow() {
	old := *t
	t.chains = make([]*record, max(2*len(old.chains), firstChains))
	for r := range old.all() {
		t.link(r)
	}
}

// remove removes a record.
func (t *records) remove(r *record) {
	at := &t.chains[r.entry.number&uint32(len(t.chains)-1)]
	for *at != r {
		at = &(*at).chain
	}
	*at, r.chain = r.chain, nil
	t.n--
	delete(t.sentErrors, r)
}

// record is the client's record of a name; nil: the client is not subscribed to it.
func (s *Sub) record(name string) *record {
	if s.records.len() == 0 {
		return nil
	}
	return s.recordOf(s.shard.named.entries[name])
}

// recordOf is the client's record of an entry; nil: there is none. e may be nil.
func (s *Sub) recordOf(e *entry) *record {
	if e == nil {
		return nil
	}
	return s.records.of(e)
}

// recordFor makes the client's record of an entry.
func (s *Sub) recordFor(e *entry) *record {
	r := &record{sub: s, entry: e}
	e.link(r)
	if s.records == nil {
		s.records = &records{}
	}
	s.records.add(r)
	return r
}

// lastError is the error that was sent last instead of the name's resource; nil: none was.
func (r *record) lastError() *NameError {
	if !r.is(errorSent) {
		return nil
	}
	return r.sub.records.sentErrors[r]
}

// setLastError records the error that is sent instead of the name's resource; nil: none is.
func (r *record) setLastError(f *NameError) {
	t := r.sub.records
	switch {
	case f != nil && t.sentErrors == nil:
		t.sentErrors = map[*record]*NameError{}
		fallthrough
	case f != nil:
		t.sentErrors[r] = f
		r.flags |= errorSent
	case r.is(errorSent):
		delete(t.sentErrors, r)
		r.flags &^= errorSent
	}
}
