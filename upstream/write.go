package upstream

import (
	"fmt"
	"io"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// silenceAfter is how long a new stream may go unanswered before the log says so.
const silenceAfter = 10 * time.Second

// write sends what the table wants asked and what read thinks of the responses, until the stream
// ends or has served its turn. The error is what Send said; io.EOF stands for "the stream is over,
// ask read why". better brings the stream that the lane is to go over to; nil: never.
func (s *stream) write(better <-chan *stream) (ending, error) {
	timer := time.NewTimer(silenceAfter)
	defer timer.Stop()
	s.changed = true
	first := true
	if s.lane.origin.pool.doubtful(s.conn.server) {
		s.proveBy = time.Now().Add(proveWithin)
	}
	for {
		now := time.Now()
		for _, x := range s.lane.table.Later() {
			s.speakOf(now, x.TypeURL, &x.Applied)
		}
		next, err := s.sendVerdicts(now)
		if err != nil {
			return ending{}, err
		}
		if s.answered.Swap(false) && s.short && s.lane.table.OnlyType() == "" {
			// Who is answered asks for the next type: that must not wait (RELAY-24). What is tried
			// apart goes back to the lane of all once it is answered, and the others that are tried
			// need the time for their own answers (RELAY-92).
			s.askTo = time.Time{}
		}
		if s.changed && (!now.Before(s.askTo) || s.lane.table.Urgent()) {
			s.changed = false
			why, err := s.ask(now)
			if err != nil || why.reopen && s.leaving || why.unwanted {
				return why, err
			}
			// the other lane has the names that move, and is about to ask them (RELAY-20)
			if why.reopen {
				s.leaving, s.changed, s.short, s.askTo = true, true, false, now.Add(s.lane.origin.cfg.Batch)
			}
			if first && !s.owed {
				s.lane.origin.pool.owesNothing(s.slot)
			}
			first = false
		}
		if s.changed {
			next = sooner(next, s.askTo)
		}
		if err := s.prove(now); err != nil {
			return ending{}, err
		}
		next = sooner(next, s.proveBy)
		s.speakOfSilence(now)
		if next = sooner(next, s.silence); !next.IsZero() {
			timer.Reset(next.Sub(now))
		}
		select {
		case <-s.done:
			return ending{}, io.EOF
		case <-s.lane.table.Wake():
			s.changed = true
		case <-s.verdicts:
		case next := <-better:
			return ending{next: next}, nil
		case <-timer.C:
		}
	}
}

// sooner is the earlier of two times, of which the zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// shortAsk is how many names a request may have for the response to it to end the collecting early.
// After a longer one, which in SotW lists all names each time, changes are collected for all of
// Batch.
const shortAsk = 100

// ask sends what is wanted and not asked yet.
func (s *stream) ask(now time.Time) (ending, error) {
	asks, reopen := s.lane.table.Take(now, s.sotw)
	if !reopen && !s.lane.table.Wanted() {
		return ending{unwanted: true}, nil // ending the stream says it all
	}
	if len(asks) > 0 {
		s.short, s.askTo = true, now.Add(s.lane.origin.cfg.Batch)
	}
	for i := range asks {
		a := &asks[i]
		s.short = s.short && max(len(a.All), len(a.Subscribe)+len(a.Unsubscribe)) <= shortAsk
		if err := s.askFor(now, a); err != nil {
			return ending{}, err
		}
	}
	return ending{reopen: reopen}, nil
}

// askFor sends what is to be asked of one type. It locks the lane.
func (s *stream) askFor(now time.Time, a *relay.Ask) error {
	l, cfg := s.lane, &s.lane.origin.cfg
	if stripped, send := cfg.strip(a); stripped > 0 {
		l.origin.rateLimitedLog.warn(now, "parameters", "names with dynamic parameters are not asked, as the origin is not declared tp2: this should not be",
			zap.String("type_url", a.TypeURL), zap.Int("names", stripped))
		if !send {
			return nil
		}
	}
	var all list
	if s.sotw {
		all = cfg.sotwList(a)
	}
	// With every version presented, the answer may rightly be none (DELTA-11); a wildcard is always
	// answered (DELTA-13).
	owed := s.sotw || a.Wildcard || len(a.Subscribe) > len(a.Initial)
	l.mu.Lock()
	t := s.types[a.TypeURL]
	if t == nil {
		t = &typeState{status: s.before[a.TypeURL]}
		s.types[a.TypeURL] = t
	}
	t.ask(a, all, now)
	t.unsaid = s.sotw && t.taking
	unsaid := t.unsaid
	if owed && !s.owed {
		s.owed = true
		if !l.heard && s.candidate == nil && !s.beside() {
			l.silentSince = now
		}
	}
	// What an origin says nothing of may be gone, if it has answered the group before. A wildcard
	// is always answered.
	if owed && !s.timed && (a.Wildcard || !l.table.Group().Seen()) && (l.table.OnlyType() == "" || cfg.PerType) {
		s.timed = true
		if !l.heard && s.candidate == nil && s.auditor == nil {
			s.silence = now.Add(silenceAfter)
		}
	}
	l.mu.Unlock()
	if ce := l.log.Check(zap.DebugLevel, "request"); ce != nil {
		ce.Write(zap.String("type_url", a.TypeURL), zap.Bool("wildcard", a.Wildcard), zap.Int("subscribe", len(a.Subscribe)),
			zap.Int("unsubscribe", len(a.Unsubscribe)), zap.Int("initial", len(a.Initial)))
	}
	switch {
	case unsaid:
		return nil
	case s.sotw:
		return s.sendSotW(a.TypeURL)
	}
	for _, m := range cfg.deltaRequests(a) {
		if err := s.send(m); err != nil {
			return err
		}
	}
	return nil
}

// sendVerdicts sends the verdicts that are due, and returns when the next one is. It locks the
// lane.
func (s *stream) sendVerdicts(now time.Time) (next time.Time, err error) {
	var ready []string
	s.lane.mu.Lock()
	for typeURL, t := range s.types {
		due, look := t.due(now)
		if due {
			ready = append(ready, typeURL)
		}
		next = sooner(next, look)
	}
	s.lane.mu.Unlock()
	slices.SortFunc(ready, xds.CompareTypes)
	for _, typeURL := range ready {
		if s.sotw {
			err = s.sendSotW(typeURL)
		} else {
			err = s.sendDelta(typeURL)
		}
		if err != nil {
			return next, err
		}
	}
	return next, nil
}

// sendSotW sends all names and locators of a type, the last nonce and the last accepted version
// (RELAY-27). A verdict that waits goes with it, held or not: without its error the same message
// would accept what was refused. It locks the lane.
func (s *stream) sendSotW(typeURL string) error {
	s.lane.mu.Lock()
	t := s.types[typeURL]
	m := &discoveryv3.DiscoveryRequest{
		TypeUrl: typeURL, ResourceNames: t.all.names, ResourceLocators: t.all.locators, VersionInfo: t.accepted, ResponseNonce: t.nonce,
	}
	for _, v := range t.take() {
		m.ErrorDetail = detail(v.err)
	}
	s.lane.mu.Unlock()
	return s.send(m)
}

// sendDelta answers every response that waits for it. It locks the lane.
func (s *stream) sendDelta(typeURL string) error {
	s.lane.mu.Lock()
	list := s.types[typeURL].take()
	s.lane.mu.Unlock()
	for _, v := range list {
		if v.nonce == "" { // there is no way to answer it
			continue
		}
		m := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: v.nonce, ErrorDetail: detail(v.err)}
		if err := s.send(m); err != nil {
			return err
		}
	}
	return nil
}

