package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
)

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
func (a *Admin) follow(w http.ResponseWriter, r *http.Request) {
	node := r.URL.Query().Get("node")
	err := known(r.URL.RawQuery, []string{"node"})
	if err == nil && node == "" {
		err = fmt.Errorf("node= is missing: the node id of the client to follow")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f, stop, err := a.cfg.Follow(node)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
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
			return
		}
		if err := send(w, to, next); err != nil {
			return // the client has left
		}
		next = event{}
		select {
		case <-a.ended:
			return
		case <-r.Context().Done():
			if admitted.why() == nil {
				return // the client has left
			}
			continue
		case e := <-f.Events():
			next = eventOf(e)
		case <-beat.C:
		}
		if n := f.Missed(); n > 0 {
			if err := send(w, to, event{At: time.Now(), Event: "missed", Missed: n}); err != nil {
				return
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
