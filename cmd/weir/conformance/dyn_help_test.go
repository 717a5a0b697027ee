package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// constraint is short for what an origin states of a variant.
type constraint = relaytest.Constraints

// tp2 has every weir of a row ask by locators: its origin knows them, and so does the weir before
// it.
func tp2(c weirtest.Config) { c.Origin().Set("tp2", true) }

// when is the constraint that the map holds these: "env=prod,ver=1".
func when(pairs string) *constraint {
	var all []*constraint
	for _, pair := range pairsOf(pairs) {
		key, value, _ := strings.Cut(pair, "=")
		all = append(all, relaytest.Is(key, value))
	}
	if len(all) == 1 {
		return all[0]
	}
	return relaytest.And(all...)
}

func pairsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// locator reads what a client asks for: "n" is a plain name, "n{}" and "n{env=prod,ver=1}" are
// locators.
func locator(want string) (l *discovery.ResourceLocator, located bool) {
	name, rest, located := strings.Cut(want, "{")
	l = &discovery.ResourceLocator{Name: name}
	for _, pair := range pairsOf(strings.TrimSuffix(rest, "}")) {
		key, value, _ := strings.Cut(pair, "=")
		if l.DynamicParameters == nil {
			l.DynamicParameters = map[string]string{}
		}
		l.DynamicParameters[key] = value
	}
	return l, located
}

// asked tells plain names from locators.
func asked(wants []string) (names []string, ls []*discovery.ResourceLocator) {
	for _, want := range wants {
		if l, located := locator(want); located {
			ls = append(ls, l)
		} else {
			names = append(names, l.Name)
		}
	}
	return names, ls
}

// labelled is a body that can be told by its label.
func labelled(typeURL, name, label string) *anypb.Any {
	switch typeURL {
	case cds:
		return relaytest.Body(&cluster.Cluster{Name: name, AltStatName: label})
	case lds:
		return relaytest.Body(&listener.Listener{Name: name, StatPrefix: label})
	case eds:
		return relaytest.Endpoints(name, label+":80")
	}
	return relaytest.Opaque(name, label)
}

// labelOf reads it; it is empty if the body is not what labelled makes.
func labelOf(body *anypb.Any) string {
	c, l, e, o := new(cluster.Cluster), new(listener.Listener), new(endpoint.ClusterLoadAssignment), new(core.HeaderValue)
	// which has its two fields where an opaque body has them
	m, read := proto.Message(o), o.GetValue
	switch body.GetTypeUrl() {
	case cds:
		m, read = c, c.GetAltStatName
	case lds:
		m, read = l, l.GetStatPrefix
	case eds:
		m, read = e, func() string {
			return e.GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
		}
	}
	if proto.Unmarshal(body.GetValue(), m) != nil {
		return ""
	}
	return read()
}

// variant is one body of a name, for those whom its constraints match; all, if there are none.
type variant struct {
	when  *constraint
	label string
}

func (v variant) of(typeURL, name string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: v.label, Body: labelled(typeURL, name, v.label), Constraints: v.when}
}

// told is what a client of one name or locator had after each response, where that changed: the
// label of its variant, labels with a plus between them where it had several at once, nothing where
// it had none.
func told(responses []*relaytest.Response, want string) (all []string) {
	l, located := locator(want)
	mine := func(name string, c *constraint, byLocator bool) bool {
		return name == l.Name && byLocator == located && (!located || relaytest.Matches(c, l.DynamicParameters))
	}
	has := map[string]string{} // by constraints
	for _, r := range responses {
		whole := r.TypeURL() == cds || r.TypeURL() == lds
		among := slices.ContainsFunc(r.Items, func(i relaytest.Item) bool { return mine(i.Name, i.Constraints, i.HasLocator) })
		if r.SotW != nil && (whole || among) {
			clear(has) // what comes replaces what there was
		}
		for _, i := range r.Items {
			if mine(i.Name, i.Constraints, i.HasLocator) && i.Body != nil {
				has[spelling(i.Constraints)] = labelOf(i.Body)
			}
		}
		for _, name := range r.Delta.GetRemovedResources() {
			if !located && name == l.Name {
				clear(has)
			}
		}
		for _, n := range r.Delta.GetRemovedResourceNames() {
			if located && n.Name == l.Name {
				delete(has, spelling(n.DynamicParameterConstraints))
			}
		}
		var labels []string
		for _, label := range has {
			labels = append(labels, label)
		}
		slices.Sort(labels)
		if now := strings.Join(labels, "+"); len(all) == 0 && now != "" || len(all) > 0 && now != all[len(all)-1] {
			all = append(all, now)
		}
	}
	return all
}

