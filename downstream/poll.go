package downstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A poll is a request that is answered once, over REST-JSON or by a unary Fetch method (REST,
// TRANS-11).
//
// It is handled as a SotW stream of one type that ends with its first answer. It is counted,
// limited and reported as a stream, and has a session. The differences are: the answer waits until
// everything is known that was asked for, since nothing follows it (REST-5, REST-6). It has no
// nonce (REST-4). A client that has the version already is told that alone (REST-3). With rest_hold
// an unchanged answer waits for a change (REST-7).

// poll is one such request.
type poll struct {
	// Set once.
	stream *stream
	in     *request
	full   bool // an answer is made even if the client has it already

	waited time.Duration // until it was admitted

	end context.CancelCauseFunc // of the request's context
}

// polled is the answer to a poll.
type polled struct {
	response  *response // nil: the client has it, and it was not made
	version   string
	unchanged bool // the client has it
	standIn   bool // it has fallback content
}

// The results of polls: a closed set (metrics.Poll).
const (
	pollChanged    = "changed"
	pollUnchanged  = "unchanged"
	pollUnresolved = "unresolved"    // nothing is known yet (REST-6)
	pollUnreadable = "no_descriptor" // something to send has no JSON here (REST-9)
	pollRefused    = "refused"       // for any other reason
)

// pollEnd lets another goroutine end a poll, as a transport ends a stream.
type pollEnd struct{ cancel context.CancelCauseFunc }

// WriteStatus is part of transport.
func (e pollEnd) WriteStatus(why *status.Status) error {
	e.cancel(why.Err())
	return nil
}

// errUnresolved means that the client has to poll again.
var errUnresolved = errors.New("unresolved")

// unresolved is the answer to a poll if not everything is known in time (REST-6).
type unresolved struct{ text string }

// Error is part of error.
func (e *unresolved) Error() string { return e.text }

// Is lets callers find it by errUnresolved.
func (*unresolved) Is(target error) bool { return target == errUnresolved }

// GRPCStatus is the status that the client is sent.
func (e *unresolved) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.text) }

// newPoll makes a poll, which ends with ctx. The caller calls done.
func (s *Server) newPoll(
	ctx context.Context, ln *listener, v *xds.Service, v2 bool, from caller, conn *connection, peer net.Addr,
) (context.Context, *poll) {
	set, now := ln.settings.Load(), time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	st := &stream{server: s, listener: ln, transport: pollEnd{cancel}, peer: peer, conn: conn}
	st.session = newPollSession(set, &s.pollers, v.TypeURL, v2, from, now)
	in := st.session.newRequest()
	in.ctx, in.intake, in.from, in.waits = ctx, s.intake, from.peer, &st.session.reading
	return ctx, &poll{stream: st, in: in, end: cancel}
}

func newPollSession(set *settings, all *pollers, typeURL string, v2 bool, from caller, now time.Time) *session {
	session := newSession(set, false, now, relay.NewSubscriber())
	session.only, session.v2, session.from, session.poll, session.prefix = typeURL, v2, from, true, ""
	session.pollers = all
	return session
}

// serve admits the poll, reads it, answers it and passes the answer to write. All of that counts as
// one stream. read fills p.in.
func (p *poll) serve(ctx context.Context, via []string, read func() error, write func(polled) error) (err error) {
	s := p.stream.server
	defer p.end(nil)
	defer func() { p.account(err) }()
	defer func() { p.tell(err) }()
	if err := node.CheckVia(via, p.stream.session.cfg.via); err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	p.stream.session.via = via
	if err := s.enter(p.stream); err != nil {
		return err
	}
	defer s.leave(p.stream)
	if err := p.admit(ctx); err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	p.in.leaveTurn() // the answer may take long
	defer p.done()
	answer, err := p.answer(ctx)
	if err != nil {
		return err
	}
	if answer.unchanged {
		s.cfg.Metrics.Poll(pollUnchanged)
	} else {
		s.cfg.Metrics.Poll(pollChanged)
	}
	return write(answer)
}

// done releases what was read.
func (p *poll) done() {
	p.in.done()
	p.in.leave()
}

