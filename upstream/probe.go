package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
)

// probeNames is how many names a log line lists.
const probeNames = 10

// prober is a stream beside the lane's, on which a SotW origin is asked for names that it leaves
// unanswered (RELAY-99). Nothing on it is applied.
type prober struct {
	mu       sync.Mutex // guards what follows
	probe    *relay.Probe
	answered time.Time // zero: not yet
}

// probes asks, on separate streams, for names that the lane's stream leaves unanswered. It ends
// with ctx.
func (l *lane) probes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.table.Suspicion():
		}
		for d := relay.ProbeRound; l.probe(ctx, d); d = min(2*d, relay.LastProbeRound) {
		}
	}
}

// probe runs one stream. It asks for everything once, and then, for at most d, for the suspect
// names one by one. It reports whether there is more to ask. It locks the lane.
func (l *lane) probe(ctx context.Context, d time.Duration) bool {
	p := l.table.Probe(time.Now(), true)
	if p == nil || ctx.Err() != nil {
		return false
	}
	end := time.Now().Add(d)
	l.mu.Lock()
	server := l.server
	l.mu.Unlock()
	slot, _ := l.origin.pool.take(ctx, server)
	if slot == nil {
		return Sleep(ctx, d)
	}
	defer func() { l.origin.pool.release(slot, noMiss) }()
	s, err := openStream(ctx, l, slot)
	if err != nil {
		return Sleep(ctx, d)
	}
	s.prober = &prober{}
	go s.read()
	defer func() { s.cancel(); <-s.done }()
	for before := (*relay.Probe)(nil); p != nil && time.Now().Before(end); p = l.table.Probe(time.Now(), false) {
		answered, ok := s.turn(p, before)
		switch {
		case !ok:
			return Sleep(ctx, time.Until(end))
		case !answered:
			l.unanswered(p)
		case p.Whole:
			return true
		}
		select {
		case <-l.table.Suspicion(): // there are new suspects, so everything is asked again
			return true
		default:
		}
		before = p
	}
	return ctx.Err() == nil
}

// turn sends a question, unless it equals the last one, and waits for the answer. ok is false if
// the stream has ended. It locks the prober.
func (s *stream) turn(p, before *relay.Probe) (answered, ok bool) {
	x := s.prober
	x.mu.Lock()
	x.probe, x.answered = p, time.Time{}
	x.mu.Unlock()
	asked := before != nil && !before.Whole && before.Ask.TypeURL == p.Ask.TypeURL && sameNames(before.Ask.All, p.Ask.All)
	if !asked && s.askFor(time.Now(), &p.Ask) != nil {
		return false, false
	}
	end := time.Now().Add(relay.ProbeTurn)
	ok = s.listen(func() time.Time {
		x.mu.Lock()
		defer x.mu.Unlock()
		if answered = !x.answered.IsZero(); answered {
			return x.answered
		}
		return end
	})
	return answered, ok
}

// unanswered logs names that the origin does not answer.
func (l *lane) unanswered(p *relay.Probe) {
	names, n := p.Unheard(probeNames)
	if n == 0 {
		return
	}
	l.origin.counts.Silent()
	for i := range names {
		names[i] = printable(names[i])
	}
	said := fmt.Sprint(p.Ask.TypeURL, n, names)
	if said == l.asideSaid {
		return // it is asked again and again
	}
	l.asideSaid = said
	why := "the origin does not answer for a name, perhaps because it does not have it: it is asked on a stream apart until it is answered"
	if n > 1 {
		why = "the origin does not answer for a type, perhaps because it does not have all names asked, or has more of them than are asked: " +
			"those that it has not answered are asked on a stream apart until it has them"
	}
	l.origin.rateLimitedLog.warn(time.Now(), "names aside "+p.Ask.TypeURL, why, zap.String("group", l.table.Group().Key()), zap.String("type_url", printable(p.Ask.TypeURL)), zap.Int("unanswered", n), zap.Strings("names", names))
}

// heed records a response. It locks the prober.
func (x *prober) heed(now time.Time, u *xds.Update) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.probe.Heard(u) {
		x.answered = now
	}
}
