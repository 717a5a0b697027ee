package inspect

import (
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// AskedStatus is the state of an upstream subscription (CSDS-4). Of two the greater is more
// specific.
type AskedStatus uint8

const (
	AskedRequested AskedStatus = iota + 1 // not answered yet
	AskedHeld                             // the origin sent it, and it is in use
	AskedAbsent                           // the origin stated that it does not exist
	AskedTimeout                          // a healthy stream was silent about it for 15 s (ABS-5)
	// The origin stated an error; what was held stays in use (ABS-8).
	AskedError
	// The last statement was rejected; what was held stays in use (RELAY-32).
	AskedRefused
)

// AskedItem describes one resource that an origin is asked for.
type AskedItem struct {
	TypeURL, Name string
	Status        AskedStatus
	Version       string       // the origin's; "" also if it must not be shown (RELAY-76)
	Updated       time.Time    // when the body came; zero: unknown, or there is none
	Body          *xds.Variant // nil also if it must not be kept (RELAY-9) or shown
	// Why is what is wrong, and WrongAt since when, if that is known: the origin's text, or ours if
	// we rejected it.
	Why     string
	WrongAt time.Time
}

// LaneItems is a lane with its subscriptions.
type LaneItems struct {
	Lane *relay.Lane
	// Name is main or side; for a lane of one type, that, a dot and the type's short name.
	Name  string
	types []relay.TypeView
}

// Lanes returns the lanes of the origin's groups that have subscriptions.
func Lanes(o *relay.Origin) (all []LaneItems) {
	for _, g := range o.Groups() {
		at := map[*relay.Lane]int{}
		for v := range g.Types() {
			for _, l := range v.Lanes() {
				if l == nil {
					continue
				}
				n, known := at[l]
				if !known {
					n = len(all)
					at[l], all = n, append(all, LaneItems{Lane: l, Name: laneName(l)})
				}
				all[n].types = append(all[n].types, v)
			}
		}
	}
	return all
}

func laneName(l *relay.Lane) string {
	name := "main"
	if l.Side() {
		name = "side"
	}
	if typeURL := l.OnlyType(); typeURL != "" {
		name += "." + metrics.ShortName(typeURL)
	}
	return name
}

// Items calls f for each resource that the lane subscribes to. A name may occur for several
// parameter maps. One type is locked at a time, and none while f runs.
func (x *LaneItems) Items(f func(AskedItem)) {
	for _, v := range x.types {
		rows := v.Asked(x.Lane)
		for i := range rows {
			f(itemOf(v.TypeURL, &rows[i]))
		}
	}
}

func itemOf(typeURL string, r *relay.Row) AskedItem {
	secret := xds.IsSecret(typeURL)
	it := AskedItem{TypeURL: typeURL, Name: xds.Spelling(r.Name, r.Spelt)}
	it.Status, it.Why, it.WrongAt = wrong(r)
	if secret && it.Why != "" {
		it.Why = "(what is said of a secret is not kept)"
	}
	v := r.Variant
	if v == nil {
		return it
	}
	it.Updated = v.Received()
	if v.Nameless {
		it.Name = ""
	}
	if !secret {
		it.Version = r.ResponseVersion()
		if !v.DoNotCache {
			it.Body = v
		}
	}
	return it
}

// notFound is the gRPC code.
const notFound = 5

// wrong returns the state of a subscription, and what is wrong with it since when.
func wrong(r *relay.Row) (is AskedStatus, why string, at time.Time) {
	switch e := r.Error; {
	case r.Rejected != nil:
		return AskedRefused, r.Rejected.Reason, r.Rejected.At
	case e != nil && r.Variant != nil:
		return AskedError, e.Message, r.ErrorAt
	case r.Variant != nil:
		return AskedHeld, "", at
	case e != nil && r.Timeout:
		return AskedTimeout, e.Message, r.ErrorAt
	case e != nil && e.Code == notFound:
		return AskedAbsent, e.Message, r.ErrorAt
	case e != nil:
		return AskedError, e.Message, r.ErrorAt
	case r.Timeout:
		return AskedTimeout, "", at
	case r.Absent:
		return AskedAbsent, "", at
	}
	return AskedRequested, "", at
}
