package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

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
	for i := range u.Resources {
		if u.Resources[i].Any != nil { // a heartbeat is no other content
			delete(x.byName, u.Resources[i].Name)
		}
	}
	for _, n := range u.Repeats {
		delete(x.byName, u.repeats[n].body.Name)
	}
	for _, name := range u.Removed {
		delete(x.byName, name)
	}
	for _, r := range u.RemovedVariants {
		delete(x.byName, r.Name)
	}
	for _, e := range u.Errors {
		delete(x.byName, e.Name)
	}
}

// rejectionsOn is what stands refused on a lane.
func (k *store) rejectionsOn(i laneIndex) map[string]Rejection {
	if open := k.lane(i).gen.Load(); open != 0 && open != k.rejected[i].gen {
		return nil
	}
	return k.rejected[i].byName
}
