package origin

import (
	"maps"
	"slices"
	"strconv"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// stream is the state of one stream, for the origin's type. Other types are answered as empty, and
// nothing is kept of them.
type stream struct {
	// Set once by the handler.
	origin *Origin
	delta  bool
	wake   chan struct{} // one slot

	// Guarded by origin.mu.
	asked    bool // there was a request
	hadNames bool // from then on an empty list is no wildcard (WILD-2)
	wildcard bool
	names    map[int]struct{} // subscribed by name
	owed     map[int]struct{}
	owesAll  bool     // everything is owed, whatever owed has
	missing  []string // names asked since that do not exist; delta
	due      bool     // a response has to be sent even if it is empty
	strange  []answer // answers for other types
	nonces   uint64
	nonce    string // of the last response
}

// answer is a response before it is encoded.
type answer struct {
	typeURL, version, nonce string
	pieces                  [][]byte // encoded resources, shared
	removed                 []string
}

// maxStrange bounds the answers that wait for a client that asks and does not read.
const maxStrange = 1000

func newStream(o *Origin, delta bool) *stream {
	return &stream{origin: o, delta: delta, wake: make(chan struct{}, 1), names: map[int]struct{}{}, owed: map[int]struct{}{}}
}

// owe marks a resource to be sent. It is called with origin.mu held.
func (s *stream) owe(i int) {
	s.owed[i] = struct{}{}
	s.rouse()
}

func (s *stream) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // the writer will look anyway
	}
}

// leave removes the stream from the origin.
func (s *stream) leave() {
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	delete(s.origin.everyone, s)
	for i := range s.names {
		delete(s.origin.named[i], s)
	}
}

func (s *stream) subscribe(i int) {
	s.names[i] = struct{}{}
	if s.origin.named[i] == nil {
		s.origin.named[i] = map[*stream]struct{}{}
	}
	s.origin.named[i][s] = struct{}{}
}

func (s *stream) unsubscribe(i int) {
	delete(s.names, i)
	delete(s.origin.named[i], s)
	if !s.wildcard {
		delete(s.owed, i)
	}
}

// wantAll owes everything that the client does not have in its current version, and the removal of
// what it has and does not exist.
func (s *stream) wantAll(initial map[string]string) {
	s.wildcard, s.due = true, true
	s.origin.everyone[s] = struct{}{}
	if s.owesAll = len(initial) == 0; s.owesAll {
		return
	}
	for i := range s.origin.resources {
		if initial[world.Name(i)] != s.origin.resources[i].version() {
			s.owed[i] = struct{}{}
		}
	}
	for name := range initial {
		if _, ok := s.origin.world.Index(name); !ok {
			s.missing = append(s.missing, name)
		}
	}
}

func (s *stream) dropAll() {
	s.wildcard = false
	delete(s.origin.everyone, s)
	if s.owesAll {
		s.owesAll, s.owed = false, maps.Clone(s.names)
		return
	}
	maps.DeleteFunc(s.owed, func(i int, _ struct{}) bool { _, named := s.names[i]; return !named })
}

// change is the content of a request, in either dialect.
type change struct {
	typeURL, nonce, version string
	subscribe, unsubscribe  []string
	initial                 map[string]string
	refused                 bool
}

func deltaChange(r *discovery.DeltaDiscoveryRequest) change {
	return change{
		typeURL: r.TypeUrl, nonce: r.ResponseNonce, subscribe: r.ResourceNamesSubscribe, unsubscribe: r.ResourceNamesUnsubscribe,
		initial: r.InitialResourceVersions, refused: r.ErrorDetail != nil,
	}
}

func sotwChange(r *discovery.DiscoveryRequest) change {
	return change{
		typeURL: r.TypeUrl, nonce: r.ResponseNonce, version: r.VersionInfo, subscribe: r.ResourceNames, refused: r.ErrorDetail != nil,
	}
}

// takeDelta applies a delta request.
func (s *stream) takeDelta(c change) {
	o := s.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	if !s.asked && len(c.subscribe) == 0 { // DELTA-4
		c.subscribe = []string{"*"}
	}
	s.asked = true
	for _, name := range c.subscribe {
		if name == "*" {
			s.wantAll(c.initial)
			continue
		}
		i, ok := o.world.Index(name)
		if !ok {
			s.missing, s.due = append(s.missing, name), true
			continue
		}
		s.subscribe(i)
		if v, held := c.initial[name]; !held || v != o.resources[i].version() {
			s.owed[i], s.due = struct{}{}, true
		}
	}
	for _, name := range c.unsubscribe {
		if name == "*" {
			s.dropAll()
		} else if i, ok := o.world.Index(name); ok {
			s.unsubscribe(i)
		}
	}
	if s.due {
		s.rouse()
	}
}

