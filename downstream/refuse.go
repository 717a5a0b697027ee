package downstream

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
)

// reason is why a name is refused without asking an origin. Such a name is in error and not absent,
// so nothing is removed; but one that the rules deny is absent, too.
type reason struct {
	code   codes.Code
	text   string
	limit  string // the key, if it is a limit
	absent bool   // it is told as an absence, too
	// unasked: the client has not asked for the name, so it is told the absence alone
	unasked bool
}

func limitReason(key string, n int, words string) *reason {
	return &reason{code: codes.ResourceExhausted, text: limitText(key, n, words), limit: key}
}

var (
	noGlobs     = &reason{code: codes.Unimplemented, text: "globs need an origin with dialect: delta; the origin of this name uses state of the world (COLL-2)"}
	noAuthority = &reason{code: codes.FailedPrecondition, text: "origins[].authorities: no origin is asked for names of this authority"}
	noType      = &reason{code: codes.FailedPrecondition, text: "origins[].types: the origin of this name is not asked for this type"}
	otherType   = &reason{code: codes.InvalidArgument, text: "the type in the xdstp name is not that of the request (NAME-2)"}
	emptyName   = &reason{code: codes.InvalidArgument, text: "the name is empty"}
	noDelta     = &reason{code: codes.Unimplemented, text: "origins[].dialect: this type needs dialect: delta; the origin uses state of the world"}
)

// judge decides which origin a name is asked of, or why it is asked of none.
func (s *session) judge(st *streamType, name string) (*relay.Origin, *reason) {
	if xds.DeltaOnly(st.typeURL) {
		s.noteDelta(s.cfg.origin)
	}
	o, why := s.originOf(st, name)
	if why == nil && xds.IsSecret(st.typeURL) {
		why = s.secretless(o)
	}
	if why != nil {
		return nil, why
	}
	return o, nil
}

// secretless is the reason why no secret of an origin is for the client; nil: some may be.
func (s *session) secretless(o *relay.Origin) *reason {
	switch {
	case s.cfg.tiers: // those who want it were judged before
		return nil
	case o.SecretsByIdentity():
		return s.from.unnamed(s.cfg)
	case o.Secrets():
		return s.from.stranger()
	}
	return noSecrets
}

// barred reports whether nothing of a type can be asked for on the stream. That is so for secrets
// if no origin has any for the client.
func (s *session) barred(typeURL string) bool { return s.barredBy(s.cfg, typeURL) }

func (s *session) barredBy(set *settings, typeURL string) bool {
	return xds.IsSecret(typeURL) && !set.tiers && (!set.secrets.dedicated || s.from.stranger() != nil) &&
		(!set.secrets.byIdentity || s.from.unnamed(set) != nil)
}

// originOf is the origin that a name belongs to, for any client.
func (s *session) originOf(st *streamType, name string) (*relay.Origin, *reason) {
	switch {
	case name == "":
		return nil, emptyName
	case len(name) > s.cfg.limits.NameBytes:
		return nil, s.cfg.tooLong
	case xds.IsNewStyle(name):
		return s.judgeURN(st, name)
	// Nobody could answer `*` either, and an empty set would delete what the client has.
	case !s.cfg.origin.Serves(st.typeURL):
		return nil, noType
	case deltaOnly(st, s.cfg.origin):
		return nil, noDelta
	}
	return s.cfg.origin, nil
}

// deltaOnly reports whether the type needs delta end to end, and the origin does not speak it
// (ALIAS-7).
func deltaOnly(st *streamType, o *relay.Origin) bool { return xds.DeltaOnly(st.typeURL) && o.SotW() }

