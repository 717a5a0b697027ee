package relaytest

import (
	"maps"
	"math"
	"slices"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
)

// Held is the version of each resource held, by name (or Item.Key, for variants), expired ones left
// out.
func (s *State) Held(typeURL string) map[string]string {
	held := map[string]string{}
	for key, e := range s.of(typeURL).held {
		if !e.expired() {
			held[key] = e.Version
		}
	}
	return held
}

// Count is how many resources Held has.
func (s *State) Count(typeURL string) int {
	if !s.expiring {
		return len(s.of(typeURL).held)
	}
	return len(s.Held(typeURL))
}

// Names are the keys of Held, sorted.
func (s *State) Names(typeURL string) []string { return slices.Sorted(maps.Keys(s.Held(typeURL))) }

// Entry is one resource held; false if it is not, or has expired.
func (s *State) Entry(typeURL, name string) (Entry, bool) {
	e, ok := s.of(typeURL).held[name]
	if !ok || e.expired() {
		return Entry{}, false
	}
	return e, true
}

// Body is the payload held under a name, as a string for comparing; empty if there is none.
func (s *State) Body(typeURL, name string) string {
	e, _ := s.Entry(typeURL, name)
	return string(e.Body)
}

// Absent reports whether the server removed the name, or stated that it does not exist, and did not
// send it since.
func (s *State) Absent(typeURL, name string) bool { return s.of(typeURL).absent[name] }

// Error is the last resource error stated for a name and not cleared by the resource itself, nil if
// none.
func (s *State) Error(typeURL, name string) *spb.Status { return s.of(typeURL).errs[name] }

// Unrequested are the names received without having been asked for; a correct client ignores them.
func (s *State) Unrequested(typeURL string) []string { return slices.Clone(s.of(typeURL).unrequested) }

// Version is the last version_info accepted for the type.
func (s *State) Version(typeURL string) string { return s.of(typeURL).version }

// Responses are those received for the type, on all streams, in order; all types if typeURL is
// empty.
func (s *State) Responses(typeURL string) []*Response {
	if typeURL == "" {
		return slices.Clone(s.responses)
	}
	var rs []*Response
	for _, r := range s.responses {
		if r.TypeURL() == typeURL {
			rs = append(rs, r)
		}
	}
	return rs
}

// Err is Client.Err.
func (s *State) Err() error { return s.err }

func (e *Entry) expired() bool { return !e.Expires.IsZero() && !time.Now().Before(e.Expires) }

// nextExpiry is how long until the next resource expires; very long if none will.
func (s *State) nextExpiry() time.Duration {
	next := time.Duration(math.MaxInt64)
	if !s.expiring {
		return next
	}
	for _, t := range s.types {
		for _, e := range t.held {
			if !e.Expires.IsZero() && !e.expired() {
				next = min(next, time.Until(e.Expires))
			}
		}
	}
	return next
}

// Held is State.Held as of now.
func (c *Client) Held(typeURL string) map[string]string {
	return look(c, func(s *State) map[string]string { return s.Held(typeURL) })
}

// Names is State.Names as of now.
func (c *Client) Names(typeURL string) []string {
	return look(c, func(s *State) []string { return s.Names(typeURL) })
}

// Count is State.Count as of now.
func (c *Client) Count(typeURL string) int {
	return look(c, func(s *State) int { return s.Count(typeURL) })
}

// Body is State.Body as of now.
func (c *Client) Body(typeURL, name string) string {
	return look(c, func(s *State) string { return s.Body(typeURL, name) })
}

// Responses is State.Responses as of now.
func (c *Client) Responses(typeURL string) []*Response {
	return look(c, func(s *State) []*Response { return s.Responses(typeURL) })
}

// Look runs f on the state as of now, for what has no method of its own here.
func (c *Client) Look(f func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
}

func look[T any](c *Client, f func(*State) T) (v T) {
	c.Look(func(s *State) { v = f(s) })
	return v
}
