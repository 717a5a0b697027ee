package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
)

// read handles responses until the stream ends. It never waits for write: its verdicts are state,
// signalled by a one-slot channel.
func (s *stream) read() {
	defer close(s.done)
	defer s.cancel() // unblocks write, if the origin does not read
	for {
		var raw []byte
		if err := s.wire.RecvMsg(&raw); err != nil {
			if s.beside() {
				s.err = err
				return
			}
			s.looped = status.Code(err) == codes.FailedPrecondition && node.LoopRefused(status.Convert(err).Message())
			s.broken, s.err = s.explain(err)
			s.refused = (refused(err) || s.broken) && !s.looped
			return
		}
		if s.candidate != nil {
			if err := s.await(raw); err != nil {
				s.err, s.broken = BadResponse(err), true
				return
			}
		}
		leave, err := s.enter(raw)
		if err != nil {
			s.err = err
			return
		}
		s.conn.arrivals.Message() // not before: while it waits, no set must count as complete
		if s.beside() {
			s.err = s.hear(time.Now(), raw)
			if leave(); s.err != nil {
				return
			}
			continue
		}
		err = s.receive(time.Now(), raw)
		if leave(); err != nil {
			// A type with nothing but undecodable responses disturbs the others as much as a
			// refused one.
			s.err, s.broken, s.refused = BadResponse(err), true, true
			return
		}
	}
}

// refused reports whether what was asked may be the reason for the end of a stream. It is not if
// the server restarts, drains or limits, if the connection was lost, or if we ended it (RELAY-92).
func refused(err error) bool {
	switch status.Code(err) {
	case codes.OK, codes.Canceled, codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
		return tooLarge(err) // which is not a rate limit
	}
	return !errors.Is(err, io.EOF)
}

// tooLarge reports whether grpc, here or at the origin, refused a message for its length.
func tooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}

// explain adds advice for the operator to the error that ended a stream. broken: the origin sent a
// message that we cannot read.
func (s *stream) explain(err error) (broken bool, _ error) {
	if errors.Is(err, io.EOF) {
		return false, errEnded
	}
	if !tooLarge(err) {
		return false, err
	}
	l := s.lane
	if !strings.Contains(err.Error(), strconv.Itoa(l.origin.cfg.MaxMessage)) {
		// The same text from the origin: our request is too long for it.
		l.origin.rateLimitedLog.warn(time.Now(), "request too large", "the origin takes no request of this length, and ended the stream: raise its limit "+
			"(max receive message size); in delta long requests are cut, in SotW they cannot be",
			zap.Int64("bytes", s.longest.Load()), zap.String("group", l.table.Group().Key()), zap.Error(err))
		return false, fmt.Errorf("a request of %d bytes is longer than the origin takes: %w", s.longest.Load(), err)
	}
	l.origin.metrics.LimitRejection("max_message")
	l.origin.rateLimitedLog.warn(time.Now(), "too large", "a response is longer than max_message, and ended the stream",
		zap.Int("max_message", l.origin.cfg.MaxMessage), zap.String("group", l.table.Group().Key()), zap.Error(err))
	return true, BadResponse(fmt.Errorf("a response is longer than max_message: %w", err))
}

// receive handles one response. An error ends the stream.
func (s *stream) receive(now time.Time, raw []byte) error {
	l, o := s.lane, s.lane.origin
	o.metrics.Message(metrics.FromOrigin, len(raw))
	r, u, reject, err := s.parse(raw, l.table)
	if err != nil {
		o.rateLimitedLog.warn(now, "garbage", "a response does not decode, and ended the stream",
			zap.String("group", l.table.Group().Key()), zap.Int("bytes", len(raw)), zap.Error(err))
		return err
	}
	o.rateLimitedLog.large(now, r.TypeURL, len(raw), o.cfg.MaxMessage, l.table.Group().Key())
	s.alive(now)
	s.answered.Store(true) // the verdict wakes write
	l.table.Identify(r.Identifier)
	asked := s.taking(r.TypeURL, true)
	var applied relay.Applied
	if asked {
		if applied, asked = l.table.Apply(now, &u); !asked {
			s.taking(r.TypeURL, false)
			s.wake()
		}
	}
	reject = reject.And(applied.Over)
	if ce := o.log.Check(zap.DebugLevel, "response"); ce != nil {
		ce.Write(zap.String("group", l.table.Group().Key()), zap.String("type_url", r.TypeURL), zap.Int("resources", r.Len()),
			shownVersion(r), zap.String("nonce", r.Nonce), zap.Bool("accepted", reject == nil))
	}
	counts := o.counts.Type(r.TypeURL)
	if !asked { // RELAY-33
		counts.Unrequested(r.Len())
		o.rateLimitedLog.warn(now, "unasked", "a response of a type that was not asked for is ignored",
			zap.String("group", l.table.Group().Key()), zap.String("type_url", printable(r.TypeURL)))
		return nil
	}
	s.reportEmptyOr(now, r.TypeURL, &u)
	s.report(now, r.TypeURL, &applied)
	if reject != nil {
		counts.Nack()
		counts.Rejected(len(reject.Reasons))
		if reject.Limit != "" {
			o.metrics.LimitRejection(reject.Limit)
		}
		o.rateLimitedLog.warn(now, "nack "+metrics.ShortName(r.TypeURL), "rejected a response",
			zap.String("group", l.table.Group().Key()), zap.String("type_url", r.TypeURL), zap.String("nonce", r.Nonce),
			shownVersion(r), zap.Error(reject))
	}
	return s.judge(now, r, &u, reject)
}