// judgeURN is originOf for an xdstp name, which is never taken for an old-style name (NAME-2). The
// authority decides. A name of an authority that no origin is configured for is sent to no origin
// (FED-2).
func (s *session) judgeURN(st *streamType, name string) (*relay.Origin, *reason) {
	u, err := xds.ParseURN(name)
	switch {
	case err != nil:
		return nil, &reason{code: codes.InvalidArgument, text: "the xdstp name " + err.Error()}
	case !u.Of(st.typeURL):
		return nil, otherType
	}
	s.authorities.note(u.Authority)
	o := s.cfg.table.Authority(u.Authority)
	if s.cfg.tiers {
		o = s.cfg.origin // the names of a group are its origin's
	}
	if o != nil && (u.Glob() || xds.DeltaOnly(st.typeURL)) {
		s.noteDelta(o)
	}
	switch {
	case o == nil:
		return nil, noAuthority
	case !o.Serves(st.typeURL):
		return nil, noType
	case deltaOnly(st, o):
		return nil, noDelta
	case u.Glob() && !o.Selects():
		return nil, noGlobs
	}
	return o, nil
}

// refuse records a name that is not served, and its refusal to send. `*` cannot carry an error
// (ABS-12).
func (s *session) refuse(st *streamType, name string, why *reason) {
	s.refuseAbout(st, name, "", s.refusalKey(name), why)
}

// refusalKey identifies a refusal that is not sent yet, by the name, or by what locatorKey makes of
// a locator.
func (s *session) refusalKey(named string) uint64 { return maphash.String(s.cfg.seed, named) }

// refuseAbout is refuse for a name with parameters. about are the constraints of the parameters.
func (s *session) refuseAbout(st *streamType, name, about string, key uint64, why *reason) {
	st.refusedCount++
	if why.limit != "" {
		s.cfg.metrics.LimitRejection(why.limit)
		if n := len(s.notes); n == 0 || s.notes[n-1].limit == nil || s.notes[n-1].limit.limit != why.limit {
			s.notes = append(s.notes, note{limit: why})
		}
	}
	switch why {
	case notAllowed:
		s.rights.decided.deny(s.ownerOf(name), st.typeURL, name, deniedName)
	case notNamed:
		s.rights.decided.deny(s.ownerOf(name), st.typeURL, name, deniedSecret)
	}
	if n := len(s.notes); why == noDelta && (n == 0 || s.notes[n-1].dialect == nil) {
		s.notes = append(s.notes, note{typeURL: st.typeURL, dialect: why})
	}
	if name != xds.Wildcard && s.tellsRefusals(st, why) {
		r := refusal{strings.Clone(shown(name)), about, key, why}
		st.refusals = append(st.refusals, r)
		s.noteUntold(r.kept())
	}
}

// unnamed drops the refusals that are not sent yet and whose names the client has unsubscribed.
// Otherwise the client would be sent errors of names that it does not ask for.
func (s *session) unnamed(st *streamType, left func(key uint64) bool) {
	st.refusals = slices.DeleteFunc(st.refusals, func(r refusal) bool {
		if !left(r.key) {
			return false
		}
		s.noteUntold(-r.kept())
		return true
	})
}

// noteUntold accounts for the memory of refusals until they are sent.
func (s *session) noteUntold(bytes int) (over bool) {
	s.untold += bytes
	return s.cfg.table.UnsentRefusals(bytes)
}

// shown is the name as it is sent back. It is sent whole, since the client could not match it
// otherwise, unless the name alone would exceed the message size.
func shown(name string) string { return clip(name, refusalBytes) }

// takeRefusals are the refusals that fit into one response. The rest waits for the next.
func (s *session) takeRefusals(st *streamType) []refusal {
	now := st.takeRefusals()
	told := 0
	for i := range now {
		told += now[i].kept()
	}
	s.noteUntold(-told)
	return now
}

// refusedHosts are fields of a delta response that state for refused virtual hosts that they do not
// exist (ALIAS-7): Envoy reads no errors, and would let the request wait (TestHostsOfASotWOrigin).
func (s *session) refusedHosts(st *streamType, refusals []refusal) []byte {
	if !s.delta || !xds.IsVirtualHost(st.typeURL) {
		return nil
	}
	var names []string
	for i := range refusals {
		if refusals[i].about == "" && !refusals[i].why.unasked { // a client that names parameters does not use aliases
			names = append(names, refusals[i].name)
		}
	}
	return relay.Refusals(names, s.prefix+strconv.FormatUint(s.lastNonce+1, 10))
}

