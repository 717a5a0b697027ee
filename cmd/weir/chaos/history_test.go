package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// kind says what an event is.
type kind int

const (
	opened kind = iota // a stream was opened, and what is held presented on it
	asked              // the names wanted of a type are others now
	answer             // a response came
	ended              // the stream is no more
)

// event is one thing that a client saw or did.
type event struct {
	at      time.Time
	kind    kind
	typeURL string
	full    bool // answer: what is not among items is gone
	items   []item
	removed []string
	names   map[string]bool // asked: those wanted from now on
	err     error           // ended
}

// history is everything one client saw and did, in order.
type history struct {
	client  string
	dialect relaytest.Dialect
	wild    map[string]bool // types it wants all of
	ordered bool            // one stream for all types, so that their order counts
	events  []event
}

// holding is what a client holds, by type URL and name.
type holding map[string]map[string]item

// apply takes in an answer or a change of names, and returns the names that were held and are no
// more, but for those no longer wanted.
func (h holding) apply(e *event) (gone []string) {
	if h[e.typeURL] == nil {
		h[e.typeURL] = map[string]item{}
	}
	held := h[e.typeURL]
	switch e.kind {
	case opened, ended:
	case asked:
		for name := range held {
			if !e.names[name] {
				delete(held, name)
			}
		}
	case answer:
		gone = e.gone(held)
		for _, name := range gone {
			delete(held, name)
		}
		for _, i := range e.items {
			held[i.name] = i
		}
	}
	return gone
}

// gone are the names held that the answer takes away.
func (e *event) gone(held map[string]item) []string {
	var gone []string
	for _, name := range e.removed {
		if _, ok := held[name]; ok {
			gone = append(gone, name)
		}
	}
	if !e.full {
		return gone
	}
	stays := map[string]bool{}
	for _, i := range e.items {
		stays[i.name] = true
	}
	for name := range held {
		if !stays[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

// String is one line for failures.
func (e *event) String() string {
	at := e.at.Format("15:04:05.000")
	switch e.kind {
	case opened:
		return at + " opens a stream"
	case asked:
		return fmt.Sprintf("%s wants %d of %s", at, len(e.names), short(e.typeURL))
	case ended:
		return fmt.Sprintf("%s stream ended: %v", at, e.err)
	case answer:
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is sent %s", at, short(e.typeURL))
	for _, i := range e.items {
		fmt.Fprintf(&b, " %s=%d", i.name, i.body)
		if i.ref != "" {
			fmt.Fprintf(&b, ">%s", i.ref)
		}
	}
	if len(e.removed) > 0 {
		fmt.Fprintf(&b, " removed %v", e.removed)
	}
	return b.String()
}
