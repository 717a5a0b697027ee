package rest

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"
)

// What is counted, and shown in the status, of a lane.

func (l *lane) attempt() {
	l.mu.Lock()
	l.status.Attempts++
	l.mu.Unlock()
}

func (l *lane) turn(open bool, now time.Time) {
	l.mu.Lock()
	l.status.Open, l.status.Since = open, now
	l.mu.Unlock()
}

func (l *lane) asked(now time.Time) {
	l.mu.Lock()
	l.shown.Wildcard, l.shown.Names, l.shown.AskedAt = l.wildcard, len(l.names), now
	l.mu.Unlock()
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
	if a.Unrequested > a.Unmatched && l.origin.mayLogStray(now, l.typeURL) {
		upstream.LogStray(l.log, l.typeURL, a)
	}
	if a.Changed > 0 {
		l.origin.health.updated(now)
	}
}
