package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
)

const (
	// mostEvents bounds the streams of events that are open at a time.
	mostEvents = 64
	// eventsBeat is how long a stream is silent at most. The page takes a longer silence for the
	// loss of its stream.
	eventsBeat = 5 * time.Second
	// eventsWrite is how long a reader may take for one event.
	eventsWrite = 5 * time.Second
)

// events tells a page how everything stands: an event each time that it has changed, computed once
// for all pages. An idle stream has a beat from time to time. A stream ends when its reader is
// slow, is not admitted any more, has had its time (lease), or the process ends. A browser then
// asks again.
func (a *Admin) events(w http.ResponseWriter, r *http.Request) error {
	if p := a.params(r); p.err != nil {
		return p.err
	}
	select {
	case a.eventRooms <- struct{}{}:
		defer func() { <-a.eventRooms }()
	default:
		w.Header().Set("Retry-After", "30")
		return refusedf(http.StatusServiceUnavailable, "too many streams of events are open (%d)", mostEvents)
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the server's would end the stream; a recorder has none
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no")
	told := time.Time{}
	var last []byte
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.ended:
			return nil
		case <-r.Context().Done():
			return nil
		case <-timer.C:
		}
		now := time.Now()
		s := a.board.get(now)
		var text []byte
		switch {
		case !bytes.Equal(s.body, last):
			text, last = s.event(), s.body
		case now.Sub(told) >= eventsBeat-boardFresh/2:
			text = fmt.Appendf(nil, "event: beat\ndata: %q\n\n", now.UTC().Format(time.RFC3339Nano))
		}
		if text != nil {
			if leaseOf(r.Context()).over() != nil {
				return nil
			}
			_ = out.SetWriteDeadline(now.Add(eventsWrite))
			if _, err := w.Write(text); err != nil || out.Flush() != nil {
				return nil
			}
			told = now
		}
		timer.Reset(min(max(time.Until(s.due), time.Millisecond), eventsBeat))
	}
}

const (
	// boardFresh is the least time between two computations of the overview.
	boardFresh = time.Second
	// boardShare bounds the part of a processor that they take: after one that took long the next
	// is due later. It is 1 in this.
	boardShare = 100
)

// board has the last overview, for all who ask. Whoever asks first when it is due computes it, so
// that nothing is computed while nobody does.
type board struct {
	compute func(now time.Time) *Overview

	mu   sync.Mutex // guards last; held during a computation, which others wait for
	last *shown
}

// shown is one overview. It never changes.
type shown struct {
	*Overview
	body []byte    // as JSON in one line, without At
	due  time.Time // when the next is
	cost time.Duration
}

// get returns the last overview, or a new one if that is due.
func (b *board) get(now time.Time) *shown {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && now.Before(b.last.due) {
		return b.last
	}
	s := &shown{}
	cost := costOf(func() {
		s.Overview = b.compute(now)
		text := *s.Overview
		text.At = time.Time{}
		s.body, _ = json.Marshal(&text) // it has no value that has no JSON
	})
	s.cost, s.due = cost, now.Add(max(boardFresh, boardShare*cost))
	b.last = s
	return s
}

// outdated has the next who asks get a new overview: an action has changed something.
func (b *board) outdated() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = nil
}

// event is the overview as a server-sent event.
func (s *shown) event() []byte {
	var text bytes.Buffer
	at, _ := s.At.UTC().MarshalText() // it has a year of four digits
	text.WriteString("event: overview\ndata: {\"at\":\"")
	text.Write(at)
	text.WriteString("\",")
	text.Write(s.body[1:])
	text.WriteString("\n\n")
	return text.Bytes()
}

const (
	// followBeat is the time between two signs of life to who follows a client.
	followBeat = 15 * time.Second
	// followStall is how long who follows may not read.
	followStall = 10 * time.Second
)

