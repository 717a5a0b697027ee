package relaytest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Response is one response a Client received. Exactly one of SotW and Delta is set, or neither if
// the bytes were no message. It is shared: do not modify.
type Response struct {
	N     int // the client's count of responses, from 1, over all streams
	At    time.Time
	Raw   []byte // as received
	SotW  *discovery.DiscoveryResponse
	Delta *discovery.DeltaDiscoveryResponse
	Items []Item

	rejected string // by ClientConfig.Reject
	seen     bool   // guarded by Client.mu: an expectation has taken it
	before   map[string]Entry
}

// Item is one resource of a response, unwrapped.
type Item struct {
	Name string
	// the name, followed by the constraints in braces if it came by resource_name
	Key         string
	Version     string // of the resource; in SotW, if it has none of its own, the version_info
	Body        *anypb.Any
	Aliases     []string
	TTL         *time.Duration // nil: none
	Wrapped     bool           // came in a SotW wrapper
	HasLocator  bool           // named by resource_name instead of name
	Constraints *discovery.DynamicParameterConstraints
	broken      string // why it could not be read
}

// Heartbeat reports whether the item has no payload (TTL-2).
func (i *Item) Heartbeat() bool { return i.Body == nil }

func (r *Response) decode(d Dialect) {
	if d == SotW {
		m := new(discovery.DiscoveryResponse)
		if proto.Unmarshal(r.Raw, m) != nil {
			return
		}
		r.SotW = m
		for _, a := range m.Resources {
			r.Items = append(r.Items, sotwItem(a, m.VersionInfo))
		}
		return
	}
	m := new(discovery.DeltaDiscoveryResponse)
	if proto.Unmarshal(r.Raw, m) != nil {
		return
	}
	r.Delta = m
	for _, d := range m.Resources {
		r.Items = append(r.Items, itemOf(d))
	}
}

// sotwItem reads a bare or wrapped SotW resource.
func sotwItem(a *anypb.Any, version string) Item {
	if a.TypeUrl != wrapperType {
		name := bodyName(a.Value)
		return Item{Name: name, Key: name, Version: version, Body: a}
	}
	w := new(discovery.Resource)
	if err := proto.Unmarshal(a.Value, w); err != nil {
		return Item{Wrapped: true, broken: "unreadable wrapper: " + err.Error()}
	}
	i := itemOf(w)
	i.Wrapped = true
	i.Version = cmp.Or(i.Version, version)
	if i.Name == "" && i.Body != nil {
		i.Name = bodyName(i.Body.Value)
		i.Key = i.Name
	}
	return i
}

func itemOf(d *discovery.Resource) Item {
	i := Item{Name: d.Name, Version: d.Version, Body: d.Resource, Aliases: d.Aliases}
	if d.ResourceName != nil {
		i.HasLocator = true
		i.Name, i.Constraints = d.ResourceName.Name, d.ResourceName.DynamicParameterConstraints
		if d.Name != "" {
			i.broken = "both name and resource_name are set (DYN-16)"
		}
	}
	if i.Key = i.Name; i.HasLocator {
		i.Key = locatedKey(i.Name, i.Constraints)
	}
	if d.Ttl != nil {
		ttl := d.Ttl.AsDuration()
		i.TTL = &ttl
	}
	return i
}

// identity is the name and the constraints, in whatever form (DELTA-20).
func identity(key string) string { return strings.TrimSuffix(key, "{}") }

// Removed are the keys a delta response removes, by either field.
func (r *Response) Removed() []string {
	var keys []string
	keys = append(keys, r.Delta.GetRemovedResources()...)
	for _, n := range r.Delta.GetRemovedResourceNames() {
		keys = append(keys, locatedKey(n.Name, n.DynamicParameterConstraints))
	}
	return keys
}

// Names are the names of the items, in the order received.
func (r *Response) Names() []string {
	names := make([]string, len(r.Items))
	for i := range r.Items {
		names[i] = r.Items[i].Name
	}
	return names
}

// TypeURL is the type the response says it is of.
func (r *Response) TypeURL() string { return cmp.Or(r.SotW.GetTypeUrl(), r.Delta.GetTypeUrl()) }

// Nonce is the response's nonce.
func (r *Response) Nonce() string { return cmp.Or(r.SotW.GetNonce(), r.Delta.GetNonce()) }

// Version is the version_info (SotW) or system_version_info (delta).
func (r *Response) Version() string {
	return cmp.Or(r.SotW.GetVersionInfo(), r.Delta.GetSystemVersionInfo())
}

// Identifier is the control plane's.
func (r *Response) Identifier() string {
	return cmp.Or(r.SotW.GetControlPlane(), r.Delta.GetControlPlane()).GetIdentifier()
}

// Errors are the resource_errors.
func (r *Response) Errors() []*discovery.ResourceError {
	if r.SotW != nil {
		return r.SotW.ResourceErrors
	}
	return r.Delta.GetResourceErrors()
}

// String is one line for failure messages.
func (r *Response) String() string {
	if r.SotW == nil && r.Delta == nil {
		return fmt.Sprintf("response %d: %d bytes that are no response", r.N, len(r.Raw))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "response %d: %s nonce=%q version=%q resources=%s", r.N, shortType(r.TypeURL()), r.Nonce(), r.Version(),
		brief(r.Names()))
	if removed := r.Removed(); len(removed) > 0 {
		fmt.Fprintf(&b, " removed=%s", brief(removed))
	}
	if n := len(r.Errors()); n > 0 {
		fmt.Fprintf(&b, " errors=%d", n)
	}
	return b.String()
}

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
