package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// badParts are the parts of a set's answers on one stream that were refused. A client that holds
// something is not sent the set before these were stated again, or after the longest pause: what
// the set lacks may be what the client holds (RELAY-32). Guarded by the shard's lock.
type badParts struct {
	bad    bool            // the last response was refused in part
	names  map[string]bool // of what was refused and not stated again since
	unread bool            // there was more, or something without a name that could be read
	at     time.Time       // of the last
}

// maxBadParts bounds the names that are kept; beyond it they are as good as unread.
const maxBadParts = 1000

// note applies a response to the refusals: what it states well is no longer missing.
func (t *set) note(u *update) {
	x := &t.badParts
	if t.firm {
		return
	}
	if t.shard.group.config().SotW {
		*x = badParts{} // it lists all there is
	}
	if x.bad = u.Bad; u.Bad {
		x.at = t.shard.now
		x.unread = x.unread || u.Unread
	}
	for _, name := range u.Refused {
		switch {
		case !t.includes(name):
		case len(x.names) >= maxBadParts:
			x.unread = true
		default:
			if x.names == nil {
				x.names = map[string]bool{}
			}
			x.names[name] = true
		}
	}
	if len(x.names) > 0 {
		forgetStated(x.names, u)
	}
}

// forgetStated takes out of what is known by name that of which a response says something else.
func forgetStated[V any](known map[string]V, u *update) {
	for i := range u.Resources {
		if u.Resources[i].Any != nil { // a heartbeat is no other content
			delete(known, u.Resources[i].Name)
		}
	}
	for _, name := range u.Removed {
		delete(known, name)
	}
	for _, r := range u.RemovedVariants {
		delete(known, r.Name)
	}
	for _, e := range u.Errors {
		delete(known, e.Name)
	}
}

// onlyBad reports whether the last response was refused in part, and there is nothing good that a
// client which holds nothing could be sent meanwhile (RELAY-32). What there is does not count if it
// is not the origin's.
func (t *set) onlyBad() bool { return t.badParts.bad && (t.members.len() == 0 || t.revived) }

// bare is the response without what it states.
func (u *update) bare() update {
	return update{Update: xds.Update{TypeURL: u.TypeURL, Bad: u.Bad, Refused: u.Refused, Unread: u.Unread, Heartbeats: u.Heartbeats}}
}

// over is when the set may count as complete with regard to all that was refused, if nothing comes
// until then; not before the time given.
func (x *badParts) over(at time.Time) time.Time {
	if end := x.at.Add(firmMost); (x.unread || len(x.names) > 0) && end.After(at) {
		return end
	}
	return at
}

// Rejection is why a resource of an origin was refused the last time it was stated (ERR-10).
type Rejection struct {
	At     time.Time
	Reason string // "": nothing is known of it
}

// rejections are what was refused on one stream of a lane and not stated well since, by name.
// Guarded by the store's lock.
type rejections struct {
	gen    uint32
	byName map[string]Rejection
}

// note takes up a response that came on a stream.
func (x *rejections) note(u *update, gen uint32, now time.Time) {
	if x.gen != gen { // which states anew what the origin has
		*x = rejections{gen: gen}
	}
	if len(x.byName) > 0 {
		x.heard(u)
	}
	for i, name := range u.Refused {
		if _, known := x.byName[name]; !known && len(x.byName) >= maxBadParts {
			continue
		}
		why := ""
		if i < len(u.Reasons) {
			why = u.Reasons[i]
		}
		if x.byName == nil {
			x.byName = map[string]Rejection{}
		}
		x.byName[name] = Rejection{At: now, Reason: why}
	}
}

// heard forgets what a response speaks of, or leaves out of a list of all there is.
func (x *rejections) heard(u *update) {
	if u.Full && xds.FullState(u.TypeURL) {
		clear(x.byName)
		return
	}
	for _, n := range u.Repeats {
		delete(x.byName, u.repeats[n].body.Name)
	}
	forgetStated(x.byName, u)
}

// rejectionsOn is what stands refused on a lane.
func (k *store) rejectionsOn(i laneIndex) map[string]Rejection {
	if open := k.lane(i).gen.Load(); open != 0 && open != k.rejected[i].gen {
		return nil
	}
	return k.rejected[i].byName
}