// event is something that happened to a client, or to who follows it.
type event struct {
	At           time.Time `json:"at"`
	Event        string    `json:"event"` // as downstream.EventKind; or "following", "missed" and "reconnect"
	Stream       uint64    `json:"stream,omitempty"`
	Streams      *int      `json:"streams,omitempty"` // of "following": those that are open
	Missed       int64     `json:"missed,omitempty"`  // of "missed"
	Peer         string    `json:"peer,omitempty"`
	Identity     string    `json:"identity,omitempty"`
	NodeCluster  string    `json:"node_cluster,omitempty"`
	Dialect      string    `json:"dialect,omitempty"`
	Origin       string    `json:"origin,omitempty"`
	Group        string    `json:"group,omitempty"`
	Type         string    `json:"type,omitempty"`
	TypeURL      string    `json:"type_url,omitempty"`
	Version      string    `json:"version,omitempty"`
	Nonce        string    `json:"nonce,omitempty"`
	Wildcard     bool      `json:"wildcard,omitempty"`
	Named        int       `json:"named,omitempty"`
	Names        []string  `json:"names,omitempty"` // the first few
	Unsubscribed int       `json:"unsubscribed,omitempty"`
	Resources    int       `json:"resources,omitempty"`
	Removed      int       `json:"removed,omitempty"`
	Errors       int       `json:"errors,omitempty"`
	Messages     int       `json:"messages,omitempty"`
	Bytes        int       `json:"bytes,omitempty"`
	// AfterSeconds and HeldSeconds are as Waited and Held of downstream.Event.
	AfterSeconds float64 `json:"after_seconds,omitempty"`
	HeldSeconds  float64 `json:"held_seconds,omitempty"`
	Why          string  `json:"why,omitempty"`
	Text         string  `json:"text,omitempty"`
}

func eventOf(e *downstream.Event) event {
	x := event{
		At: e.At, Event: string(e.Kind), Stream: e.Stream, Peer: e.Peer, Identity: e.Identity, NodeCluster: e.NodeCluster, Dialect: e.Dialect,
		Origin: e.Origin, Group: e.Group, TypeURL: e.TypeURL, Version: e.Version, Nonce: e.Nonce, Wildcard: e.Wildcard, Named: e.Named,
		Names: e.Names, Unsubscribed: e.Unsubscribed, Resources: e.Resources, Removed: e.Removed, Errors: e.Errors, Messages: e.Messages,
		Bytes: e.Bytes, AfterSeconds: e.Waited.Seconds(), HeldSeconds: e.Held.Seconds(), Why: e.Why, Text: e.Text,
	}
	if e.TypeURL != "" {
		x.Type = metrics.ShortName(e.TypeURL)
	}
	return x
}

// follow sends what happens to one client, as server-sent events, until the request or its lease
// ends. The last event of a lease has the client ask again.
func (a *Admin) follow(w http.ResponseWriter, r *http.Request) error {
	p := a.params(r, "node")
	node := p.Get("node")
	if node == "" {
		p.wrongf("node= is missing: the node id of the client to follow")
	}
	if p.err != nil {
		return p.err
	}
	f, stop, err := a.cfg.Follow(node)
	if err != nil {
		return refusedf(http.StatusTooManyRequests, "%v", err)
	}
	defer stop()
	to := http.NewResponseController(w)
	_ = to.SetReadDeadline(time.Time{}) // a recorder of tests has none
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	open := 0
	for _, c := range a.cfg.Clients() {
		if c.NodeID == node {
			open++
		}
	}
	beat := time.NewTicker(followBeat)
	defer beat.Stop()
	next := event{At: time.Now(), Event: "following", Streams: &open}
	admitted := leaseOf(r.Context())
	for {
		if why := admitted.over(); why != nil {
			_ = send(w, to, event{At: time.Now(), Event: "reconnect", Text: why.text}) // the client may have left
			return nil
		}
		if err := send(w, to, next); err != nil {
			return nil // the client has left
		}
		next = event{}
		select {
		case <-a.ended:
			return nil
		case <-r.Context().Done():
			if admitted.why() == nil {
				return nil // the client has left
			}
			continue
		case e := <-f.Events():
			next = eventOf(e)
		case <-beat.C:
		}
		if n := f.Missed(); n > 0 {
			if err := send(w, to, event{At: time.Now(), Event: "missed", Missed: n}); err != nil {
				return nil
			}
		}
	}
}

// send writes one event; an empty one is a sign of life.
func send(w http.ResponseWriter, to *http.ResponseController, e event) error {
	text := ":\n\n"
	if e.Event != "" {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		text = "data: " + string(data) + "\n\n"
	}
	_ = to.SetWriteDeadline(time.Now().Add(followStall)) // a recorder of tests has none
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return to.Flush()
}
