package downstream

import (
	"maps"
	"slices"
	"strings"
	"weak"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/intern"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rights are what one stream's client may have: by the identity of its connection, and by what its
// node says. They are found before the stream joins a group. Guarded by the session's lock.
type rights struct {
	allowances *authz.Allowances
	permits    []permit // those asked for so far
	decided    decisions
	forgot     bool // there were more than maxPermits, and some are left out
}

// maxPermits bounds the permits of one stream, since a client may ask with ever new parameters. A
// stream that has more is ended by other rules, as it is not known what they take from it.
const maxPermits = 256

// permit is what the client may have of one type at one origin with some parameters.
type permit struct {
	origin  *relay.Origin
	typeURL string
	params  constraints.Params
	names   *relay.Permit // nil: all
}

var (
	// errNoRule ends a stream. The client may come again with another node.
	errNoRule = status.Error(codes.PermissionDenied, "authorization: no rule fits the identity of this client and what its node says")
	// errReruled ends a stream. The client that resumes is sent the difference.
	errReruled = status.Error(codes.Unavailable, "authorization: what this client may have has changed: come again, and resume by version")
	// These are told as an absence, too: clients that do not know resource errors take the name for
	// one that does not exist.
	notAllowed = &reason{code: codes.PermissionDenied, text: "authorization: no rule allows this name to the client", absent: true}
	notNamed   = &reason{code: codes.PermissionDenied, text: "authorization: no rule that names the client's identity allows this secret " +
		"(origins[].secrets: by_identity)", absent: true}
	// notHeld is for what the client says that it holds, and does not ask for: it is absent, and
	// not in error.
	notHeld = &reason{code: codes.PermissionDenied, text: notAllowed.text, absent: true, unasked: true}
)

// allowances are the rules for a client of the listener; nil: there are none.
func (set *settings) allowances(from *caller) *authz.Allowances {
	if set.rules == nil {
		return nil
	}
	return allowancesOf(set.rules, from.who(), set.address)
}

// setIn puts what the rules set into a client's node, over what the client said. It returns the
// node, which it changes.
func setIn(n *corev3.Node, a *authz.Allowances) *corev3.Node {
	if a == nil {
		return n
	}
	for _, x := range a.SetNode() {
		if n == nil {
			n = &corev3.Node{}
		}
		node.Put(n, strings.TrimPrefix(x.Field, "node."), x.Value)
	}
	return n
}

// rightsOf are those of a client with a node, in which is set what the rules set; nil: it may have
// everything. The error is the status that its stream ends with.
func rightsOf(of *authz.Allowances, n *corev3.Node) (*rights, error) {
	if of == nil {
		return nil, nil
	}
	a, fits := of.Fit(func(field string) (string, bool) {
		switch name, _ := strings.CutPrefix(field, "node."); name {
		case "id":
			return n.GetId(), n.GetId() != ""
		case "cluster":
			return n.GetCluster(), n.GetCluster() != ""
		default:
			return node.Scalar(n, name)
		}
	})
	if !fits {
		return nil, errNoRule
	}
	return &rights{allowances: a}, nil
}

// set puts what the rules set into a node of a request, which it changes.
func (r *rights) set(n *corev3.Node) *corev3.Node {
	if r == nil {
		return n
	}
	return setIn(n, r.allowances)
}

// params are the parameters that plain names of a client with a node have at an origin (DYN-1,
// RELAY-64), with what the rules set over those that it states.
func (r *rights) params(n *corev3.Node, o *relay.Origin, typeURL string) constraints.Params {
	p := o.Params(n, typeURL)
	if r == nil || !o.TP2() {
		return p
	}
	set := r.allowances.SetParameters(o.Name(), typeURL)
	if len(set) == 0 {
		return p
	}
	m := maps.Collect(p.All())
	for _, x := range set {
		m[strings.TrimPrefix(x.Field, "parameters.")] = x.Value
	}
	return constraints.NewParams(m)
}

// permit is what the client may have of a type at an origin with some parameters; nil: everything.
func (s *session) permit(o *relay.Origin, typeURL string, p constraints.Params) *relay.Permit {
	if s.rights == nil {
		return nil
	}
	return s.rights.permit(o, typeURL, p)
}

func (r *rights) permit(o *relay.Origin, typeURL string, p constraints.Params) *relay.Permit {
	for i := range r.permits {
		if x := &r.permits[i]; x.origin == o && x.typeURL == typeURL && x.params.Key() == p.Key() {
			return x.names
		}
	}
	holding := r.allowances.Holding
	if sharesSecrets(o, typeURL) {
		holding = r.allowances.Owning
	}
	names := permitOf(holding(o.Name(), typeURL, func(field string) (string, bool) {
		return p.Lookup(strings.TrimPrefix(field, "parameters."))
	}))
	if len(r.permits) == maxPermits {
		r.permits, r.forgot = nil, true
	}
	r.permits = append(r.permits, permit{o, typeURL, p, names})
	return names
}

// sharesSecrets reports whether the type is Secret, and clients of several identities may share
// those of the origin. Then a client is given those alone that a rule allows to its identity in
// particular (RELAY-74): its pattern of the name has a part of the identity, or the rule is for
// that identity alone.
func sharesSecrets(o *relay.Origin, typeURL string) bool {
	return xds.IsSecret(typeURL) && o.SecretsByIdentity() && o.MixesIdentities()
}

// plainPermits finds the permits of plain names, of which a request may have a million.
type plainPermits struct {
	origin *relay.Origin // of the last one
	names  *relay.Permit
}

func (x *plainPermits) of(s *session, st *streamType, o *relay.Origin) *relay.Permit {
	if x.origin != o {
		x.origin, x.names = o, s.permit(o, st.typeURL, s.params(o, st.typeURL))
	}
	return x.names
}

// deny is the reason why a name is refused by the rules; nil: it is allowed. Of a name that stands
// for others the client is sent what it may have. located: it is that of a locator.
func (s *session) deny(st *streamType, o *relay.Origin, name string, p *relay.Permit, located bool) *reason {
	selects := p != nil && !p.Allows(xds.NameKey(name))
	if selects && !s.selects(st, o, name, located) {
		if sharesSecrets(o, st.typeURL) {
			return notNamed
		}
		return notAllowed
	}
	s.judged(st, o, name, p, selects)
	return nil
}

// selects reports whether a name stands for others (COLL-1, ALIAS-6).
func (s *session) selects(st *streamType, o *relay.Origin, name string, located bool) bool {
	switch {
	case name == xds.Wildcard:
		return true
	case xds.IsNewStyle(name):
		u, err := xds.ParseURN(name)
		return err == nil && u.Glob()
	case !xds.IsVirtualHost(st.typeURL):
		return false
	case !strings.Contains(name, "/"):
		return true
	}
	g := s.joined(st, s.cfg.origin)
	return !located && g != nil && o == s.cfg.origin && len(s.spaces(st, g, []string{name})) > 0
}

// keepsRights reports whether the client may have the same with other settings, as far as it has
// asked. It locks the session.
func (s *session) keepsRights(set *settings) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, same := s.rightsBy(set)
	return same
}