// takeSotW applies a SotW request. One with an old nonce is stale, and ignored (STREAM-9).
func (s *stream) takeSotW(c change) {
	o := s.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.nonce != s.nonce {
		return
	}
	first := !s.asked
	s.asked = true
	s.hadNames = s.hadNames || len(c.subscribe) > 0
	all := slices.Contains(c.subscribe, "*") || !s.hadNames
	if all && !s.wildcard {
		s.wantAll(nil)
		if first && c.version == o.version() { // the client has all of it
			s.due, s.owesAll = false, false
		}
	} else if !all && s.wildcard {
		s.dropAll()
		s.due = true
	}
	s.setNames(c.subscribe)
	if s.due {
		s.rouse()
	}
}

// setNames replaces the list of names. New names are owed; a full state is owed also if the list
// became shorter.
func (s *stream) setNames(list []string) {
	wanted := make(map[int]struct{}, len(list))
	for _, name := range list {
		i, ok := s.origin.world.Index(name)
		if !ok {
			continue
		}
		wanted[i] = struct{}{}
		if _, had := s.names[i]; !had {
			s.subscribe(i)
			s.owed[i], s.due = struct{}{}, true
		}
	}
	for i := range s.names {
		if _, still := wanted[i]; !still {
			s.unsubscribe(i)
			s.due = s.due || s.origin.world.Kind() == world.Clusters
		}
	}
}

// takeStrange answers a request for a type that the origin does not have, with nothing.
func (s *stream) takeStrange(c change) (ok bool) {
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	if c.nonce != "" && (!s.delta || len(c.subscribe) == 0) {
		return true
	}
	removed := slices.DeleteFunc(slices.Clone(c.subscribe), func(name string) bool { return name == "*" })
	if !s.delta {
		removed = nil
	}
	s.strange = append(s.strange, answer{typeURL: c.typeURL, version: "0", removed: removed})
	s.rouse()
	return len(s.strange) <= maxStrange
}

// next returns the responses to be written, in order.
func (s *stream) next() []answer {
	o := s.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	out := s.strange
	s.strange = nil
	for i := range out {
		out[i].nonce = s.nextNonce()
	}
	if len(s.owed) == 0 && !s.due {
		return out
	}
	a := answer{typeURL: o.typeURL, version: o.version(), removed: s.missing}
	switch {
	case s.owesAll, s.wildcard && !s.delta:
		a.pieces = o.everything(s.delta)
	case !s.delta && o.world.Kind() == world.Clusters: // what it lacks is gone
		a.pieces = s.pieces(s.names)
	default:
		a.pieces = s.pieces(s.owed)
	}
	s.missing, s.due, s.owesAll = nil, false, false
	s.owed = map[int]struct{}{} // to clear a map that was large stays slow
	if len(a.pieces) == 0 && !s.delta && o.world.Kind() != world.Clusters {
		return out // for endpoints an empty list means nothing
	}
	parts := []answer{a}
	if s.delta || o.world.Kind() != world.Clusters { // a full state is never split
		parts = a.cut()
	}
	for i := range parts {
		parts[i].nonce = s.nextNonce()
		s.nonce = parts[i].nonce
	}
	return append(out, parts...)
}

func (s *stream) nextNonce() string {
	s.nonces++
	return strconv.FormatUint(s.nonces, 10)
}

func (s *stream) pieces(which map[int]struct{}) [][]byte {
	pieces := make([][]byte, 0, len(which))
	for _, i := range slices.Sorted(maps.Keys(which)) {
		pieces = append(pieces, s.origin.resources[i].form(s.delta))
	}
	return pieces
}

// pieceBytes bounds a piece of everything.
const pieceBytes = 1 << 20

// cut splits what is too long for one message (TRANS-10); the last one has the removals.
func (a answer) cut() []answer {
	const most = 2 * pieceBytes
	var parts []answer
	from, size := 0, 0
	for i, p := range a.pieces {
		if size += len(p); size > most && i > from {
			parts = append(parts, answer{typeURL: a.typeURL, version: a.version, pieces: a.pieces[from:i]})
			from, size = i, len(p)
		}
	}
	a.pieces = a.pieces[from:]
	return append(parts, a)
}
