package relaytest

import (
	"fmt"
	"time"
)

// inFlightWindow is how long a server must wait for an answer before it sends more of a type
// (NONCE-10).
const inFlightWindow = 5 * time.Second

// check compares a response with the rules that hold for every server, before it changes the state.
func (s *State) check(r *Response, inFlight bool) {
	if r.SotW == nil && r.Delta == nil {
		s.violate(r, "not a response message")
		return
	}
	t := s.of(r.TypeURL())
	switch nonce := r.Nonce(); {
	case nonce == "":
		s.violate(r, "empty nonce (NONCE-1)")
	case s.nonces[nonce]:
		s.violate(r, "nonce %q was used before on this stream (NONCE-1)", nonce)
	}
	if r.Identifier() == "" {
		s.violate(r, "empty control plane identifier (STREAM-10)")
	}
	if inFlight && len(t.unanswered) > 0 {
		last := t.unanswered[len(t.unanswered)-1]
		if since := r.At.Sub(last.At); since < inFlightWindow {
			s.violate(r, "sent %v after response %d, which is unanswered (NONCE-10)", since, last.N)
		}
	}
	seen, inError := s.checkItems(r, t), map[string]bool{}
	for _, e := range r.Errors() {
		inError[errorKey(e)] = true
	}
	for _, key := range r.Removed() {
		switch {
		case seen[identity(key)]:
			s.violate(r, "%q is both sent and removed (DEL-6)", key)
		case !t.told[key] && !inError[identity(key)] && !t.locatedAbsence(r, key): // not found is said in both ways (ABS-9)
			s.violate(r, "removes %q, which was neither sent nor subscribed nor is in error (DEL-6)", key)
		}
	}
	s.checkForms(r, t)
	for name := range inError {
		if seen[name] {
			s.violate(r, "%q is both sent and in error (ABS-11)", name)
		}
	}
}

// checkItems checks each resource and returns the set of their identities.
func (s *State) checkItems(r *Response, t *typeState) map[string]bool {
	seen := map[string]bool{}
	for i := range r.Items {
		item := &r.Items[i]
		if item.broken != "" {
			s.violate(r, "resource %q: %s", item.Name, item.broken)
		}
		if seen[identity(item.Key)] {
			s.violate(r, "%q is listed twice (SOTW-11, DELTA-20)", item.Key)
		}
		seen[identity(item.Key)] = true
		s.checkItem(r, t, item)
	}
	return seen
}

func (s *State) checkItem(r *Response, t *typeState, item *Item) {
	if item.Name == "" && item.broken == "" {
		s.violate(r, "a resource without a name")
	}
	if !item.Heartbeat() {
		if got := item.Body.TypeUrl; got != r.TypeURL() && got != redirectType {
			s.violate(r, "%q is a %s in a response of %s (SOTW-15)", item.Name, got, r.TypeURL())
		}
		return
	}
	held, ok := t.held[item.Key]
	switch {
	case r.TypeURL() == VirtualHostType: // an alias that did not resolve (TTL-3)
	case item.broken != "":
	case r.SotW != nil && fullState(r.TypeURL()):
		s.violate(r, "%q has no payload in a full state (TTL-11)", item.Name)
	case r.SotW != nil && ok && r.Version() == t.version: // the form of TTL-9
	case !ok || held.Version != item.Version:
		s.violate(r, "heartbeat of %q at version %q, which the client does not hold (TTL-2, TTL-10)", item.Name, item.Version)
	}
}

func (s *State) violate(r *Response, format string, args ...any) {
	where := fmt.Sprintf("stream %d, response %d (%s, nonce %q): ", s.stream, r.N, shortType(r.TypeURL()), r.Nonce())
	s.violations = append(s.violations, where+fmt.Sprintf(format, args...))
}
