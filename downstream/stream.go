package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// stream is one client stream. The handler's goroutine reads, and a writer of the pool writes when
// there is something. The session is what they share.
type stream struct {
	// Set once before the writer starts.
	id        uint64
	server    *Server
	listener  *listener
	wire      grpc.ServerStream
	session   *session
	peer      net.Addr // nil: unknown
	conn      *connection
	transport transport
	// compressed: grpc does not say when it has written the compressed form of a response
	// (backlog), and compressing takes time.
	compressed bool

	// Owned by read.
	requests, refusals bucket
	short              bool // names of the last request were refused for lack of memory

	// Owned by the present writer.
	timer    *time.Timer  // of the next deadline; nil: there is none
	target   *timerTarget // the timer's target; nil: there was none yet
	answered bool         // a response was written
	// backlog is an object of its own, since grpc keeps it for as long as a client does not read,
	// even if the stream has ended.
	backlog *backlog

	turn   turn
	behind *stream // the next one in the writer pool's queue; guarded by the pool

	// ended is the first reason that end was given. The context's cause may be the transport's own.
	ended atomic.Pointer[error]
	// writing is when the present write began, in Unix nanoseconds; 0: nothing is being written.
	writing atomic.Int64
}

// transport is the part of a stream's transport that is needed here.
type transport interface{ WriteStatus(*status.Status) error }

// end ends the stream with a status, from any goroutine. The first reason counts. The status goes
// to the transport, which then cancels the stream's context. Nothing else ends a receive or a send
// that is blocked (TestEndCarriesStatus, TestEndsBlockedStream).
func (st *stream) end(reason error) {
	st.ended.CompareAndSwap(nil, &reason)
	// nil is OK. A stream that is gone needs no status.
	_ = st.transport.WriteStatus(status.Convert(reason))
}

// address is the client's address, for people.
func (st *stream) address() string { return peerText(st.peer) }

// peerText is the text of an address; "" if it is unknown.
func peerText(peer net.Addr) string {
	if peer == nil {
		return ""
	}
	return peer.String()
}

// writingSince is when the present write began; false: nothing is being written.
func (st *stream) writingSince() (time.Time, bool) {
	at := st.writing.Load()
	return time.Unix(0, at), at != 0
}

