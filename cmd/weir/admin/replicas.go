package admin

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// replicasFresh is how long what replicas said is shown before they are asked again.
	replicasFresh = 3 * time.Second
	// replicasWait is how long they may take.
	replicasWait = 2 * time.Second
)

// Replica is how one process of the deployment is doing.
//
// The replicas ask each other, over the port and with the certificates of cache.seed. So no token
// of an admin port leaves its replica: neither this process nor the browser ever shows one
// replica's token to another, which a DNS name or an address alone would decide on. Page leads to
// the page of the replica, which asks for its own sign-in.
type Replica struct {
	Address string `json:"address,omitempty"` // where it is asked; empty: it is the one that answers
	Host    string `json:"host,omitempty"`
	Page    string `json:"page,omitempty"` // of its admin page; empty: other machines cannot reach it
	// Error is why nothing else is known of it.
	Error    string    `json:"error,omitempty"`
	Version  string    `json:"version,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	State    State     `json:"state"`
	Sentence string    `json:"sentence,omitempty"`
	Clients  int       `json:"clients"`
	InSync   float64   `json:"in_sync_percent"`
	Nacking  int       `json:"nacking"`
}

// roster has what the replicas said last, for all pages.
type roster struct {
	mu   sync.Mutex // guards all below; held while they are asked, which others wait for
	last []Replica
	due  time.Time
}

// get returns what replicas said, or asks them if that is due.
func (r *roster) get(ctx context.Context, ask func(context.Context) []Replica) []Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.After(r.due) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replicasWait)
		defer cancel()
		r.last, r.due = ask(ctx), now.Add(replicasFresh)
	}
	return r.last
}

// replicas lists this process, and then its siblings.
func (a *Admin) replicas(r *http.Request) (any, error) {
	if p := a.params(r); p.err != nil {
		return nil, p.err
	}
	o := a.Overview()
	all := []Replica{{
		Host: a.cfg.Host, Version: o.Version, Started: o.Started, State: o.State, Sentence: o.Sentence,
		Clients: o.Clients, InSync: o.InSyncPercent, Nacking: o.Nacking,
	}}
	if a.cfg.Replicas != nil {
		all = append(all, a.roster.get(r.Context(), a.cfg.Replicas)...)
	}
	return map[string]any{"replicas": all}, nil
}

// Overview is how the process stands, at most a moment ago. It must not be modified.
func (a *Admin) Overview() *Overview { return a.board.get(time.Now()).Overview }
