package downstream

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
)

// Decisions is what the rules of who may ask what have decided.
type Decisions struct {
	// Rules is how many are in force, since Since; 0: nothing is decided.
	Rules int
	Since time.Time
	// Since the start: streams and subscriptions that were allowed, subscriptions that were denied,
	// and streams that ended because no rule fits the client.
	Allowed, Denied, Ended uint64
	// Denials are what was denied, the newest first.
	Denials []Denial
}

// Denial is what one client identity was denied, as often as it was.
type Denial struct {
	Identity string `json:"identity"`
	Listener string `json:"listener"`
	// Ended: the stream was, because no rule fits the client. Origin, TypeURL and Name are empty.
	Ended   bool   `json:"-"`
	Origin  string `json:"origin,omitempty"`
	TypeURL string `json:"type_url,omitempty"`
	// Name is empty of names beyond the first few of a request.
	Name   string `json:"name,omitempty"`
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
	// First and Last are when it was denied. NodeID and Peer are whose it was at last.
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	NodeID string    `json:"node_id"`
	Peer   string    `json:"peer"`
}

// maxDenials bounds the denials that are kept. Each takes at most 3 KiB.
const maxDenials = 1000

// denialBook is what the rules denied last. A client that is denied ever new names pushes out
// nobody else's: when the book is full, whoever has most in it loses its oldest
// (TestDenialsAreBounded).
type denialBook struct {
	allowed, denied, ended atomic.Uint64

	mu      sync.Mutex // guards what follows; a leaf
	order   list.List  // of *deniedEntry, the oldest first
	entries map[denialKey]*list.Element
	own     map[peerKey]int // entries by whose they are
}

// denialKey is a Denial without what differs from time to time.
type denialKey struct {
	identity, listener, origin, typeURL, name, reason string
	ended                                             bool
}

type deniedEntry struct {
	Denial
	by peerKey
}

func newDenialBook() *denialBook {
	return &denialBook{entries: map[denialKey]*list.Element{}, own: map[peerKey]int{}}
}

// deniedClient is whose request was denied something.
type deniedClient struct {
	identity, listener, node, peer string
	by                             peerKey
}

// deniedTo is whose request was denied something: denials are counted by its identity, or of
// strangers by the address.
func deniedTo(set *settings, from *caller, node, peer string) *deniedClient {
	c := &deniedClient{identity: clip(from.who(), maxBookedName), listener: set.address, node: node, peer: peer}
	if c.by.identity = c.identity; from.identity == "" && from.peer != nil {
		c.by.address = from.peer.address
	}
	return c
}

// note records what was denied in one request. It locks the book.
func (b *denialBook) note(now time.Time, who *deniedClient, d *denial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := Denial{
		Identity: who.identity, Listener: who.listener, Ended: d.why.ends, Origin: d.origin, TypeURL: clip(d.typeURL, maxNodeShown),
		Reason: d.why.text, First: now, Last: now, NodeID: who.node, Peer: who.peer,
	}
	for _, name := range d.names {
		x.Name, x.Count = name, 1
		b.add(&x, who.by)
	}
	if more := d.count - len(d.names); more > 0 {
		x.Name, x.Count = "", uint64(more)
		b.add(&x, who.by)
	}
}

func (b *denialBook) add(x *Denial, by peerKey) {
	key := denialKey{x.Identity, x.Listener, x.Origin, x.TypeURL, x.Name, x.Reason, x.Ended}
	if at := b.entries[key]; at != nil {
		e := at.Value.(*deniedEntry)
		e.Count += x.Count
		e.Last, e.NodeID, e.Peer = x.Last, x.NodeID, x.Peer
		b.order.MoveToBack(at)
		return
	}
	if len(b.entries) >= maxDenials {
		b.makeRoom()
	}
	b.entries[key] = b.order.PushBack(&deniedEntry{*x, by})
	b.own[by]++
}

// makeRoom drops the oldest of whoever has most.
func (b *denialBook) makeRoom() {
	most := greatest(b.own)
	for at := b.order.Front(); at != nil; at = at.Next() {
		e := at.Value.(*deniedEntry)
		if b.own[e.by] < most {
			continue
		}
		b.order.Remove(at)
		delete(b.entries, denialKey{e.Identity, e.Listener, e.Origin, e.TypeURL, e.Name, e.Reason, e.Ended})
		if b.own[e.by]--; b.own[e.by] == 0 {
			delete(b.own, e.by)
		}
		return
	}
}

// all are the denials, the newest first. It locks the book.
func (b *denialBook) all() []Denial {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Denial, 0, len(b.entries))
	for at := b.order.Back(); at != nil; at = at.Prev() {
		all = append(all, at.Value.(*deniedEntry).Denial)
	}
	return all
}

// inForce are the rules that a server has, and since when. Guarded by the server's lock.
type inForce struct {
	rules *authz.Rules
	since time.Time
}

// put puts rules in force, unless they are.
func (f *inForce) put(rules *authz.Rules, now time.Time) {
	if !f.since.IsZero() && f.rules.Equal(rules) {
		return
	}
	f.rules, f.since = rules, now
}

// Decisions returns what the rules have decided since the start, and what they denied last.
func (s *Server) Decisions() Decisions {
	s.mu.Lock()
	d := Decisions{Rules: s.ruled.rules.Len(), Since: s.ruled.since}
	s.mu.Unlock()
	b := s.denials
	d.Allowed, d.Denied, d.Ended, d.Denials = b.allowed.Load(), b.denied.Load(), b.ended.Load(), b.all()
	return d
}
