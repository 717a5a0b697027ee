package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// firstRequestBytes is the size at which delta requests are split: servers refuse more than 4 MiB
// by default (RELAY-41).
const firstRequestBytes = 3 << 20

// method is what a stream is opened by: ADS, or the service of the one type that it carries.
func (c *Config) method(onlyType string) string {
	if c.PerType {
		if v := xds.ServiceOf(onlyType, c.V2); v != nil {
			return v.Method(!c.SotW)
		}
	}
	return xds.Aggregated(c.V2).Method(!c.SotW)
}

// wildcard returns how `*` is asked for. If locators may follow, it is named: an empty list is a
// wildcard only as long as nothing else is named (RELAY-21, WILD-6).
func (c *Config) wildcard() []string {
	if c.WildcardExplicit || c.TP2 {
		return []string{xds.Wildcard}
	}
	return nil
}

// everything is the first request for all there is of a type.
func (c *Config) everything(typeURL string) proto.Message {
	if c.SotW {
		return &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: c.wildcard()}
	}
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: c.wildcard()}
}

// sotwList is what a SotW request lists for an Ask.
func (c *Config) sotwList(a *relay.Ask) list {
	all := listOf(a.All)
	if a.Wildcard {
		all.names = append(c.wildcard(), all.names...)
	}
	return all
}

// deltaRequests returns the messages of one Ask. Only the first message of a type may name nothing,
// which asks for the wildcard (WILD-11), and only there are initial versions read (DELTA-11).
func (c *Config) deltaRequests(a *relay.Ask) []*discoveryv3.DeltaDiscoveryRequest {
	subscribe, unsubscribe := listOf(a.Subscribe), listOf(a.Unsubscribe)
	if a.Wildcard {
		subscribe.names = append(c.wildcard(), subscribe.names...)
	}
	var ms []*discoveryv3.DeltaDiscoveryRequest
	for initial := a.Initial; ; initial = nil {
		m := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.TypeURL, InitialResourceVersions: initial}
		room := firstRequestBytes
		for name, version := range initial {
			room -= len(name) + len(version) + 16
		}
		var now list
		now, subscribe, room = subscribe.cut(room)
		m.ResourceNamesSubscribe, m.ResourceLocatorsSubscribe = now.names, now.locators
		if subscribe.empty() {
			now, unsubscribe, _ = unsubscribe.cut(room)
			m.ResourceNamesUnsubscribe, m.ResourceLocatorsUnsubscribe = now.names, now.locators
		}
		ms = append(ms, m)
		if subscribe.empty() && unsubscribe.empty() {
			return ms
		}
	}
}

// strip removes from an Ask what an origin without TP2 must not see: it would find an empty list of
// names, which means a wildcard (DYN-17). The table does not ask for such names; if it did, they
// would stay unanswered. send is false if nothing is left to be sent.
func (c *Config) strip(a *relay.Ask) (stripped int, send bool) {
	if c.TP2 {
		return 0, true
	}
	before := len(a.Subscribe) + len(a.Unsubscribe) + len(a.All)
	for _, names := range []*[]relay.Name{&a.Subscribe, &a.Unsubscribe, &a.All} {
		if slices.ContainsFunc(*names, byLocator) {
			*names = slices.DeleteFunc(slices.Clone(*names), byLocator)
		}
	}
	stripped = before - len(a.Subscribe) - len(a.Unsubscribe) - len(a.All)
	return stripped, stripped == 0 || a.Wildcard || len(a.Subscribe)+len(a.Unsubscribe)+len(a.All) > 0
}

// detail returns the error_detail of a NACK (ERR-10).
func detail(err error) *status.Status {
	if err == nil {
		return nil
	}
	return &status.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
}

// introduce sets the node of a request.
func introduce(m proto.Message, node *corev3.Node) {
	switch m := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		m.Node = node
	case *discoveryv3.DiscoveryRequest:
		m.Node = node
	}
}

// list has the names of a request: plain ones, and those with dynamic parameters (DYN-1).
type list struct {
	names    []string
	locators []*discoveryv3.ResourceLocator
}