// send sends one request, the first of a stream with the node (STREAM-6).
func (s *stream) send(m proto.Message) error {
	o := s.lane.origin
	if !s.node || o.cfg.NodeAlways {
		s.node = true
		introduce(m, s.lane.table.Node())
	}
	size := proto.Size(m)
	o.metrics.Message(metrics.ToOrigin, size)
	s.longest.Store(max(s.longest.Load(), int64(size))) // nobody else writes it
	return s.wire.SendMsg(m)
}

// prove ends a stream to a server that was unreachable and does not answer, where there are others:
// as long as it was open it would keep the lane from them. It locks the lane.
func (s *stream) prove(now time.Time) error {
	if s.proveBy.IsZero() || now.Before(s.proveBy) {
		return nil
	}
	s.proveBy = time.Time{}
	s.lane.mu.Lock()
	heard := s.lane.heard
	s.lane.mu.Unlock()
	switch {
	case heard:
	case s.owed:
		return fmt.Errorf("no response within %v of a server that was unreachable before", proveWithin)
	default:
		s.lane.origin.pool.held(s.conn.server)
	}
	return nil
}

// speakOfSilence logs, once until the lane is answered, that the origin has not responded: many
// control planes answer a node they do not know with silence (RELAY-62). It locks the lane.
func (s *stream) speakOfSilence(now time.Time) {
	if s.silence.IsZero() || now.Before(s.silence) {
		return
	}
	s.silence = time.Time{}
	l := s.lane
	l.mu.Lock()
	silent := !l.heard
	l.mu.Unlock()
	if l.table.OnlyType() != "" && l.origin.health.everHeard() {
		return // the silence of one type says nothing of the node
	}
	if !silent {
		return
	}
	l.origin.counts.Silent()
	if l.saidSilent {
		return
	}
	l.saidSilent = true
	node := l.table.Node()
	l.log.Warn("the origin has not answered the first request of a stream: it may not know the node; "+
		"see origins[].node and origins[].group_by",
		zap.String("node_id", node.GetId()), zap.String("node_cluster", node.GetCluster()),
		zap.Duration("silent", silenceAfter), zap.String("address", s.conn.server.address))
}
