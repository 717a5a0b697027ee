package downstream

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Rejection is what clients said of one resource in one version: all of them that said the same.
type Rejection struct {
	Origin  string `json:"origin"`
	TypeURL string `json:"type_url"`
	// Resource is the one that was refused; "": the client does not say which of a list.
	Resource string `json:"resource,omitempty"`
	// Version is the origin's, as far as it is known; "" of secrets (RELAY-76).
	Version string `json:"origin_version,omitempty"`
	// Message is what the clients say, without what differs between them (pattern).
	Message string `json:"message"`
	// Clients is how many said so. More than maxExact are estimated, to about a twentieth.
	Clients int       `json:"clients"`
	Count   uint64    `json:"count"` // how often it was said
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	// Examples are three clients that said so: the first two, and the last.
	Examples []RejectionExample `json:"examples"`
}

// RejectionExample is one client's refusal.
type RejectionExample struct {
	NodeID  string    `json:"node_id"`
	Peer    string    `json:"peer"`
	Group   string    `json:"group"`
	Message string    `json:"message"` // the client's own words
	At      time.Time `json:"at"`
}

// Rejections are what clients refused within the age that is set, the newest first. Those of
// streams that have ended are among them.
func (s *Server) Rejections() []Rejection { return s.book.all(time.Now()) }

// KeepRejections sets for how long after it was said last a rejection is kept; 0: for good.
func (s *Server) KeepRejections(age time.Duration) { s.book.age.Store(int64(age)) }

// The bounds of the book. Its entries take at most 12 KiB each.
const (
	maxBooked   = 1000
	maxOwn      = 50 // entries that one identity or address begins
	maxAlike    = 50 // entries of one message: versions and resources
	maxExact    = 512
	maxExamples = 3

	maxBookedName = 512
	maxBookedText = 1 << 10
)

// nackBook is what clients refused (RELAY-34). It outlives their streams: a client that crashes on
// what it was sent takes no evidence with it. Clients choose what they say, and their node ids. So
// an entry counts for whoever begins it, and who has many loses an own one for a further one
// (drop). What several clients say stays longer than what one alone says.
type nackBook struct {
	seed maphash.Seed // set once
	age  atomic.Int64 // how long an entry is kept after it was said last; 0: for good

	mu      sync.Mutex // guards what follows; held for work on the maps only
	entries map[bookKey]*bookEntry
	own     map[peerKey]int // entries by who began them
}

type bookKey struct{ origin, typeURL, resource, version, message string }

type bookEntry struct {
	Rejection // without the texts of the key, and Clients
	by        peerKey
	client    uint64 // which of by began it, as clients has it
	clients   sketch
}

// client is who refused something.
type client struct {
	node, peer string
	key        peerKey
}

func newNackBook() *nackBook {
	return &nackBook{seed: maphash.MakeSeed(), entries: map[bookKey]*bookEntry{}, own: map[peerKey]int{}}
}

// hash tells one client from another.
func (b *nackBook) hash(who client) uint64 {
	return maphash.Comparable(b.seed, struct {
		peerKey
		node string
	}{who.key, who.node})
}

// refused records what a client said of a response, once for each resource that it is about.
func (b *nackBook) refused(n *note, who client) {
	names := make([]string, 0, len(n.about))
	for i := range n.about {
		names = append(names, n.about[i].Name)
	}
	hash := b.hash(who)
	key := bookKey{
		origin: n.origin, typeURL: n.typeURL, message: pattern(n.nack.Message, names, who.node),
	}
	example := RejectionExample{
		NodeID: clip(who.node, maxNodeShown), Peer: who.peer, Group: n.group, Message: clip(n.nack.Message, maxBookedText), At: n.nack.At,
	}
	if len(n.about) == 0 {
		b.add(key, example, who.key, hash)
		return
	}
	for i := range n.about {
		c := &n.about[i]
		key.origin, key.resource, key.version = c.Origin, clip(c.Name, maxBookedName), clip(c.Version, maxBookedName)
		if xds.IsSecret(n.typeURL) {
			key.version = ""
		}
		example.Group = c.Group
		b.add(key, example, who.key, hash)
	}
}

// add counts one refusal. It locks the book.
func (b *nackBook) add(key bookKey, example RejectionExample, by peerKey, hash uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key]
	if e != nil && b.isOver(e, example.At) {
		b.remove(key)
		e = nil
	}
	if e == nil {
		b.end(example.At)
		b.makeRoom(key, by)
		e = &bookEntry{by: by, client: hash, Rejection: Rejection{First: example.At}}
		b.entries[key] = e
		b.own[by]++
	}
	e.Count++
	if example.At.After(e.Last) {
		e.Last = example.At
	}
	e.clients.add(hash)
	same := func(x RejectionExample) bool { return x.NodeID == example.NodeID && x.Peer == example.Peer }
	switch i := slices.IndexFunc(e.Examples, same); {
	case i >= 0:
		e.Examples[i] = example
	case len(e.Examples) < maxExamples:
		e.Examples = append(e.Examples, example)
	default:
		e.Examples[maxExamples-1] = example
	}
}

