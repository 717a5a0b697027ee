package downstream

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxTypes bounds the types of one stream, since clients may invent types.
	maxTypes = 256
	// MaxTypeURL bounds a type URL: it is a key of the table.
	maxTypeURL = 1024
	// maxNodeShown bounds the part of a node's id that is logged.
	maxNodeShown = 256
)

// settings are what the streams of one listener share. They never change. A stream may be given
// others (adopt).
type settings struct {
	table          *relay.Table
	origin         *relay.Origin
	instance, via  string
	limits         Limits
	timing         Timing
	metrics        *metrics.Metrics
	compression    string // "" or gzip
	requireNodeID  bool
	tiers          bool             // streams are of this process (node.go)
	federated      bool             // names may belong to other origins
	secrets        secretKinds      // of the origins that names may belong to
	dedicated      map[string]bool  // type URLs (RELAY-29)
	assumed        []string         // client features (FEAT-5)
	noLegacy       map[string]bool  // type URLs (WILD-5)
	seed           maphash.Seed     // for the hashes of lists
	responseHeader *responseHeaders // the headers of responses
	tooLong        *reason          // for the refusal of a name
	rules          *authz.Rules     // nil: everything is allowed
	address        string           // of the listener, for the rules
	traceID        func(typeURL string, received time.Time) string
	watchers       *watchers // nil: nobody can watch
}

func newSettings(cfg Config, lc ListenerConfig) *settings {
	set := &settings{
		table: cfg.Table, origin: lc.Origin, instance: cfg.Instance, via: cfg.Via, limits: cfg.Limits, timing: cfg.Timing, metrics: cfg.Metrics,
		tiers: cfg.Tiers, federated: !cfg.Tiers && cfg.Table.Federated(lc.Origin), compression: lc.Compression, requireNodeID: lc.RequireNodeID, noLegacy: map[string]bool{},
		seed: maphash.MakeSeed(), responseHeader: &responseHeaders{}, dedicated: map[string]bool{}, assumed: lc.AssumeFeatures,
		rules: cfg.Rules, address: lc.Address, traceID: cfg.TraceID, watchers: cfg.watchers,
	}
	if cfg.Tiers {
		set.instance = ""
	}
	set.secrets.dedicated, set.secrets.byIdentity = cfg.Table.SecretsFrom(lc.Origin)
	set.tooLong = limitReason("name_bytes", cfg.Limits.NameBytes, "the name is longer")
	for _, typeURL := range lc.Dedicated {
		set.dedicated[typeURL] = true
	}
	for _, typeURL := range lc.NoLegacyWildcard {
		set.noLegacy[typeURL] = true
		set.noLegacy[xds.OtherSpelling(typeURL)] = true
	}
	return set
}

// session is the state machine of one client stream: what the client asked for, what it was sent,
// and what it acknowledged. It does no I/O and reads no clock. The reader passes requests to it,
// and the writer takes responses.
type session struct {
	// Set once by newSession and serve.
	from  caller
	delta bool
	poll  bool // it has one request and one answer (poll.go)
	// expires: until is the end of the client's certificate (life.go).
	expires bool
	// v2: the transport is v2, whose messages lack what is new in v3 (write.go). It is set by the
	// owner before the first request.
	v2      bool
	only    string   // the type of the service; "" on ADS, which has all types
	pollers *pollers // of polls; nil on streams
	id      uint64   // of the stream; 0: it has none
	opened  time.Time
	until   time.Time // when the stream is too old (RELAY-59), or expires; zero: never
	// Of nonces, so that a nonce of another stream is not taken for one of this stream (NONCE-3).
	prefix  string
	mailbox *relay.Subscriber
	reading waitCell // what the stream's reader waits for (waits.go)
	// via are the relays that the stream has come through (RELAY-87). It is set by the owner before
	// the first request.
	via []string

	// writer serves the stream at the moment, and owns this field. nil: there is no place that
	// could be left.
	writer *writer

	mu    sync.Mutex // guards what follows; never held during a send; before a shard's
	cfg   *settings
	group *relay.Group // of the listener's own origin; nil before the first request
	// rights are what the client may have, set with group; nil: everything.
	rights *rights
	// others are the groups of other origins, and dedicated those that only this stream uses. They
	// were joined with this node when their names were first asked for; nil: none was.
	others      map[*relay.Origin]*relay.Group
	dedicated   map[*relay.Origin]*relay.Group
	node        *corev3.Node
	nodeID      string
	nodeCluster string
	nodeText    string // the part of the encoded node that is kept for people (items.go)
	nodeChanges int
	nodeHash    uint64 // of the node that was stated last, encoded
	nodeOther   bool   // that node differs from the first one
	nodeCut     bool   // nodeText is cut
	ttl         bool   // TTLs may be sent
	nodeKept    nodeKept
	outdated    bool // it needs more of the node than was kept
	served      bool // an answer was written
	closed      bool
	telling     bool            // events are noted, since somebody wants to know
	authorities authorities     // of the names asked for
	deltaOf     []*relay.Origin // those asked for something that depends on their dialect
	types       []*streamType   // in ORD-1 order
	lastNonce   uint64
	batch       []*response // backing array of the lists that take returns
	names       int         // number over all types, with refused ones that are kept
	untold      int         // bytes kept of names that are refused and whose refusals are not sent yet
	// lack is of names that a limit kept from being subscribed (refuse.go); nil: there are none.
	lack *lack
	now  time.Time // time of the last call that had one; no earlier deadline is pending
	// changesAt is when changes were last written that the client did not wait for.
	changesAt time.Time
	notes     []note        // to be logged by the caller
	serving   *serving      // nil before the first request, as group
	paths     []*relay.Path // to the groups joined, if the stream has come through relays
}