// serve runs one stream of a service on the handler's goroutine, and returns the status that it
// ends with.
func (s *Server) serve(ln *listener, wire grpc.ServerStream, v *xds.Service, delta, v2 bool) error {
	ctx := wire.Context()
	end, ok := grpc.ServerTransportStreamFromContext(ctx).(transport)
	if !ok {
		return status.Error(codes.Internal, "the stream cannot be ended")
	}
	s.cfg.Metrics.StreamOpened(dialectOf(delta))
	if ctx.Err() != nil { // its client has reset it, as hostile clients do by the thousand
		s.cfg.Metrics.StreamEnded(string(endedByClient))
		return status.FromContextError(ctx.Err()).Err()
	}
	now, set := time.Now(), ln.settings.Load()
	via := node.ParseVia(metadata.ValueFromIncomingContext(ctx, node.ViaKey))
	if err := node.CheckVia(via, set.via); err != nil {
		s.cfg.Metrics.StreamEnded(string(endedRefused))
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	st := &stream{
		server: s, listener: ln, wire: wire, transport: end, backlog: &backlog{},
		requests: newBucket(set.limits.RequestsPerSecond), refusals: newBucket(set.limits.NACKsPerSecond),
	}
	st.session = newSession(set, delta, now, relay.CallSubscriber(st.wake))
	st.session.via = via
	if set.tiers {
		st.session.tiersOf(metadata.ValueFromIncomingContext(ctx, node.GroupKey))
	} else if p, ok := peer.FromContext(ctx); ok {
		st.peer, st.conn, st.session.from = p.Addr, connectionOf(p), callerOf(p)
	}
	if st.conn != nil {
		st.session.until = st.conn.life.end(now, rand.Int64N)
		st.session.expire(st.conn.until)
	}
	st.session.only, st.session.v2 = v.TypeURL, v2
	err := s.enter(st)
	if err == nil {
		s.cfg.watchers.tellStream(st, EventOpened, func(e *Event) { e.Dialect, e.TypeURL = st.session.dialect(), v.TypeURL })
		err = st.run(ctx)
		s.leave(st)
	}
	st.account(err)
	return err
}

// run serves an admitted stream once it has its turn, and returns its status.
func (st *stream) run(ctx context.Context) error {
	switch err := st.server.admit(ctx, st); {
	case ctx.Err() != nil:
		return st.reason(status.FromContextError(ctx.Err()).Err())
	case err != nil:
		return err
	}
	for set, newest := (*settings)(nil), st.listener.settings.Load(); newest != set; newest = st.listener.settings.Load() {
		set = newest
		st.session.adopt(set, nil) // Reconfigure may not have found the stream in the list
	}
	if err := st.fits(); err != nil {
		return err
	}
	// Not earlier, since a stream that is refused does not need it.
	st.compressed = st.session.settings().compress(ctx)
	st.wake() // a writer looks at the first deadline
	err := st.read(ctx)
	st.end(err)
	st.turn.end()
	st.alarm(time.Time{})
	if st.target != nil {
		st.target.stream.Store(nil)
	}
	st.session.close(time.Now())
	return err
}

// fits returns why a stream ends whose client has no rule, whatever its node says. Nothing that
// such a client sends is read.
func (st *stream) fits() error {
	set := st.session.settings()
	of := set.allowances(&st.session.from)
	if of == nil || !of.None() {
		return nil
	}
	st.decided(time.Now(), set, unfit(of))
	return errNoRule
}

// read applies requests until the stream ends, and returns its status. It never waits for the
// writer.
func (st *stream) read(ctx context.Context) error {
	in := st.session.newRequest()
	in.ctx, in.intake, in.pace, in.from, in.waits = ctx, st.server.intake, st.server.names, st.session.from.peer, &st.session.reading
	for {
		if err := st.wire.RecvMsg(in); err != nil {
			return st.reason(err)
		}
		names, err := st.server.names.enter(ctx, in, st.session.repeats)
		if err != nil {
			in.done()
			in.leave()
			st.conn.applied(in.wire)
			return st.reason(err)
		}
		now := time.Now()
		err = st.receive(now, in)
		st.server.names.leave(names, st.session.mailbox.NewNames())
		if names.over {
			st.overNames(now, in.set)
		}
		nack := in.content != nil && in.detail != nil
		in.done() // a long one should be garbage while the next is waited for
		in.leave()
		st.conn.applied(in.wire)
		if err != nil {
			return err
		}
		st.pace(ctx, now, in.set, nack)
	}
}

// receive applies what was read.
func (st *stream) receive(now time.Time, in *request) error {
	st.server.cfg.Metrics.Message(metrics.FromClient, in.size)
	if err := st.refused(in); err != nil {
		return err
	}
	err := st.accept(now, in)
	st.server.sizes.request(now, in, st)
	return err
}

// refused is the status that the stream ends with for what was read; nil: it is a request.
func (st *stream) refused(in *request) error {
	switch {
	case errors.Is(in.err, errTooLarge):
		return in.set.over("request_bytes", in.most(), fmt.Sprintf("a request has at least %d bytes", in.size))
	case errors.Is(in.err, errDecoded):
		return in.set.over("request_bytes", in.most(), fmt.Sprintf("decoded, a request needs more than %d times that", decodedShare))
	case errors.Is(in.err, errNotEntered):
		return st.reason(in.err)
	case in.err != nil:
		return undecoded(in.err)
	}
	return nil
}

const (
	// leastPause is the shortest pause that is worth making.
	leastPause = 10 * time.Millisecond
	// shortPause follows a request with names that were refused for lack of memory.
	shortPause = 200 * time.Millisecond
)

// pace waits before the next request is read if requests come too fast. Flow control then slows
// down this client and no other. The stream is not ended for it, since the client would only come
// again with everything it has (TestFastClientIsReadSlowly).
func (st *stream) pace(ctx context.Context, now time.Time, set *settings, nack bool) {
	st.requests.set(set.limits.RequestsPerSecond)
	st.refusals.set(set.limits.NACKsPerSecond)
	wait, key, n := st.requests.take(now), "requests_per_second", set.limits.RequestsPerSecond
	if nack {
		if w := st.refusals.take(now); w > wait {
			wait, key, n = w, "nacks_per_second", set.limits.NACKsPerSecond
		}
	}
	if st.short {
		st.short = false
		st.session.reading.begin(metrics.WaitPace, now, now.Add(max(wait, shortPause)))
		defer st.session.reading.end()
		// Even a request that is refused has to be read, and memory is scarce.
		sleep(ctx, max(wait, shortPause))
		return
	}
	if wait < leastPause {
		return
	}
	set.metrics.LimitRejection(key)
	st.server.limits.note(now, key, limitText(key, n, "the stream is read more slowly"), st)
	st.session.reading.begin(metrics.WaitPace, now, now.Add(wait))
	defer st.session.reading.end()
	sleep(ctx, wait)
}

// overNames logs that a request waited because its client's peer brings too many names.
func (st *stream) overNames(now time.Time, set *settings) {
	const key = "new_names_per_second"
	set.metrics.LimitRejection(key)
	st.server.limits.note(now, key, limitText(key, set.limits.NewNamesPerSecond, "the names of its peer are read more slowly"), st)
}

// accept passes a request to the session, and logs what the session noted.
func (st *stream) accept(now time.Time, in *request) error {
	err := st.session.request(now, in)
	for _, n := range in.notes {
		switch {
		case n.limit != nil:
			st.short = st.short || n.limit.limit == "memory"
			st.server.limits.note(now, n.limit.limit, n.limit.text, st)
		case n.dialect != nil:
			st.server.limits.dialect(now, n.typeURL, n.dialect.text, st)
		case n.decided != nil:
			st.decided(now, in.set, n.decided)
		case n.event != nil:
			in.set.watchers.tell(st, n.event)
		case n.nack.At.IsZero():
			st.server.cfg.Log.Info("a client changed its node during a stream; ignored",
				zap.Uint64("stream", st.id), zap.String("client", st.session.client()), st.session.from.field())
		default:
			st.server.refused(&n, st, st.session)
		}
	}
	return err
}

// reason is the status of a stream on which reading failed.
func (st *stream) reason(err error) error {
	if errors.Is(err, io.EOF) {
		// The client has half-closed the stream. It cannot ACK any more, so it is not served either
		// (STREAM-8).
		return nil
	}
	if ours := st.ended.Load(); ours != nil && *ours != nil {
		return *ours
	}
	if status.Code(err) == codes.ResourceExhausted {
		return st.session.settings().over("request_bytes", st.session.settings().limits.RequestBytes, status.Convert(err).Message())
	}
	return err
}

// wake makes a writer look at the stream: there are changes, the reader applied something, or a
// deadline has passed.
func (st *stream) wake() { st.server.writerPool.wake(st) }

// look writes what there is to write, and sets the alarm for the next deadline. Only writers call
// it, and only they send (STREAM-11).
func (st *stream) look(w *writer) {
	if st.ended.Load() != nil {
		return
	}
	st.session.writer = w
	defer func() { st.session.writer = nil }()
	now := time.Now()
	batch := st.session.take(now)
	if w.notes != nil {
		st.tell(w.notes)
		w.notes = nil
	}
	err := st.session.tick(now)
	if err == nil {
		err = st.send(now, batch, w)
	}
	if err != nil {
		st.end(err) // no effect if that end made the write fail
		return
	}
	st.alarm(st.session.next())
}

// tell tells of events that the session noted.
func (st *stream) tell(notes []note) {
	for _, n := range notes {
		if n.event != nil {
			st.server.cfg.watchers.tell(st, n.event)
		}
	}
}

// alarm wakes the stream at the next deadline. The usual stream has no deadline, and so no timer.
func (st *stream) alarm(next time.Time) {
	switch {
	case !next.IsZero() && st.timer == nil:
		if st.target == nil {
			st.target = &timerTarget{}
			st.target.stream.Store(st)
		}
		st.timer = time.AfterFunc(time.Until(next), st.target.wake)
	case !next.IsZero():
		st.timer.Reset(time.Until(next))
	case st.timer != nil:
		st.timer.Stop()
		st.timer = nil
	}
}

// timerTarget stands between a timer and its stream. The runtime keeps a stopped timer for a while,
// and would keep the stream and its connection with it (TestEndedStreamIsGarbage).
type timerTarget struct{ stream atomic.Pointer[stream] }

func (t *timerTarget) wake() {
	if st := t.stream.Load(); st != nil {
		st.wake()
	}
}

// send writes responses, one after another.
func (st *stream) send(now time.Time, batch []*response, w *writer) error {
	if len(batch) == 0 {
		return nil
	}
	m := st.server.cfg.Metrics
	if isLong(batch) {
		w.leave()
		st.server.longSends.enter(st.wire.Context(), st.backlog)
		defer st.backlog.sent()
		now = time.Now()
	}
	for i, r := range batch {
		if i > 0 {
			now = time.Now()
		}
		st.server.sizes.response(now, r, st)
		if st.compressed || !st.backlog.admits() {
			w.leave()
		}
		r.out = append(r.out, st.backlog.add(r.size))
		st.writing.Store(now.UnixNano())
		err := st.wire.SendMsg(r)
		st.writing.Store(0)
		if err != nil {
			letGo(batch)
			return err
		}
		if !st.answered && st.conn != nil {
			st.conn.churn.answer()
		}
		st.answered = true
		m.Message(metrics.ToClient, r.size)
	}
	st.session.wrote(time.Now(), batch)
	return nil
}