// rightsBy are the client's rights with other settings, and whether they are the same, as far as it
// has asked.
func (s *session) rightsBy(set *settings) (next *rights, same bool) {
	switch {
	case s.closed || s.group == nil || set.rules == s.cfg.rules && set.address == s.cfg.address:
		return s.rights, true
	case set.rules != nil && s.nodeKept < nodeFacts:
		return nil, false
	}
	of, was := set.allowances(&s.from), s.rights
	if !was.setsSame(of) {
		return nil, false // the node that its groups were joined with would be another
	}
	next, err := rightsOf(of, s.node)
	if err != nil || !s.keepsParams(next, s.node) {
		return nil, false
	}
	if was == nil && next == nil {
		return nil, true
	}
	if was == nil { // everything, of what it has asked for
		was = &rights{}
		for _, st := range s.types {
			for x := range st.places {
				was.permits = append(was.permits, permit{origin: x.group.Origin(), typeURL: st.typeURL, params: x.params})
			}
		}
	}
	return next, !was.forgot && !slices.ContainsFunc(was.permits, func(x permit) bool {
		return next == nil && x.names != nil || next != nil && !samePermit(x.names, next.permit(x.origin, x.typeURL, x.params))
	})
}

// setsSame reports whether other rules set the same in the client's node.
func (r *rights) setsSame(of *authz.Allowances) bool {
	var was, is []authz.Setting
	if r != nil {
		was = r.allowances.SetNode()
	}
	if of != nil {
		is = of.SetNode()
	}
	return slices.Equal(was, is)
}