// note is something for the stream to log once the session is unlocked.
type note struct {
	typeURL string
	nack    Nack      // zero: the node changed
	sent    time.Time // when the response was written that is refused
	// What was refused: the resources, as far as they are known, and whose they are.
	about         []relay.Content
	mixed         bool // what the client says may be about resources of several origins
	origin, group string
	limit         *reason // of a refusal because of a limit
	dialect       *reason // of a refusal because of the origin's dialect
	decided       *decisions
	event         *Event
}

func newSession(cfg *settings, delta bool, now time.Time, mailbox *relay.Subscriber) *session {
	return &session{
		cfg: cfg, delta: delta, opened: now, now: now, mailbox: mailbox,
		prefix: strconv.FormatInt(now.UnixNano(), 36) + ".",
	}
}

// writerLock locks the session for the writer. A reader may hold the lock for as long as a long
// request takes.
func (s *session) writerLock() {
	if s.mu.TryLock() {
		return
	}
	if s.writer != nil {
		s.writer.leave()
	}
	s.mu.Lock()
}

// settings are the settings in force. It locks the session.
func (s *session) settings() *settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

func (s *session) dialect() string { return dialectOf(s.delta) }

func dialectOf(delta bool) string {
	if delta {
		return "delta"
	}
	return "sotw"
}

// newRequest makes the object that messages of the stream's dialect are read into.
func (s *session) newRequest() *request { return &request{delta: s.delta, set: s.settings()} }

// request applies a request. The error is the status that the stream ends with. It locks the
// session.
func (s *session) request(now time.Time, in *request) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks()
	if s.v2 {
		in.locators, in.leaving = nil, nil // v2 has no such fields (V2-3)
	}
	if s.delta {
		err = s.takeInDelta(now, in.content)
	} else {
		err = s.sotw(now, in.content)
	}
	s.noteDecisions()
	in.set, in.notes, s.notes = s.cfg, s.notes, nil
	return err
}

// client identifies the client for people. It locks the session.
func (s *session) client() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clip(s.nodeID, maxNodeShown)
}

// enter handles what all requests have in common, and finds the stream-type. first: the stream-type
// is new.
func (s *session) enter(now time.Time, in *content) (st *streamType, first bool, err error) {
	switch {
	case s.only != "" && len(in.typeURL) == 0: // TRANS-4
	case s.only != "" && string(in.typeURL) != s.only:
		return nil, false, status.Errorf(codes.InvalidArgument, "type_url is not %s, the only type of this service", s.only)
	case s.only != "":
	case len(in.typeURL) == 0:
		return nil, false, status.Error(codes.InvalidArgument, "type_url is empty") // TRANS-5
	case len(in.typeURL) > maxTypeURL:
		return nil, false, status.Errorf(codes.InvalidArgument, "type_url is longer than %d bytes", maxTypeURL)
	}
	if err := s.lookAtNode(now, in); err != nil {
		return nil, false, err
	}
	for _, st := range s.types {
		if st.typeURL == s.only || st.typeURL == string(in.typeURL) {
			return st, false, nil
		}
	}
	st, err = s.addType(cmp.Or(s.only, xds.TypeURL(in.typeURL)))
	return st, true, err
}