// admit judges what does not depend on the request, before it is read: what the client may have by
// its identity, and how many streams are new. It may wait for a turn.
func (p *poll) admit(ctx context.Context) error {
	st, begun := p.stream, time.Now()
	if err := p.barred(); err != nil {
		return err
	}
	wait, cancel := context.WithDeadline(ctx, begun.Add(st.session.cfg.timing.RESTWait))
	defer cancel()
	err := st.server.admit(wait, st)
	p.waited = time.Since(begun)
	switch {
	case ctx.Err() != nil:
		return p.reason(ctx)
	case wait.Err() != nil:
		return p.late()
	}
	return err
}

// barred is why the client may have nothing of the type, whatever its node says; nil: it may.
func (p *poll) barred() error {
	session := p.stream.session
	if err := p.stream.fits(); err != nil || !session.barred(session.only) {
		return err
	}
	why := cmp.Or(session.secretless(session.settings().origin), noSecrets)
	return status.Error(why.code, why.text)
}

// answer waits for the answer.
func (p *poll) answer(ctx context.Context) (polled, error) {
	st, now := p.stream, time.Now()
	timing := &st.session.cfg.timing
	wait, cancel := context.WithDeadline(ctx, now.Add(timing.RESTWait-p.waited))
	defer cancel()
	// Reconfigure may not have found the poll in the list.
	st.session.adopt(st.listener.settings.Load(), nil)
	session := st.session
	defer func() { session.close(time.Now()) }()
	names, err := st.server.names.enter(wait, p.in, session.repeats)
	switch {
	case ctx.Err() != nil:
		return polled{}, p.reason(ctx)
	case err != nil:
		return polled{}, p.late()
	}
	err = p.ask(session)
	st.server.names.leave(names, session.mailbox.NewNames())
	if err != nil {
		return polled{}, err
	}
	if names.over {
		st.overNames(time.Now(), session.cfg)
	}
	session.reading.begin(metrics.WaitRESTWait, now, now.Add(timing.RESTWait-p.waited))
	defer session.reading.end()
	answer, err := p.resolve(wait, session)
	switch {
	case ctx.Err() != nil:
		return polled{}, p.reason(ctx)
	case err != nil || !answer.unchanged || timing.RESTHold == 0:
		return answer, err
	}
	session.reading.begin(metrics.WaitRESTHold, now, now.Add(timing.RESTHold))
	hold, cancel := context.WithDeadline(ctx, now.Add(timing.RESTHold))
	defer cancel()
	for {
		select {
		case <-hold.Done():
			if ctx.Err() != nil && st.ended.Load() == nil {
				return polled{}, p.reason(ctx)
			}
			return answer, nil // unchanged, also for a client that has to go to another replica
		case <-session.mailbox.Wake():
		}
		session.skip() // what comes from now on wakes the poll again
		if next, err := p.again(hold); err == nil && !next.unchanged {
			return next, nil
		}
	}
}

// again asks again for a client whose unchanged answer is held. It needs a new session, as a
// session is sent only the changes after its first answer.
func (p *poll) again(ctx context.Context) (polled, error) {
	first := p.stream.session
	session := newPollSession(first.settings(), first.pollers, first.only, first.v2, first.from, time.Now())
	session.via = first.via
	defer func() { session.close(time.Now()) }()
	ctx, cancel := context.WithTimeout(ctx, session.cfg.timing.RESTWait)
	defer cancel()
	if err := p.ask(session); err != nil {
		return polled{}, err
	}
	return p.resolve(ctx, session)
}

// resolve waits until everything is known that the request asked for, but not longer than ctx.
func (p *poll) resolve(ctx context.Context, session *session) (polled, error) {
	for {
		answer, err := session.resolve(time.Now(), p.in.content, p.full, ctx.Err() != nil)
		switch {
		case err != nil || answer.version != "":
			return answer, err
		case ctx.Err() != nil:
			return polled{}, p.late()
		}
		select {
		case <-session.mailbox.Wake():
		case <-ctx.Done():
		}
	}
}

// ask passes the request to a session.
func (p *poll) ask(session *session) error {
	in, st := p.in, p.stream
	if len(in.locators) > 0 {
		return errLocators
	}
	in.typeURL = nil // the path or the method names the type (REST-2)
	now := time.Now()
	err := session.request(now, in)
	for _, n := range in.notes {
		switch {
		case n.limit != nil:
			st.server.limits.note(now, n.limit.limit, n.limit.text, st)
		case n.decided != nil && session == st.session: // else the client has not asked again
			st.decided(now, in.set, n.decided)
		case n.event != nil && session == st.session:
			in.set.watchers.tell(st, n.event)
		}
	}
	if session == st.session {
		st.server.sizes.request(now, in, st)
		p.refusal(now)
	}
	return err
}

