package relay

import "iter"

// records are the names that a client is subscribed to, found by what is wanted under them: a hash
// table of chains that run through the records themselves. Beside the record, which it has to have
// anyway, a name costs the client four to eight bytes here. A map costs it 20 to 40 for a pointer
// as the key, and the name for a key makes that 30 to 55 (TestKnownNameCost).
type records struct {
	chains []*record // by the number of the entry; their count is a power of two
	n      int
	// sentErrors are what was last told instead of a resource, of the few names of which that is
	// so.
	sentErrors map[*record]*NameError
}

const (
	firstChains  = 8
	longestChain = 2 // on average
)

// len is how many names there are.
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

// all are the records, in no order. The one at hand may be removed meanwhile, and no other.
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

// add takes in a record of an entry that has none here.
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

// remove takes a record out.
func (t *records) remove(r *record) {
	at := &t.chains[r.entry.number&uint32(len(t.chains)-1)]
	for *at != r {
		at = &(*at).chain
	}
	*at, r.chain = r.chain, nil
	t.n--
	delete(t.sentErrors, r)
}

// record is what a client has of a name; nil: it is not subscribed to it.
func (s *Sub) record(name string) *record {
	if s.records.len() == 0 {
		return nil
	}
	return s.recordOf(s.shard.named.entries[name])
}

// recordOf is record for an entry; nil: there is none.
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

// lastError is the error last told of the name instead of the resource; nil: none was.
func (r *record) lastError() *NameError {
	if !r.is(errorSent) {
		return nil
	}
	return r.sub.records.sentErrors[r]
}

// setLastError notes what is told of the name instead of the resource; nil: nothing is.
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