func samePermit(a, b *relay.Permit) bool {
	return a == b || a != nil && b != nil && a.Key() == b.Key()
}

// refuseClaims takes away the virtual hosts that the client says it holds and may not have, or had
// by aliases that it is refused now: then nothing else says what it is to do with them.
func (s *session) refuseClaims(st *streamType, subscribed []string, initial map[string]string) {
	if s.rights == nil || !xds.IsVirtualHost(st.typeURL) {
		return
	}
	var permits plainPermits
	brings, aliased := accepted(subscribed, initial)
	for name := range initial {
		o, why := s.judge(st, name)
		if why != nil {
			continue
		}
		i := strings.LastIndexByte(name, '/')
		lost := !aliased && !xds.IsNewStyle(name) && !brings[name] && !brings[name[:max(i, 0)]]
		if p := permits.of(s, st, o); lost && p != nil || p != nil && !p.Allows(xds.NameKey(name)) {
			s.refuse(st, name, notHeld)
			delete(initial, name)
		}
	}
}

// accepted are the names that were not refused, and whether any of them may be an alias of what the
// client says it holds.
func accepted(subscribed []string, initial map[string]string) (brings map[string]bool, aliased bool) {
	brings = make(map[string]bool, len(subscribed))
	for _, name := range subscribed {
		brings[name] = true
		_, own := initial[name]
		aliased = aliased || !own && strings.Contains(name, "/") && !xds.IsNewStyle(name)
	}
	return brings, aliased
}

// Clients of one identity have the same allowances, and all who may have the same by the same rules
// have one permit (TestRolesSharePermits). To find one costs far less than to make it. What no
// client has any more is dropped, so clients that come and go with ever new identities leave
// nothing (TestIdentitiesLeaveNothing).
var (
	identities = intern.New[identityKey, authz.Allowances]()
	permits    = intern.New[permitKey, relay.Permit]()
)

type identityKey struct {
	rules              weak.Pointer[authz.Rules]
	identity, listener string
}

type permitKey struct {
	rules weak.Pointer[authz.Rules]
	key   string
}

// allowancesOf are the rules for an identity at a listener.
func allowancesOf(rules *authz.Rules, identity, listener string) *authz.Allowances {
	key, same := identityKey{weak.Make(rules), identity, listener}, func(*authz.Allowances) bool { return true }
	if a := identities.Find(key, same); a != nil {
		return a
	}
	return identities.Put(key, rules.For(identity, listener), same)
}

// permitOf is the permit of the rules that hold; nil: everything.
func permitOf(h authz.Held) *relay.Permit {
	if h.All() {
		return nil
	}
	key, same := permitKey{weak.Make(h.Rules()), h.Key()}, func(*relay.Permit) bool { return true }
	if p := permits.Find(key, same); p != nil {
		return p
	}
	a := h.Permit()
	return permits.Put(key, relay.NewPermit(a.Key(), a.Allows, a.Some), same)
}