// spelling is the bytes of constraints, which are the same in every response (DYN-7).
func spelling(c *constraint) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// seeker is a client that asks by name and by locator.
type seeker struct {
	*relaytest.Client
	t *testing.T
}

func (w *world) seeker(d relaytest.Dialect) *seeker {
	w.t.Helper()
	return &seeker{w.client(d), w.t}
}

// seek adds what is asked for.
func (s *seeker) seek(typeURL string, wants ...string) {
	s.t.Helper()
	names, ls := asked(wants)
	s.SubscribeBoth(typeURL, names, ls...)
}

// leave takes some of it back.
func (s *seeker) leave(typeURL string, wants ...string) {
	s.t.Helper()
	names, ls := asked(wants)
	s.UnsubscribeBoth(typeURL, names, ls...)
}

// has waits until a want is served the body with that label, and nothing else; an empty one means
// that it is served nothing any more.
func (s *seeker) has(typeURL, want, label, sentence string) {
	s.t.Helper()
	s.Await(0, func(st *relaytest.State) bool {
		all := told(st.Responses(typeURL), want)
		return len(all) > 0 && all[len(all)-1] == label
	}, fmt.Sprintf("%s: %s is %q", sentence, want, label))
}

// got fails unless a want was served exactly these, one after the other.
func (s *seeker) got(typeURL, want string, labels ...string) {
	s.t.Helper()
	if all := told(s.Responses(typeURL), want); !slices.Equal(all, labels) {
		s.t.Errorf("%s was served %q, want %q", want, all, labels)
	}
}

// refused waits until a name is stated to be in error, for whatever map.
func (s *seeker) refused(typeURL, name string, code codes.Code, sentence string) {
	s.t.Helper()
	s.Await(0, func(st *relaytest.State) bool {
		return slices.ContainsFunc(st.Responses(typeURL), func(r *relaytest.Response) bool {
			return slices.ContainsFunc(r.Errors(), func(e *discovery.ResourceError) bool {
				return e.GetResourceName().GetName() == name && codes.Code(e.GetErrorDetail().GetCode()) == code
			})
		})
	}, fmt.Sprintf("%s: %s is refused with %v", sentence, name, code))
}

// upstream waits until the origin was asked for exactly these, plain names and locators, on its one
// stream.
func (w *world) upstream(typeURL, sentence string, wants ...string) *relaytest.Stream {
	w.t.Helper()
	want := slices.Clone(wants)
	for i := range want {
		want[i] = strings.TrimSuffix(want[i], "{}")
	}
	slices.Sort(want)
	var s *relaytest.Stream
	w.origin.Await(0, func() bool {
		open := w.origin.Open()
		if len(open) != 1 {
			return false
		}
		s = open[0]
		return slices.Equal(wantedOn(s, typeURL), want)
	}, sentence)
	return s
}

// wantedOn is what a stream asks for now, in the order of the alphabet. A locator without
// parameters is a plain name (DYN-1).
func wantedOn(s *relaytest.Stream, typeURL string) (now []string) {
	asked := s.Asked(typeURL)
	for want, n := range asked.Subscribed {
		if n > asked.Unsubscribed[want] {
			now = append(now, strings.TrimSuffix(want, "{}"))
		}
	}
	slices.Sort(now)
	return now
}

// replacing is a response that removes a variant, naming its constraints, and brings others in its
// place.
func replacing(s *relaytest.Stream, typeURL, version, name string, c *constraint, instead ...relaytest.Resource) (nonce string) {
	return s.RespondReplaced(typeURL, version, []*discovery.ResourceName{relaytest.VariantName(name, c)}, instead...)
}