// taking marks that the table is applying a response of a type, until judge. It reports whether the
// type was asked for. It locks the lane.
func (s *stream) taking(typeURL string, is bool) (asked bool) {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	t := s.types[typeURL]
	if t != nil {
		t.taking = is
	}
	return t != nil
}

// wake signals write that there are verdicts.
func (s *stream) wake() {
	select {
	case s.verdicts <- struct{}{}:
	default:
	}
}

// report counts and logs what applying a response changed in the table.
func (s *stream) report(now time.Time, typeURL string, a *relay.Applied) {
	o, counts := s.lane.origin, s.lane.origin.counts.Type(typeURL)
	counts.Unrequested(a.Unrequested)
	counts.Unmatched(a.Unmatched)
	if a.Unrequested > 0 && a.Unrequested > a.Unmatched {
		if _, ok := o.rateLimitedLog.may(now, "stray "+metrics.ShortName(typeURL), strayEvery); ok {
			LogStray(s.lane.log, typeURL, a)
		}
	}
	if a.Released {
		s.lane.log.Info("the type left quarantine: the origin answers it", zap.String("type_url", printable(typeURL)))
	}
	if a.Changed > 0 {
		o.health.Updated(now)
	}
	if a.Untimed > 0 && !s.sotw && !o.loggedTTL.Swap(true) { // TTL-14
		s.lane.log.Warn("resources that had a TTL came back without one: if TTLs matter and the origin sends them in state of the world only, set dialect: sotw", zap.String("type_url", typeURL), zap.Int("resources", a.Untimed))
	}
	s.reportLocators(now, typeURL, a)
}

// shownVersion returns a response's version for the log, except for secrets, where it may be a
// digest of them (RELAY-76).
func shownVersion(r *xds.Response) zap.Field {
	if xds.IsSecret(r.TypeURL) {
		return zap.Skip()
	}
	return zap.String("version", r.Version)
}

// parse decodes a response. held is the table's lane that it is for; nil: it is for none. A panic
// over a peer's bytes ends that peer's stream and nothing else (ERR-11). Unlike in Apply, no lock
// is held.
func (s *stream) parse(raw []byte, held *relay.Lane) (r *xds.Response, u xds.Update, reject *xds.RejectError, err error) {
	defer Survive(&err)
	if r, err = xds.ParseWithin(raw, !s.sotw, s.lane.origin.table.Elements()); err != nil {
		return nil, u, nil, err
	}
	if held != nil {
		held.FindRepeats(r)
	}
	u, reject = s.lane.origin.cfg.NameFields.Accept(r, s.lane.origin.cfg.NameBytes)
	return r, u, reject, nil
}

// Survive makes a panic over a peer's bytes an error. It is deferred.
func Survive(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("reading a response panicked: %v", p)
	}
}

// alive notes that the origin responds. It locks the lane.
func (s *stream) alive(now time.Time) {
	l, o := s.lane, s.lane.origin
	s.responses++
	first := s.responses == 1
	o.health.Heard(now, l, first)
	if !first {
		return
	}
	l.mu.Lock()
	l.heard, l.silentSince = true, time.Time{}
	l.mu.Unlock()
	o.pool.proved(s.slot)
	o.rateLimitedLog.answered(now, s.conn.server.address)
}

