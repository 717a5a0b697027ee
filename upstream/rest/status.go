package rest

import (
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream"
)

// Status returns the current state. Connected: the last poll of some type succeeded. Address is the
// URL in use. A lane is Open if its last poll succeeded, and its Attempts are polls.
func (o *Origin) Status() upstream.Status {
	s := upstream.Status{Name: o.cfg.Name, Address: o.servers.inUse()}
	o.health.Fill(&s)
	for _, l := range o.lanes.List() {
		s.Lanes = append(s.Lanes, l.picture())
	}
	s.SortLanes()
	return s
}

// What is counted, and shown in the status, of a lane.

// show changes what is shown. It locks the lane.
func (l *lane) show(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *lane) turn(open bool, now time.Time) {
	l.show(func() { l.status.Open, l.status.Since = open, now })
}

// judged counts the verdict on a response.
func (l *lane) judged(now time.Time, reject *xds.RejectError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown.AnsweredAt = now
	if reject == nil {
		l.shown.Version = l.accepted
		return
	}
	l.shown.NACKs++
	l.shown.Reason = reject.Error()
}

func (l *lane) lastReason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown.Reason
}

func (l *lane) picture() upstream.LaneStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Types = []upstream.TypeStatus{l.shown}
	return s
}

// sayLater counts the results of responses that waited for others of the same moment (ORD-9).
func (l *lane) sayLater() {
	for _, x := range l.table.Later() {
		l.count(time.Now(), &x.Applied)
	}
}

// count counts what applying a response changed in the table.
func (l *lane) count(now time.Time, a *relay.Applied) {
	counts := l.origin.counts.Type(l.typeURL)
	counts.Unrequested(a.Unrequested)
	counts.Unmatched(a.Unmatched)
	if a.Unrequested > a.Unmatched && l.origin.mayLog(now, "stray "+l.typeURL, strayEvery) {
		upstream.LogStray(l.log, l.typeURL, a)
	}
	if a.Changed > 0 {
		l.origin.health.Updated(now)
	}
}