func (st *streamType) takeRefusals() []refusal {
	size := 0
	for i := range st.refusals {
		if size += st.refusals[i].size(); size > refusalBytes && i > 0 {
			now := st.refusals[:i:i]
			st.refusals = st.refusals[i:]
			return now
		}
	}
	now := st.refusals
	st.refusals = nil
	return now
}

// shortFor is how long a stream lasts after names were denied for lack of memory or because of a
// limit. Clients do not ask again for a name that they are subscribed to, so this client would miss
// the names for as long as the stream lasts. By then another replica may have room for them.
const shortFor = 5 * time.Minute

// shortLook is how often such a stream checks whether there is memory again. Then it ends at once.
const shortLook = 10 * time.Second

// lack is that names are missing because of a limit.
type lack struct {
	limit string
	text  string // as the client was told it
	since time.Time
	next  time.Time // when to check it
}

// short records that a name is missing because of a limit.
func (s *session) short(now time.Time, why *reason) {
	if s.lack == nil {
		s.lack = &lack{why.limit, why.text, now, now.Add(shortFor)}
		if why.limit == "memory" {
			s.lack.next = now.Add(shortLook)
		}
	}
}

// lackOf is why a name that the client is not subscribed to may be one that the table had no room
// for; "": it is not. In delta it is not kept which names were refused.
func (s *session) lackOf(st *streamType, name string) string {
	switch {
	case name == "" || !st.short || s.lack == nil:
		return ""
	case s.delta:
		return s.lack.text + ". Other names of the type were refused for that; so was this one, unless the client has not asked for it"
	}
	_, denied := st.denied[s.refusalKey(name)]
	if _, refused := st.refused[name]; denied || refused {
		return s.lack.text
	}
	return ""
}

// lookShort ends the stream because of missing names: when there is memory again, or after
// shortFor.
func (s *session) lookShort(now time.Time) error {
	switch {
	case s.lack == nil || now.Before(s.lack.next):
		return nil
	case now.Before(s.lack.since.Add(shortFor)) && s.cfg.table.Tight():
		s.lack.next = now.Add(shortLook)
		return nil
	}
	return s.errShort()
}

// errShort is the status of that end.
func (s *session) errShort() error {
	return &limitError{
		key: s.lack.limit, code: codes.Unavailable, elsewhere: true,
		text: "limits." + s.lack.limit + ": names were refused for want of room: come again, there may be some now, and resume by version",
	}
}

// denied sends the client what the table had no room for: an error for each name. `*` cannot have
// an error (ABS-12), so the stream ends for it. Names in before were sent their error already. at:
// the names are locators of this batch.
func (s *session) denied(now time.Time, st *streamType, denied []relay.Denied, at *locatorBatch, before map[uint64]struct{}) error {
	if len(denied) == 0 {
		return nil
	}
	about := ""
	if at != nil {
		about = s.about(at.params)
	}
	var why *reason
	for _, d := range denied {
		if d.Name == xds.Wildcard {
			return s.cfg.full(d.Limit, d.Most, noRoom[d.Limit])
		}
		if why == nil || why.limit != d.Limit {
			why = limitReason(d.Limit, d.Most, noRoom[d.Limit])
		}
		s.short(now, why)
		st.short = true
		named := d.Name
		if at != nil {
			named = locatorKey(d.Name, at.params)
		}
		key := s.refusalKey(named)
		if !s.delta {
			if st.denied == nil {
				st.denied = map[uint64]struct{}{}
			}
			st.denied[key] = struct{}{}
			if _, told := before[key]; told {
				continue
			}
		}
		s.refuseAbout(st, d.Name, about, key, why)
	}
	if why != nil && why.limit == "memory" && s.noteUntold(0) {
		return s.cfg.full(why.limit, denied[0].Most, "more names are refused than their clients take note of")
	}
	return nil
}

// noRoom says for each limit of the table what there is no room for.
var noRoom = map[string]string{
	"memory": "there is no room for names without subscribers",
	"views":  "so many sets are asked for",

	"parameter_sets_per_group": "the client's group has so many maps of dynamic parameters",
}