// judge records the verdict for write to send. It locks the lane.
func (s *stream) judge(now time.Time, r *xds.Response, u *xds.Update, reject *xds.RejectError) error {
	l := s.lane
	v := verdict{nonce: r.Nonce}
	if reject != nil {
		v.err = reject
	}
	waiting := 0
	l.mu.Lock()
	t := s.types[r.TypeURL]
	if waited, is := t.answeredAt(now); is {
		l.origin.counts.Type(r.TypeURL).Answered(waited)
	}
	t.judge(now, v, r.Version, s.sotw)
	if reject == nil && l.table.Reporting() {
		t.accept(now, r.Nonce)
	}
	ignored := t.resumed(now, u, s.bringsParent(r.TypeURL))
	for _, t := range s.types {
		waiting += len(t.pending)
	}
	l.mu.Unlock()
	s.wake()
	if ignored > 0 && !l.origin.loggedResume.Swap(true) {
		l.log.Warn("the origin resends resources that weir already has: if it ignores initial_resource_versions, set resume: none",
			zap.String("type_url", r.TypeURL), zap.Int("presented", ignored))
	}
	if waiting > maxPending {
		return fmt.Errorf("more than %d responses wait for the origin to read our answers", maxPending)
	}
	return nil
}

// printable returns a peer's text, quoted and bounded.
func printable(s string) string { return printableTo(200, s) }

func printableTo(most int, s string) string {
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

// intakeParts is how finely is counted what is taken in at a time. A response that has not so many
// elements does not count, so the usual one costs nothing.
const intakeParts = 64

// intake admits the long responses of an origin a few at a time: together they have as many
// elements as one may have. Each costs some hundreds of bytes until it is accepted or refused, and
// an origin may answer thousands of groups at one instant (TestIntake). Safe for concurrent use.
type intake struct{ parts *semaphore.Weighted }

func newIntake() *intake { return &intake{semaphore.NewWeighted(intakeParts)} }

// enter waits until a response with so many elements, of at most so many, may be taken in, or until
// ctx ends. leave is called once it was.
func (i *intake) enter(ctx context.Context, elements, most int) (leave func(), err error) {
	parts := min(int64(elements)*intakeParts/int64(max(most, 1)), intakeParts)
	if elements > most || parts == 0 { // what has too many is not taken in at all
		return func() {}, nil
	}
	if err := i.parts.Acquire(ctx, parts); err != nil {
		return nil, err
	}
	return func() { i.parts.Release(parts) }, nil
}

// enter is that of the origin's intake, for a response of the stream.
func (s *stream) enter(raw []byte) (leave func(), err error) {
	o := s.lane.origin
	most := o.table.Elements()
	if len(raw) < most/intakeParts*leastElement {
		return func() {}, nil // it cannot have so many
	}
	return o.intake.enter(s.wire.Context(), xds.CountElements(raw, !s.sotw), most)
}

// leastElement is how many bytes an element has at least, on the wire.
const leastElement = 2

// reportEmptyOr counts and logs that a response has constraints that match nothing.
func (s *stream) reportEmptyOr(now time.Time, typeURL string, u *xds.Update) {
	s.lane.origin.counts.LocatorFaults("empty_or", u.EmptyOr)
	if u.EmptyOr > 0 {
		s.lane.origin.rateLimitedLog.warn(now, "empty or", "constraints have an empty or, so they match nothing",
			zap.String("type_url", printable(typeURL)), zap.Int("constraints", u.EmptyOr))
	}
}

// reportLocators counts and logs what a response shows of how the origin handles locators and
// constraints.
func (s *stream) reportLocators(now time.Time, typeURL string, a *relay.Applied) {
	o := s.lane.origin
	o.counts.LocatorFaults("unconstrained", a.Unconstrained)
	about := zap.String("type_url", printable(typeURL))
	if a.Unconstrained > 0 {
		o.rateLimitedLog.warn(now, "unconstrained", "the origin answers locators with plain names, without constraints: its resources are used for all parameters; "+
			"if it does not know locators, it is declared tp2 by mistake; see origins[].tp2",
			about, zap.Int("resources", a.Unconstrained), zap.String("group", s.lane.table.Group().Key()))
	}
	if len(a.Overlaps) > 0 {
		names := make([]string, len(a.Overlaps))
		for i, x := range a.Overlaps {
			names[i] = printable(x.Name) + " for " + printable(x.Params)
		}
		o.rateLimitedLog.warn(now, "overlaps", "origin error: several variants of one name match the same parameters; using the one with the most parameters in its constraints",
			about, zap.Int("resources", a.Overlapping), zap.Strings("names", names))
	}
}