// listOf makes a list of names, in the table's order.
func listOf(ns []relay.Name) (l list) {
	for i := range ns {
		if n := &ns[i]; n.Located {
			l.locators = append(l.locators, &discoveryv3.ResourceLocator{
				Name: n.Name, DynamicParameters: maps.Collect(n.Params.All()),
			})
		} else {
			l.names = append(l.names, n.Name)
		}
	}
	return l
}

func (l *list) empty() bool { return len(l.names)+len(l.locators) == 0 }

// cut splits off as much as fits into room bytes, names first, and at least one of either kind.
func (l *list) cut(room int) (head, tail list, left int) {
	head.names, tail.names, left = cut(l.names, room, func(name string) int { return len(name) + 6 })
	if tail.locators = l.locators; len(tail.names) > 0 || len(head.names) > 0 && left <= 0 {
		return head, tail, 0
	}
	more := func(r *discoveryv3.ResourceLocator) int { return proto.Size(r) + 6 }
	if len(head.names) > 0 && len(l.locators) > 0 && left < more(l.locators[0]) {
		return head, tail, 0 // cut would take one that does not fit
	}
	head.locators, tail.locators, left = cut(l.locators, left, more)
	return head, tail, left
}

// cut splits off as many elements as fit, and at least one.
func cut[T any](all []T, room int, size func(T) int) (head, tail []T, left int) {
	for i, one := range all {
		room -= size(one)
		if room < 0 && i > 0 {
			return all[:i], all[i:], 0
		}
	}
	return all, nil, room
}

// sameNames reports whether two lists are the same subscriptions (DYN-2).
func sameNames(a, b []relay.Name) bool {
	return slices.EqualFunc(a, b, func(a, b relay.Name) bool { return a.Name == b.Name && a.Params.Key() == b.Params.Key() })
}

func byLocator(n relay.Name) bool { return n.Located || n.Params.Len() > 0 }

// sendReports tells the origin what clients rejected (RELAY-35): one request for each report that
// is due, with the nonce of the response, which was acknowledged before. It returns when the next
// is due. What can be said of no response on this stream is dropped.
func (s *stream) sendReports(now time.Time) (next time.Time, err error) {
	due, next := s.lane.table.Reports(now)
	for _, r := range due {
		m := s.reportOf(r)
		if m == nil || !s.lane.table.Reported(r) {
			continue
		}
		s.lane.origin.counts.Type(r.TypeURL).NackReport()
		if err := s.send(m); err != nil {
			return next, err
		}
	}
	return next, nil
}

// reportOf is the request of a report; nil: the stream has no such response, or in SotW a newer
// one, and an older nonce is ignored. In SotW it repeats names and version, so that it asks for
// nothing new. It locks the lane.
func (s *stream) reportOf(r *relay.Report) proto.Message {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	t := s.types[r.TypeURL]
	if t == nil {
		return nil
	}
	nonce := t.nonceOf(r.Came)
	switch {
	case nonce == "", s.sotw && (len(t.pending) > 0 || t.deferredAsk):
		return nil
	case s.sotw:
		return &discoveryv3.DiscoveryRequest{
			TypeUrl: r.TypeURL, ResourceNames: t.all.names, ResourceLocators: t.all.locators, VersionInfo: t.accepted,
			ResponseNonce: nonce, ErrorDetail: summary(r),
		}
	}
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeURL, ResponseNonce: nonce, ErrorDetail: summary(r)}
}

// mostSaid bounds what is passed on of a client's message, in bytes.
const mostSaid = 2 << 10

// summary is the error_detail of a report.
func summary(r *relay.Report) *status.Status {
	text := "1 client rejects"
	if r.Clients > 1 {
		text = strconv.Itoa(r.Clients) + " clients reject"
	}
	if r.Resource == "" {
		text += " the list"
	} else {
		text += fmt.Sprintf(" %q", printable(r.Resource))
	}
	if r.Message != "" {
		text += "; the first says: " + printableTo(mostSaid, r.Message)
	}
	return &status.Status{Code: int32(codes.InvalidArgument), Message: text}
}