// refusal records that the client refuses the answer that it was sent last (REST-5).
func (p *poll) refusal(now time.Time) {
	s, session, detail := p.stream.server, p.stream.session, p.in.detail
	if detail == nil || session.group == nil {
		return
	}
	nack, _ := nackOf(now, session.only, s.pollers.version(session.poller()), detail)
	s.cfg.Metrics.Downstream(session.only, session.dialect()).Nack()
	n := note{typeURL: session.only, nack: nack, origin: session.settings().origin.Name(), group: session.group.Key()}
	s.refused(&n, p.stream, session)
}

// tell tells those who watch the client of the answer, and that the poll has ended. It locks the
// session.
func (p *poll) tell(err error) {
	st := p.stream
	st.session.mu.Lock()
	notes := st.session.notes
	st.session.notes = nil
	st.session.mu.Unlock()
	st.tell(notes)
	st.ends(time.Now(), endedBy(err), err)
}

// late is the answer if not everything is known in time.
func (p *poll) late() error {
	set := p.stream.session.settings()
	return &unresolved{fmt.Sprintf("what was asked for of %s is not known within timing.rest_wait %v: come again",
		p.stream.session.only, set.timing.RESTWait)}
}

// reason is why the poll's context has ended.
func (p *poll) reason(ctx context.Context) error {
	if ours := p.stream.ended.Load(); ours != nil && *ours != nil {
		return *ours
	}
	return status.FromContextError(ctx.Err()).Err()
}

// account counts and logs a poll that was not answered.
func (p *poll) account(err error) {
	s, m := p.stream.server, p.stream.server.cfg.Metrics
	limit, undescribed := (*limitError)(nil), (*undescribedError)(nil)
	switch {
	case err == nil:
		return
	case errors.Is(err, errUnresolved):
		m.Poll(pollUnresolved)
		return
	case errors.As(err, &undescribed):
		m.Poll(pollUnreadable)
	default:
		m.Poll(pollRefused)
	}
	if errors.As(err, &limit) {
		s.limits.note(time.Now(), limit.key, limit.text, p.stream)
	}
	s.sayEnded(p.stream, time.Now(), endedBy(err), err)
}

// sent records what was written.
func (p *poll) sent(answer polled, bytes int) {
	if answer.response != nil {
		p.stream.server.cfg.Metrics.Message(metrics.ToClient, bytes)
		p.stream.session.wrote(time.Now(), []*response{answer.response})
	}
	p.stream.server.pollers.told(p.stream.session.poller(), answer)
}

// maxPollers bounds the number of pollers that are remembered.
const maxPollers = 10_000

// pollers are the versions that pollers were sent.
type pollers struct {
	mu sync.Mutex // guards what follows; a leaf
	// last is the version sent last, for people: a poll that refuses it does not name it. It is
	// emptied when it is full.
	last     map[poller]string
	standIns map[standIn]struct{} // versions of fallback content; emptied when it is full
}

// poller identifies a poller: by node, origin and type.
type poller struct {
	origin  *relay.Origin
	typeURL string
	node    string
}

// standIn is a version of fallback content. A client that presents it holds nothing newer than
// that.
type standIn struct {
	origin           *relay.Origin
	typeURL, version string
}

// poller is the poller whose poll the session is. It locks the session.
func (s *session) poller() poller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return poller{s.cfg.origin, s.only, clip(s.nodeID, maxNodeShown)}
}

// ofStandIn reports whether the version that a poll presents is of fallback content. It locks the
// table of pollers.
func (s *session) ofStandIn(version string) (is bool) {
	if p := s.pollers; p != nil && version != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, is = p.standIns[standIn{s.cfg.origin, s.only, version}]
	}
	return is
}

// told records the version that a poller was sent. It locks the table of pollers.
func (p *pollers) told(who poller, answer polled) {
	version := clip(answer.version, maxNodeShown)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || len(p.last) >= maxPollers && p.last[who] == "" {
		p.last = map[poller]string{}
	}
	p.last[who] = version
	if !answer.standIn {
		return
	}
	if p.standIns == nil || len(p.standIns) >= maxPollers {
		p.standIns = map[standIn]struct{}{}
	}
	p.standIns[standIn{who.origin, who.typeURL, version}] = struct{}{}
}

// version is the version that a poller was sent last. It locks the table of pollers.
func (p *pollers) version(who poller) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[who]
}