// addType makes a stream-type.
func (s *session) addType(typeURL string) (*streamType, error) {
	if len(s.types) >= maxTypes {
		return nil, status.Errorf(codes.ResourceExhausted, "the stream asks for more than %d types", maxTypes)
	}
	st := newStreamType(s.cfg, typeURL, s.dialect())
	st.barred = s.barred(typeURL)
	_, why := s.judge(st, xds.Wildcard)
	st.legacy = st.legacy && why == nil
	// Nothing can have been named before (REST-4).
	st.legacy = st.legacy || s.poll && why == nil
	// A relay asks an empty list only for a wildcard, of any type (WILD-11).
	st.legacy = st.legacy || len(s.via) > 0 && why == nil
	i, _ := slices.BinarySearchFunc(s.types, typeURL, func(st *streamType, typeURL string) int {
		return xds.CompareTypes(st.typeURL, typeURL)
	})
	s.types = slices.Insert(s.types, i, st)
	return st, nil
}

// checkLength refuses lists that are longer than any that a client has a use for, before they are
// decoded. A lowered limit ends no stream that lists what it has.
func (s *session) checkLength(in *content) error {
	n := max(in.names.n+len(in.locators), in.unsubscribe.n+len(in.leaving))
	if n > max(s.cfg.limits.NamesPerStream, s.names) {
		return s.cfg.over("names_per_stream", s.cfg.limits.NamesPerStream, fmt.Sprintf("one request has %d names", n))
	}
	return nil
}

// countNames records how many names the type has now, and refuses too many.
func (s *session) countNames(st *streamType) error {
	if s.outdated {
		return errReconfigured
	}
	names := len(st.refused) + len(st.denied) + len(st.refusals) + st.sub.names()
	more := names > st.names // a lowered limit ends no stream that does not ask for more
	s.names += names - st.names
	st.names = names
	if more && s.names > s.cfg.limits.NamesPerStream {
		return s.cfg.over("names_per_stream", s.cfg.limits.NamesPerStream, "the stream asks for more")
	}
	return nil
}

// close releases everything. After it the session is used only for status. It locks the session.
func (s *session) close(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for _, p := range s.paths {
		p.Close()
	}
	// Before the subscriptions, since what lingers of them depends on the group's other clients.
	switch {
	case s.group == nil:
	case s.cfg.tiers:
		s.group.Unfeed(now)
	default:
		s.group.Release(now)
	}
	for _, groups := range []map[*relay.Origin]*relay.Group{s.others, s.dedicated} {
		for _, g := range groups {
			g.Release(now)
		}
	}
	for _, st := range s.types {
		st.sub.close(now)
	}
	s.types = nil
	s.noteUntold(-s.untold)
}

// nonceOf is the number of one of the stream's own nonces. Such a nonce is the stream's prefix, and
// the number as strconv writes it. The argument may be any text of a client.
func (s *session) nonceOf(nonce []byte) (n uint64, ours bool) {
	digits := len(nonce) - len(s.prefix)
	if digits < 1 || digits > 19 || string(nonce[:len(s.prefix)]) != s.prefix || nonce[len(s.prefix)] == '0' {
		return 0, false
	}
	for i := len(s.prefix); i < len(nonce); i++ {
		c := nonce[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return n, true
}

// nonce is the nonce with a number; "": there are none.
func (s *session) nonce(n uint64) string {
	if s.poll {
		return "" // REST-4
	}
	return s.prefix + strconv.FormatUint(n, 10)
}

// header is the header of a response of the type (STREAM-10). It names the control plane that all
// of the answer came from, or that of the listener's own origin if it came from several.
func (s *session) header(st *streamType, g *relay.Group) *responseHeader {
	if g == nil {
		g = s.group
	}
	if id := g.Identifier(); st.responseHeader == nil || st.responseHeader.key.identifier != id {
		st.responseHeader = s.cfg.responseHeader.of(headerKey{st.typeURL, id, s.delta, s.v2}, s.cfg.instance)
	}
	return st.responseHeader
}
