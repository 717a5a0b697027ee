package loads

import (
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
)

// Most is how many clusters, localities, endpoints, metrics and kinds of drops are kept at a time.
// They are named by clients, so there has to be an end: what is beyond is lost, and Add says how
// much.
const Most = 100_000

// Sums is what clients have reported since it was taken last.
type Sums struct {
	since    time.Time
	size     int // of what Most bounds
	clusters map[clusterKey]*cluster
}

// New is a Sums of a time that begins now.
func New(now time.Time) *Sums { return &Sums{since: now, clusters: map[clusterKey]*cluster{}} }

// Reporter is one client: what it said last of how things stand.
type Reporter struct{ gauges []gauge }

// gauge is a client's share of a number.
type gauge struct {
	of *uint64
	n  uint64
}

type clusterKey struct{ name, service string }

type cluster struct {
	localities map[localityKey]*locality
	dropped    uint64
	drops      map[string]*uint64 // by category; nil: none
}

type localityKey struct {
	region, zone, subZone string
	priority              uint32
}

// locality is what is known of a locality, and of how things stand there: progress and active.
type locality struct {
	named                                    bool // the report has a locality, if only an empty one
	successes, errors, issued, opened, fails uint64
	cpu, memory, application                 utilization
	progress, active                         uint64
	metrics                                  map[string]*metric // nil: none
	endpoints                                map[string]*endpoint
}

// utilization is a metric that has no name.
type utilization struct {
	known bool
	metric
}

// metric is one that clients name.
type metric struct {
	finished uint64
	value    float64
}

// Leave ends what a client said of how things stand. What it counted stays.
func (s *Sums) Leave(r *Reporter) {
	for _, g := range r.gauges {
		*g.of -= g.n
	}
	r.gauges = r.gauges[:0]
}

// GiveBack takes in again what was taken last, or a part of it, as it could not be told. Lost is as
// in Add.
func (s *Sums) GiveBack(report []*endpointv3.ClusterStats) (lost uint64) {
	if len(report) == 0 {
		return 0
	}
	s.since = s.since.Add(-report[0].GetLoadReportInterval().AsDuration())
	wire, err := proto.Marshal(&loadstats.LoadStatsRequest{ClusterStats: report})
	if err != nil {
		return Requests(report) // our own bug: it is of what came over the wire
	}
	return s.Add(nil, Report{wire})
}

// Requests is how many requests a report tells of that were issued or dropped.
func Requests(report []*endpointv3.ClusterStats) (n uint64) {
	for _, c := range report {
		n += c.GetTotalDroppedRequests()
		for _, l := range c.GetUpstreamLocalityStats() {
			n += l.GetTotalIssuedRequests()
		}
	}
	return n
}

// restart keeps nothing but how things stand.
func (s *Sums) restart() {
	s.size = 0
	for key, c := range s.clusters {
		c.dropped, c.drops = 0, nil
		for key, l := range c.localities {
			l.restart()
			if s.size += len(l.endpoints); l.progress == 0 && l.active == 0 && len(l.endpoints) == 0 {
				delete(c.localities, key)
			}
		}
		if s.size += len(c.localities); len(c.localities) == 0 {
			delete(s.clusters, key)
		}
	}
	s.size += len(s.clusters)
}

// restart changes l in place: clients hold what they said of how things stand by its address.
func (l *locality) restart() {
	l.successes, l.errors, l.issued, l.opened, l.fails = 0, 0, 0, 0, 0
	l.cpu, l.memory, l.application = utilization{}, utilization{}, utilization{}
	l.metrics = nil
	for key, e := range l.endpoints {
		e.successes, e.errors, e.issued, e.metrics = 0, 0, 0, nil
		if e.progress == 0 {
			delete(l.endpoints, key)
		}
	}
}

// room takes a place of Most, if there is one.
func (s *Sums) room() bool {
	if s.size >= Most {
		return false
	}
	s.size++
	return true
}