// makeRoom drops an entry if there are as many as there may be: of that message, of whom begins a
// further one, or of all, where one of those who have begun most of them loses one.
func (b *nackBook) makeRoom(key bookKey, by peerKey) {
	isAlike := func(k bookKey, _ *bookEntry) bool {
		return k.origin == key.origin && k.typeURL == key.typeURL && k.message == key.message
	}
	alike := 0
	for k, e := range b.entries {
		if isAlike(k, e) {
			alike++
		}
	}
	switch {
	case alike >= maxAlike:
		b.drop(isAlike, (*bookEntry).several)
	case b.own[by] >= maxOwn:
		b.drop(func(_ bookKey, e *bookEntry) bool { return e.by == by }, (*bookEntry).known)
	case len(b.entries) >= maxBooked:
		most := greatest(b.own)
		b.drop(func(_ bookKey, e *bookEntry) bool { return b.own[e.by] == most }, (*bookEntry).known)
	}
}

func greatest[K comparable](counts map[K]int) (most int) {
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}

// known is how many clients said so.
func (e *bookEntry) known() int { return e.clients.count() }

// several is 1 if several clients said so, else 0. Versions of one resource are ranked by it, as of
// those that many clients refuse the newest matter, however many have come to refuse them yet.
func (e *bookEntry) several() int { return min(e.known(), 2) - 1 }

// drop drops one of some entries: of those with the least rank one of the address or identity that
// has begun most of them, of these one of the client that has, and of these the one that was said
// last the longest ago. So a client with ever new words loses its own, also where many clients have
// one address or identity.
func (b *nackBook) drop(which func(bookKey, *bookEntry) bool, rank func(*bookEntry) int) {
	var least []bookKey
	lowest := math.MaxInt
	peers, clients := map[peerKey]int{}, map[uint64]int{}
	for k, e := range b.entries {
		if !which(k, e) {
			continue
		}
		if r := rank(e); r < lowest {
			lowest, least = r, least[:0]
			clear(peers)
			clear(clients)
		} else if r > lowest {
			continue
		}
		least = append(least, k)
		peers[e.by]++
		clients[e.client]++
	}
	if len(least) == 0 {
		return
	}
	b.remove(slices.MinFunc(least, func(x, y bookKey) int {
		a, c := b.entries[x], b.entries[y]
		return cmp.Or(cmp.Compare(peers[c.by], peers[a.by]), cmp.Compare(clients[c.client], clients[a.client]), a.Last.Compare(c.Last))
	}))
}

func (b *nackBook) remove(at bookKey) {
	by := b.entries[at].by
	delete(b.entries, at)
	if b.own[by]--; b.own[by] == 0 {
		delete(b.own, by)
	}
}

// isOver reports whether an entry was said last for longer than entries are kept.
func (b *nackBook) isOver(e *bookEntry, now time.Time) bool {
	age := time.Duration(b.age.Load())
	return age > 0 && now.Sub(e.Last) > age
}

// end removes the entries whose time is over.
func (b *nackBook) end(now time.Time) {
	for key, e := range b.entries {
		if b.isOver(e, now) {
			b.remove(key)
		}
	}
}

// all are the entries at a time, the newest first. It locks the book.
func (b *nackBook) all(now time.Time) []Rejection {
	b.mu.Lock()
	b.end(now)
	all := make([]Rejection, 0, len(b.entries))
	for k, e := range b.entries {
		x := e.Rejection
		x.Origin, x.TypeURL, x.Resource, x.Version, x.Message = k.origin, k.typeURL, k.resource, k.version, k.message
		x.Clients, x.Examples = e.clients.count(), slices.Clone(e.Examples)
		all = append(all, x)
	}
	b.mu.Unlock()
	slices.SortFunc(all, func(x, y Rejection) int {
		return cmp.Or(y.Last.Compare(x.Last), cmp.Compare(y.Clients, x.Clients), cmp.Compare(x.TypeURL, y.TypeURL),
			cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Message, y.Message))
	})
	return all
}

// sketch counts different hashes in bounded room: it keeps the least of them, and the greatest of
// these says how dense they are.
type sketch struct{ least []uint64 } // ascending; at most maxExact

func (s *sketch) add(hash uint64) {
	i, known := slices.BinarySearch(s.least, hash)
	if known || i == maxExact {
		return
	}
	if len(s.least) == maxExact {
		s.least = s.least[:maxExact-1]
	}
	s.least = slices.Insert(s.least, i, hash)
}

func (s *sketch) count() int {
	if len(s.least) < maxExact {
		return len(s.least)
	}
	return int(float64(maxExact-1) / (float64(s.least[maxExact-1]) / math.MaxUint64))
}
