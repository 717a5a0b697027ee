package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// model predicts weir's memory and CPU time as a sum over what it holds. It is fitted to samples,
// one axis at a time.
type model struct {
	BaseBytes float64 `json:"base_bytes"`
	// For resources of BodyBytes, after some changes.
	ResourceBytes      float64 `json:"bytes_per_resource_and_group"`
	NamedResourceBytes float64 `json:"bytes_per_named_resource_and_group"`
	BodyBytes          float64 `json:"of_which_body_bytes"`

	GroupBytes  float64 `json:"bytes_per_group"` // without its resources
	ClientBytes float64 `json:"bytes_per_client"`
	NameBytes   float64 `json:"bytes_per_name_and_client"`
	RSSFactor   float64 `json:"rss_per_live"` // largest among samples of at least 128 MiB

	DeltaUS   float64 `json:"cpu_us_per_delta_delivery"`
	NamedUS   float64 `json:"cpu_us_per_named_delivery"`
	SotWUS    float64 `json:"cpu_us_per_sotw_delivery"`
	ConnectUS float64 `json:"cpu_us_per_connect"`
}

// fit takes the slopes between the ends of the axes. The points in between show whether these are
// straight.
func fit(samples []sample) (*model, error) {
	on := map[string][]sample{}
	for i := range samples {
		on[samples[i].Axis] = append(on[samples[i].Axis], samples[i])
	}
	for axis, least := range map[string]int{"clients": 2, "resources": 2, "groups": 2, "names": 3, "sotw": 2} {
		if n := len(on[axis]); n < least {
			return nil, fmt.Errorf("the model needs at least %d points of the axis %s, and there are %d", least, axis, n)
		}
	}
	slope := func(axis string, of func(*sample) float64) float64 {
		first, last := &on[axis][0], &on[axis][len(on[axis])-1]
		return (last.LiveBytes - first.LiveBytes) / (of(last) - of(first))
	}
	last := func(axis string) *sample { return &on[axis][len(on[axis])-1] }
	m := &model{
		BaseBytes: samples[0].BaseBytes, BodyBytes: float64(last("resources").Bytes),
		ResourceBytes: slope("resources", func(s *sample) float64 { return float64(s.Resources) }),
		ClientBytes:   slope("clients", func(s *sample) float64 { return float64(s.Clients) }),
		DeltaUS:       last("clients").DeliveryUS, SotWUS: last("sotw").DeliveryUS,
		// With most names a change has so many deliveries that each is cheap: the last but one is
		// nearer to what meshes have.
		NamedUS:   on["names"][len(on["names"])-2].DeliveryUS,
		ConnectUS: last("clients").ConnectUS,
	}
	var err error
	if m.NamedResourceBytes, m.NameBytes, err = fitNames(on["names"]); err != nil {
		return nil, err
	}
	m.GroupBytes = slope("groups", func(s *sample) float64 { return float64(s.Groups) }) - m.ResourceBytes*float64(last("groups").Resources)
	for i := range samples {
		// In smaller samples, what is in transit to clients that all connect at once is more than
		// what stays.
		if s := &samples[i]; s.LiveBytes >= 128<<20 {
			m.RSSFactor = max(m.RSSFactor, s.RSSBytes/s.LiveBytes)
		}
	}
	return m, nil
}

// fitNames separates the bytes of a resource held by name from those of a client's name. With more
// names clients make weir hold more resources as well, until every one is held. From there on the
// axis needs two points, and one before.
func fitNames(on []sample) (resource, name float64, err error) {
	slices.SortFunc(on, func(a, b sample) int { return a.Names - b.Names })
	between := func(a, b *sample) (resources, names, bytes float64) {
		return b.held() - a.held(), float64(b.Clients*b.Names - a.Clients*a.Names), b.LiveBytes - a.LiveBytes
	}
	r1, n1, b1 := between(&on[0], &on[1])
	r2, n2, b2 := between(&on[1], &on[len(on)-1])
	d := r1*n2 - r2*n1
	if d == 0 {
		return 0, 0, errors.New("the points of the axis names do not tell resources from names")
	}
	return (b1*n2 - b2*n1) / d, (r1*b2 - r2*b1) / d, nil
}

// held returns how many resources weir has of each group at a point: of those subscribed by name,
// the ones with a client.
func (p *point) held() float64 {
	if p.Names == 0 {
		return float64(p.Resources)
	}
	return float64(min(p.Resources, p.Clients*p.Names/p.Groups))
}

// load is what one weir has to hold.
type load struct {
	clients, groups float64
	all, named      float64 // resources of each group that clients subscribe to by `*`, and by name
	// All are also held as they are sent: while clients connect, and in SotW always.
	encoded bool
	bytes   float64 // of a resource
	names   float64 // of a client
}

