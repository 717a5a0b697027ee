package relay

import "math"

// Towards a SotW origin a request names what has subscribers now, and nothing else (RELAY-99): an origin may answer a type only if every name
// exists, and a name too many would make it silent for all clients. So when the last client of a name leaves, the name leaves the request,
// and linger keeps the entry alone. Such an entry is not live: nobody says when it changes. Whoever comes for it is given its body at
// once, as during an outage (RELAY-2), and the name is asked again; the answer corrects it. An origin that finds that it has sent this
// content on the stream already may stay silent, which means that it is current.
//
// The last names of a type stay in the request while they linger: there is nobody whom they could harm, and an empty list is a wildcard to
// many servers. They leave it with the next name that is asked.

// lapsedGen is no stream's generation.
const lapsedGen = math.MaxUint32

// listsLocked reports whether the name belongs into the requests.
func (k *kin) listsLocked(e *entry) bool {
	return e.count > 0 || !e.lingerAt.IsZero() && !k.group.origin.config().SotW
}

// listsAnyLocked reports whether any name of the type belongs into the requests.
func (k *kin) listsAnyLocked() bool {
	for _, s := range k.all {
		for _, e := range s.named.entries {
			if k.listsLocked(e) {
				return true
			}
		}
	}
	return false
}

// lapseLocked has a name that lingers leave the request.
func (s *shard) lapseLocked(e *entry) {
	if s.group.origin.config().SotW && s.isAskedLocked(e) {
		s.bequeathLocked(e)
		s.lookLocked(e)
	}
}

// doubtLapsedLocked looks at names that came back into the request and that a full answer leaves out. It may have been under way before they
// were asked again, so the names are asked once more, and the next answer is believed.
func (s *shard) doubtLapsedLocked(gen uint32) {
	for _, e := range s.named.entries {
		if e.seenGen == lapsedGen && e.asked == gen && len(e.variants) > 0 {
			e.seenGen, e.refresh = 0, true
			s.lookLocked(e)
		}
	}
}
