package downstream

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

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
	noGlobs     = &reason{code: codes.Unimplemented, text: "the origin of this name speaks state of the world, which has no globs: it needs dialect: delta (COLL-2)"}
	noAuthority = &reason{code: codes.FailedPrecondition, text: "origins[].authorities: no origin is asked for names of this authority"}
	noType      = &reason{code: codes.FailedPrecondition, text: "origins[].types: the origin of this name is not asked for this type"}
	otherType   = &reason{code: codes.InvalidArgument, text: "the type in the xdstp name is not that of the request (NAME-2)"}
	emptyName   = &reason{code: codes.InvalidArgument, text: "the name is empty"}
	noDelta     = &reason{code: codes.Unimplemented, text: "origins[].dialect: the origin speaks state of the world, which has no resources of this type"}
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

// tellsWhole reports whether refusals have to be sent with a whole list. An error alone would
// delete everything else (SOTW-9). The list is sent on account of the refusals, as soon as it can
// be.
func (s *session) tellsWhole(st *streamType) bool {
	return len(st.refusals) > 0 && !s.delta && (st.wildcard || xds.SentWhole(st.typeURL)) && !st.sub.None()
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
	if s.tellsWhole(st) { // they are sent with the next list
		st.sub.Remind()
	}
	return now
}

// refusedHosts are fields of a delta response that state for refused virtual hosts that they do not
// exist (ALIAS-7).
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