// around is the approximate size of what surrounds a resource when it is sent: name, version, type
// URL and lengths.
const around = 112

// live returns the predicted memory in use of one weir.
func (m *model) live(l *load) float64 {
	more := l.bytes - m.BodyBytes
	resources := l.all*(m.ResourceBytes+more) + l.named*(m.NamedResourceBytes+more)
	if l.encoded {
		resources += l.all * (l.bytes + around)
	}
	return m.BaseBytes + l.groups*(m.GroupBytes+resources) + l.clients*(m.ClientBytes+l.names*m.NameBytes)
}

// at returns live at a point.
func (m *model) at(p *point) float64 {
	l := load{clients: float64(p.Clients), groups: float64(p.Groups), bytes: float64(p.Bytes), names: float64(p.Names)}
	if p.Names == 0 {
		l.all = p.held()
	} else {
		l.named = p.held()
	}
	return m.live(&l)
}

// region is a deployment to be planned.
type region struct {
	name                       string
	clients, groups            float64
	sotw                       bool    // clusters are subscribed in SotW
	clusters, clusterChanges   float64 // all clients have all clusters; changes per second
	endpoints, endpointChanges float64 // in all
	names                      float64 // of endpoints, of a client
	bytes                      float64 // of a resource
}

// replica is what one weir is given, and the share of it that may be used.
type replica struct{ cores, bytes, streams, full float64 }

// usual leaves 40 % for peaks; the number of streams is the default of limits.streams.
var usual = replica{cores: 4, bytes: 8 << 30, streams: 50_000, full: 0.6}

// plan is what a region needs.
type plan struct {
	deliveries, cores float64 // per second; of all replicas
	replicas          float64 // including a spare one
	bytes             float64 // resident, of each
	lastMS            float64 // from a change of a cluster to the last of a replica's clients
	rejoinS           float64 // until the clients of a lost replica are served by the others
	streams           float64 // at the origin, without a tier in between
	why               string  // what determined the number of replicas
}

// plan returns the least sufficient number of replicas, and one more.
func (m *model) plan(r *region, each *replica) plan {
	wide, us := r.clusterChanges*r.clients, m.DeltaUS
	if r.sotw {
		us = m.SotWUS * r.clusters * r.bytes / (1000 * m.BodyBytes) // measured with 1,000 resources
	}
	narrow := 0.0
	if r.endpoints > 0 {
		narrow = r.endpointChanges * r.clients * r.names / r.endpoints
	}
	p := plan{deliveries: wide + narrow, cores: (wide*us + narrow*m.NamedUS) / 1e6}
	memory := func(n float64) float64 {
		return m.RSSFactor * m.live(&load{
			clients: r.clients / n, groups: r.groups, all: r.clusters, encoded: true, named: r.endpoints, bytes: r.bytes, names: r.names,
		})
	}
	n := 1.0
	p.why = "one is enough"
	for _, need := range []struct {
		least float64
		why   string
	}{{p.cores / (each.cores * each.full), "CPU"}, {r.clients / each.streams, "streams"}} {
		if need.least > n {
			n, p.why = math.Ceil(need.least), need.why
		}
	}
	const most = 1000 // a replica's share of the resources alone may exceed its memory
	for n < most && memory(n) > each.bytes*each.full {
		n, p.why = n+1, "memory"
	}
	p.bytes, p.replicas = memory(n), n+1
	p.lastMS = us * r.clients / n / each.cores / 1000
	p.rejoinS = m.ConnectUS * r.clients / p.replicas / n / each.cores / 1e6
	p.streams = p.replicas * r.groups
	return p
}

// regions are the rows of the table of plans.
func regions() []region {
	mesh := region{clients: 100_000, groups: 20, clusters: 2000, endpoints: 2000, names: 50, bytes: 436}
	row := func(name string, change func(*region)) region { r := mesh; r.name = name; change(&r); return r }
	return []region{
		row("a cluster changes every 10 s, 20 endpoints a second", func(r *region) { r.clusterChanges, r.endpointChanges = 0.1, 20 }),
		row("a cluster changes every second, 200 endpoints a second", func(r *region) { r.clusterChanges, r.endpointChanges = 1, 200 }),
		row("the first, clusters in SotW", func(r *region) { r.clusterChanges, r.endpointChanges, r.sotw = 0.1, 20, true }),
		row("the first, 200 groups", func(r *region) { r.clusterChanges, r.endpointChanges, r.groups = 0.1, 20, 200 }),
		row("the first, 100,000 endpoints, one group, 500 names", func(r *region) {
			r.clusterChanges, r.endpointChanges, r.groups, r.endpoints, r.names = 0.1, 20, 1, 100_000, 500
		}),
	}
}
