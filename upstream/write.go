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

// silenceAfter is how long a new stream may be unanswered before that is logged.
const silenceAfter = 10 * time.Second

// write sends the table's questions and read's verdicts, until the stream ends or is to be
// replaced. The error is that of Send; io.EOF means that read has the reason. better delivers a
// stream to switch to; nil: there will be none.
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
			s.report(now, x.TypeURL, &x.Applied)
		}
		next, err := s.sendVerdicts(now)
		if err != nil {
			return ending{}, err
		}
		reports, err := s.sendReports(now)
		if err != nil {
			return ending{}, err
		}
		next = sooner(next, reports)
		if s.answered.Swap(false) && !s.leaving && s.lane.table.OnlyType() == "" {
			// A client that was answered asks for what the answer names, or for its next type, and
			// that must not wait (RELAY-24): each wait is one of a start. Long lists of state of
			// the world have a pause of their own, in the table. A type on probation returns to the
			// common lane once it is answered, and the other suspects need the time for their own
			// answers (RELAY-92).
			s.askTo = time.Time{}
		}
		if s.changed && (!now.Before(s.askTo) || s.lane.table.Urgent()) {
			s.changed = false
			why, err := s.ask(now)
			if err != nil || why.reopen && s.leaving || why.unwanted {
				return why, err
			}
			// the other lane has the names that move, and is about to ask for them (RELAY-20)
			if why.reopen {
				s.leaving, s.changed, s.askTo = true, true, now.Add(s.lane.origin.cfg.Batch)
			}
			if first && !s.owed {
				s.lane.origin.pool.owesNothing(s.slot)
			}
			first = false
		}
		if s.changed {
			next = sooner(next, s.askTo)
			s.lane.table.Waiting(now, metrics.WaitBatch, s.askTo, "")
		}
		if err := s.prove(now); err != nil {
			return ending{}, err
		}
		next = sooner(next, s.proveBy)
		s.reportSilence(now)
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

// sooner returns the earlier of two times. The zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ask sends the questions that were not sent yet.
func (s *stream) ask(now time.Time) (ending, error) {
	asks, reopen := s.lane.table.Take(now, s.sotw)
	if !reopen && !s.lane.table.Wanted() {
		return ending{unwanted: true}, nil // the end of the stream unsubscribes
	}
	if len(asks) > 0 {
		s.askTo = now.Add(s.lane.origin.cfg.Batch)
	}
	for i := range asks {
		a := &asks[i]
		if err := s.askFor(now, a); err != nil {
			return ending{}, err
		}
	}
	return ending{reopen: reopen}, nil
}

// askFor sends a question about one type. It locks the lane.
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
	// If a version is presented for every name, the origin may send nothing (DELTA-11). A wildcard
	// is always answered (DELTA-13).
	owed := s.sotw || a.Wildcard || len(a.Subscribe) > len(a.Initial)
	l.mu.Lock()
	t := s.types[a.TypeURL]
	if t == nil {
		t = &typeState{status: s.before[a.TypeURL]}
		s.types[a.TypeURL] = t
	}
	t.ask(a, all, now)
	if t.waits.IsZero() && (a.Wildcard || len(a.Subscribe) > len(a.Initial)) {
		t.waits = now
		l.origin.counts.Type(a.TypeURL).Asked()
	}
	t.deferredAsk = s.sotw && t.taking
	unsaid := t.deferredAsk
	if owed && !s.owed {
		s.owed = true
		if !l.heard && s.candidate == nil && !s.beside() {
			l.silentSince = now
		}
	}
	// If the origin has answered the group before, silence may mean that the names are gone. A
	// wildcard is always answered.
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

// sendSotW sends the names and locators of a type with the last nonce and the last accepted version
// (RELAY-27). A waiting verdict goes with it even if it is held back: without its error, the same
// message would accept what was rejected (TestHeldRefusalGoesWithNewNames). It locks the lane.
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

// sendDelta sends a verdict for every response without one. It locks the lane.
func (s *stream) sendDelta(typeURL string) error {
	s.lane.mu.Lock()
	list := s.types[typeURL].take()
	s.lane.mu.Unlock()
	for _, v := range list {
		if v.nonce == "" { // a response without a nonce cannot be acknowledged
			continue
		}
		m := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: v.nonce, ErrorDetail: detail(v.err)}
		if err := s.send(m); err != nil {
			return err
		}
	}
	return nil
}

// send sends one request. The first of a stream has the node (STREAM-6).
func (s *stream) send(m proto.Message) error {
	o := s.lane.origin
	if !s.node || o.cfg.NodeAlways {
		s.node = true
		introduce(m, s.lane.table.Node())
	}
	size := proto.Size(m)
	o.metrics.Message(metrics.ToOrigin, size)
	s.longest.Store(max(s.longest.Load(), int64(size))) // only write stores it
	return s.wire.SendMsg(m)
}

// prove ends a stream if its server was unreachable, does not answer, and there are others: an open
// stream would keep the lane from those. It locks the lane.
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

// reportSilence logs that the origin has not responded, once until it answers the lane: many
// control planes answer an unknown node with silence (RELAY-62). It locks the lane.
func (s *stream) reportSilence(now time.Time) {
	if s.silence.IsZero() || now.Before(s.silence) {
		return
	}
	s.silence = time.Time{}
	l := s.lane
	l.mu.Lock()
	silent := !l.heard
	l.mu.Unlock()
	if l.table.OnlyType() != "" && l.origin.health.EverHeard() {
		return // silence about one type does not mean that the node is unknown
	}
	if !silent {
		return
	}
	l.origin.counts.Silent()
	if l.loggedSilence {
		return
	}
	l.loggedSilence = true
	node := l.table.Node()
	why := "it may not know the node; see origins[].node and origins[].group_by"
	if l.table.Group().Seen() { // by this process, or the one that wrote the snapshot
		why = "it has answered this node before, so it may be starting, or busy"
	}
	l.log.Warn("the origin has not answered the first request of a stream: "+why,
		zap.String("node_id", node.GetId()), zap.String("node_cluster", node.GetCluster()),
		zap.Duration("silent", silenceAfter), zap.String("address", s.conn.server.address))
}
