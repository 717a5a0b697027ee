package relaytest

import (
	"maps"
	"slices"

	spb "google.golang.org/genproto/googleapis/rpc/status"
)

// NACK is one rejection an Origin received.
type NACK struct {
	Nonce  string
	Detail *spb.Status
}

// Asked counts what was asked for one type; the maps are by name, "*" standing for the wildcard in
// both its forms, or by LocatorKey.
type Asked struct {
	// in SotW: how often the name appeared that was not in the list before
	Subscribed   map[string]int
	Unsubscribed map[string]int // in SotW: how often it vanished from the list
	ACKs         int
	NACKs        []NACK
	Requests     int
}

// tally is Asked in the making, for one stream-type.
type tally struct {
	Asked
	current map[string]bool // subscribed now
	// nonces: a SotW change of names repeats the last one and is no second ACK
	answered map[string]bool
	named    bool // left legacy mode (WILD-3)
}

// Asked is what this stream was asked for the type.
func (s *Stream) Asked(typeURL string) Asked {
	return locked(&s.origin.mu, func() Asked { return sum(typeURL, s) })
}

// Asked is what all streams so far were asked for the type.
func (o *Origin) Asked(typeURL string) Asked {
	return locked(&o.mu, func() Asked { return sum(typeURL, o.streams...) })
}

func sum(typeURL string, streams ...*Stream) Asked {
	total := Asked{Subscribed: map[string]int{}, Unsubscribed: map[string]int{}}
	for _, s := range streams {
		t := s.tally[typeURL]
		if t == nil {
			continue
		}
		for name, n := range t.Subscribed {
			total.Subscribed[name] += n
		}
		for name, n := range t.Unsubscribed {
			total.Unsubscribed[name] += n
		}
		total.ACKs += t.ACKs
		total.NACKs = append(total.NACKs, t.NACKs...)
		total.Requests += t.Requests
	}
	return total
}

// count adds r to the stream's tally. Runs under Origin.mu.
func (s *Stream) count(r *Request) {
	if r.SotW == nil && r.Delta == nil {
		return
	}
	t := s.tally[r.TypeURL()]
	if t == nil {
		t = &tally{current: map[string]bool{}, answered: map[string]bool{}}
		t.Subscribed, t.Unsubscribed = map[string]int{}, map[string]int{}
		s.tally[r.TypeURL()] = t
	}
	t.Requests++
	switch nonce := r.Nonce(); {
	case nonce == "" || t.answered[nonce]:
	case r.IsNACK():
		t.answered[nonce] = true
		t.NACKs = append(t.NACKs, NACK{Nonce: nonce, Detail: r.Detail()})
	default:
		t.answered[nonce] = true
		t.ACKs++
	}
	if r.SotW != nil {
		t.replace(slices.Concat(r.SotW.ResourceNames, locatorKeys(r.SotW.ResourceLocators)))
		return
	}
	if t.Requests == 1 && namesNothing(r.Delta) {
		t.Subscribed["*"]++
	}
	for _, name := range slices.Concat(r.Delta.ResourceNamesSubscribe, locatorKeys(r.Delta.ResourceLocatorsSubscribe)) {
		t.Subscribed[name]++
	}
	for _, name := range slices.Concat(r.Delta.ResourceNamesUnsubscribe, locatorKeys(r.Delta.ResourceLocatorsUnsubscribe)) {
		t.Unsubscribed[name]++
	}
}

// replace counts the difference between the SotW list of before and that of now.
func (t *tally) replace(names []string) {
	now := map[string]bool{}
	for _, name := range names {
		now[name] = true
	}
	t.named = t.named || len(now) > 0
	if !t.named {
		now["*"] = true
	}
	for name := range now {
		if !t.current[name] {
			t.Subscribed[name]++
		}
	}
	for name := range maps.Keys(t.current) {
		if !now[name] {
			t.Unsubscribed[name]++
		}
	}
	t.current = now
}
