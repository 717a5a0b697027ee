package relay

import (
	"slices"
	"time"
)

// What clients reject is told to the origin, if that is configured (RELAY-35). A report is about
// one response on the present stream of a lane: the one that brought what was rejected.

const (
	// reportAfter is how long the clients are counted that reject a response, after the first. They
	// nearly all do so at once, and a SotW origin ignores a report on another list than its last.
	reportAfter = 500 * time.Millisecond
	// mostReports bounds the responses of one lane that are to be reported, and mostReported the
	// versions that are remembered as reported.
	mostReports, mostReported = 100, 1000
	// mostCounted is how far the clients of one report are counted.
	mostCounted = 10_000
)

// Report is what the clients of a group rejected of one response.
type Report struct {
	TypeURL string
	Came    int64 // when the response came: Apply's time, in nanoseconds of Unix time
	Version string
	// Resource is what the first client rejected; "": it does not say. Message is what it says of
	// it.
	Resource, Message string
	Clients           int // at most mostCounted

	due     time.Time
	clients map[uint64]struct{}
}

// reports are those of one lane. Guarded by its lock.
type reports struct {
	waiting []*Report // by when they are due
	told    []versionOf
}

// versionOf is a version of a type.
type versionOf struct{ typeURL, version string }

// note counts a client. It returns true if the response has not been reported on before.
func (r *reports) note(now time.Time, about Report, client uint64) (isNew bool) {
	i := slices.IndexFunc(r.waiting, func(x *Report) bool { return x.Came == about.Came && x.TypeURL == about.TypeURL })
	switch {
	case i >= 0:
	case len(r.waiting) == mostReports:
		return false
	default:
		i, isNew = len(r.waiting), true
		about.due, about.clients = now.Add(reportAfter), map[uint64]struct{}{}
		r.waiting = append(r.waiting, &about)
	}
	if x := r.waiting[i]; len(x.clients) < mostCounted {
		x.clients[client] = struct{}{}
		x.Clients = len(x.clients)
	}
	return isNew
}

// take removes and returns those that are due, and returns when the next one is; zero: there is
// none.
func (r *reports) take(now time.Time) (due []*Report, next time.Time) {
	n := 0
	for n < len(r.waiting) && !r.waiting[n].due.After(now) {
		n++
	}
	due, r.waiting = r.waiting[:n], r.waiting[n:]
	if len(r.waiting) == 0 {
		r.waiting = nil
		return due, time.Time{}
	}
	return due, r.waiting[0].due
}

// tell notes that a version is reported. False: it was before. A response without a version is one
// of its own.
func (r *reports) tell(typeURL, version string) bool {
	is := versionOf{typeURL, version}
	if version == "" {
		return true
	}
	if slices.Contains(r.told, is) {
		return false
	}
	if len(r.told) == mostReported {
		r.told = slices.Delete(r.told, 0, 1)
	}
	r.told = append(r.told, is)
	return true
}
