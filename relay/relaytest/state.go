package relaytest

import (
	"maps"
	"slices"
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// Entry is one resource a client holds.
type Entry struct {
	Name    string
	Version string
	Payload string // type URL of the payload
	// Located: it was named by resource_name, with the Constraints.
	Located     bool
	Constraints *Constraints
	Body        []byte // of the payload; do not modify
	Aliases     []string
	At          time.Time // when this content, or its last heartbeat, arrived
	Expires     time.Time // zero: never

	order int // of receipt
}

// State is what a Client holds and knows. A condition given to Client.Await sees it without copies;
// it must not keep it.
type State struct {
	types      map[string]*typeState
	responses  []*Response
	violations []string
	expiring   bool  // some resource ever had a TTL
	err        error // the stream's end

	// Of the present stream.
	stream  int
	nonces  map[string]bool // received
	reading bool
}

// typeState is the client's side of one type.
type typeState struct {
	hosts       bool   // of virtual hosts
	version     string // last accepted version_info; survives streams, unlike the nonce
	held        map[string]Entry
	absent      map[string]bool // stated absent: removed, and not sent since
	errs        map[string]*spb.Status
	unrequested []string
	before      map[string]bool // names asked for on the stream before
	beforeAt    locators        // locators likewise

	stored int // resources taken in so far

	// Of the present stream.
	asked      bool
	legacy     bool // asked, and so far without a name
	names      map[string]bool
	locators   locators
	nonce      string // of the last answered response
	unanswered []*Response
	told       map[string]bool // names sent, subscribed or brought along: those a removal may name
}

func (s *State) of(typeURL string) *typeState {
	t := s.types[typeURL]
	if t == nil {
		t = &typeState{
			held: map[string]Entry{}, absent: map[string]bool{}, errs: map[string]*spb.Status{},
			names: map[string]bool{}, locators: locators{}, told: map[string]bool{}, hosts: typeURL == VirtualHostType,
		}
		s.types[typeURL] = t
	}
	return t
}

// reopen begins a new stream.
func (s *State) reopen() {
	s.stream++
	s.err, s.reading, s.nonces = nil, false, map[string]bool{}
	for _, t := range s.types {
		if t.asked {
			t.before, t.beforeAt = t.names, t.locators
		}
		// What was taken in is held although the stream ended before it could be ACKed; its version
		// goes with it.
		for _, r := range t.unanswered {
			if r.rejected == "" && r.before == nil {
				t.version = r.Version()
			}
		}
		t.asked, t.legacy, t.nonce, t.unanswered = false, false, "", nil
		t.names, t.locators, t.told = map[string]bool{}, locators{}, map[string]bool{}
	}
}

// request is the SotW request for names and locators as things stand.
func (t *typeState) request(typeURL string, names []string, ls locators) *discovery.DiscoveryRequest {
	return &discovery.DiscoveryRequest{
		TypeUrl: typeURL, ResourceNames: names, ResourceLocators: ls.list(), VersionInfo: t.version, ResponseNonce: t.nonce,
	}
}

// note keeps track of what a request asks for.
func (s *State) note(m proto.Message) {
	switch m := m.(type) {
	case *discovery.DiscoveryRequest:
		t := s.of(m.TypeUrl)
		named := len(m.ResourceNames)+len(m.ResourceLocators) > 0
		t.legacy = !named && (!t.asked || t.legacy)
		t.names, t.locators = map[string]bool{}, locators{}
		t.add(m.ResourceNames, m.ResourceLocators)
		t.prune()
	case *discovery.DeltaDiscoveryRequest:
		t := s.of(m.TypeUrl)
		first := !t.asked
		if first {
			t.legacy = namesNothing(m)
			for name := range m.InitialResourceVersions {
				t.told[name] = true
			}
		}
		// Leaving legacy mode by naming something leaves the wildcard in force in delta (WILD-3).
		if t.legacy && len(m.ResourceNamesSubscribe)+len(m.ResourceLocatorsSubscribe) > 0 {
			t.legacy = false
			t.names["*"] = true
		}
		t.add(m.ResourceNamesSubscribe, m.ResourceLocatorsSubscribe)
		for _, name := range m.ResourceNamesUnsubscribe {
			delete(t.names, name)
			t.legacy = t.legacy && name != "*"
		}
		for _, l := range m.ResourceLocatorsUnsubscribe {
			delete(t.locators, LocatorKey(l))
		}
		if first || len(m.ResourceNamesUnsubscribe)+len(m.ResourceLocatorsUnsubscribe) > 0 {
			t.prune() // not on every ACK: it looks at all that is held
		}
	}
}

func (t *typeState) add(names []string, ls []*discovery.ResourceLocator) {
	t.asked = true
	for _, l := range ls {
		t.locators[LocatorKey(l)] = l
		t.told[l.Name] = true
	}
	for _, name := range names {
		t.names[name] = true
		t.told[name] = true
	}
}

// prune drops what is no longer wanted.
func (t *typeState) prune() {
	maps.DeleteFunc(t.held, func(_ string, e Entry) bool { return !t.wantsEntry(&e) })
	maps.DeleteFunc(t.absent, func(key string, _ bool) bool { return !t.speaksOf(key) })
	maps.DeleteFunc(t.errs, func(key string, _ *spb.Status) bool { return !t.speaksOf(key) })
}

// wants reports whether a resource told in plain form belongs to the subscription.
func (t *typeState) wants(name string, aliases []string) bool {
	return t.legacy || covers(t.names, name, aliases, t.hosts)
}

// covers reports whether any of the names asked for is, or stands for, that of the resource.
func covers(names map[string]bool, name string, aliases []string, hosts bool) bool {
	if names["*"] || names[name] {
		return true
	}
	for wanted := range names {
		if slices.Contains(aliases, wanted) || collects(wanted, name, hosts) {
			return true
		}
	}
	return false
}

// isCollection tells whether a name stands for others: an xdstp glob (.../*), or among virtual
// hosts the name of a route configuration.
func isCollection(name string, hosts bool) bool {
	if strings.HasPrefix(name, "xdstp:") {
		path, _, _ := strings.Cut(name, "?")
		return strings.HasSuffix(path, "/*")
	}
	return hosts && !strings.Contains(name, "/")
}

// collects tells whether a name that stands for others stands for this one (COLL-1, ALIAS-6). Both
// have to be written in one way.
func collects(collection, name string, hosts bool) bool {
	if !isCollection(collection, hosts) {
		return false
	}
	path, context, _ := strings.Cut(collection, "?")
	prefix, glob := strings.CutSuffix(path, "/*")
	switch {
	case collection == name:
		return !glob // a host that is not named as the documents say
	case !glob:
		prefix = collection
	}
	rest, within := strings.CutPrefix(name, prefix+"/")
	rest, of, _ := strings.Cut(rest, "?")
	return within && rest != "" && (!glob || of == context) && !strings.Contains(rest, "/")
}

// receive takes in one response. keep leaves the way back open for a NACK.
func (s *State) receive(r *Response, keep bool) {
	if r.SotW == nil && r.Delta == nil {
		return
	}
	t := s.of(r.TypeURL())
	s.nonces[r.Nonce()] = true
	t.unanswered = append(t.unanswered, r)
	for i := range r.Items {
		t.told[r.Items[i].Key] = true
		t.told[r.Items[i].Name] = true
	}
	if r.rejected != "" {
		return
	}
	if keep {
		r.before = t.held
		t.held = maps.Clone(t.held)
	}
	t.apply(r)
	s.expiring = s.expiring || slices.ContainsFunc(r.Items, func(i Item) bool { return i.TTL != nil })
}

func (t *typeState) apply(r *Response) {
	if r.SotW != nil && fullState(r.TypeURL()) {
		stays := map[string]bool{}
		for i := range r.Items {
			stays[r.Items[i].Key] = true
		}
		maps.DeleteFunc(t.held, func(key string, _ Entry) bool { return !stays[key] })
	}
	for i := range r.Items {
		t.store(&r.Items[i], r.At)
	}
	for _, key := range r.Removed() {
		delete(t.held, key)
		t.absent[key] = true
	}
	for _, e := range r.Errors() {
		t.errs[errorKey(e)] = e.GetErrorDetail()
	}
}

// store takes in one resource: as content, or as a heartbeat of what is held.
func (t *typeState) store(i *Item, at time.Time) {
	if i.broken != "" {
		return
	}
	e := Entry{Name: i.Name, Version: i.Version, Aliases: i.Aliases, Located: i.HasLocator, Constraints: i.Constraints, order: t.stored}
	t.stored++
	if !t.wantsEntry(&e) {
		t.unrequested = append(t.unrequested, i.Name)
		return
	}
	if i.Heartbeat() {
		held, ok := t.held[i.Key]
		if !ok {
			return
		}
		held.order, e = e.order, held
	} else {
		e.Payload, e.Body = i.Body.TypeUrl, i.Body.Value
		delete(t.absent, i.Key)
		delete(t.errs, identity(i.Key))
	}
	e.At, e.Expires = at, time.Time{}
	if i.TTL != nil {
		e.Expires = at.Add(*i.TTL)
	}
	t.held[i.Key] = e
}

// settle notes that r is being answered. In SotW that answers what came before it, too.
func (t *typeState) settle(r *Response, accepted bool) {
	t.nonce = r.Nonce()
	if accepted {
		t.version = r.Version()
	}
	if i := slices.Index(t.unanswered, r); i >= 0 && r.SotW != nil {
		t.unanswered = t.unanswered[i+1:]
	} else if i >= 0 {
		t.unanswered = slices.Delete(t.unanswered, i, i+1)
	}
}

// revert takes the content of r out again, if it was kept apart; r is the newest of its type.
func (t *typeState) revert(r *Response) {
	if r.before == nil {
		return
	}
	t.held = r.before
	t.prune()
}
