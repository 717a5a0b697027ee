package loads

import (
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
)

// Most bounds the clusters, localities, endpoints, metrics and kinds of drops kept at a time, since
// clients name them. What is beyond is lost; Add returns how many requests. A name counts once more
// for each nameUnit bytes that it has.
const Most = 100_000

// nameUnit is longer than nearly all names, in bytes.
const nameUnit = 512

// Sums has what clients have reported since the last Take.
type Sums struct {
	since    time.Time
	size     int // counted against Most
	clusters map[clusterKey]*cluster
}

// New returns an empty Sums for an interval that begins now.
func New(now time.Time) *Sums { return &Sums{since: now, clusters: map[clusterKey]*cluster{}} }

// Reporter has the last values of one client's gauges.
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

// locality has the sums of a locality. progress and active are gauges.
type locality struct {
	named                                    bool // the report has a locality, perhaps empty
	successes, errors, issued, opened, fails uint64
	cpu, memory, application                 utilization
	progress, active                         uint64
	metrics                                  map[string]*metric // nil: none
	endpoints                                map[string]*endpoint
}

// utilization is a metric without a name.
type utilization struct {
	known bool
	metric
}

// metric is a metric with a name chosen by clients.
type metric struct {
	finished uint64
	value    float64
}

// Leave removes a client's gauges. Its counters stay.
func (s *Sums) Leave(r *Reporter) {
	for _, g := range r.gauges {
		*g.of -= g.n
	}
	r.gauges = r.gauges[:0]
}

// GiveBack adds the result of the last Take, or a part of it, again, because it could not be sent.
// lost is as in Add.
func (s *Sums) GiveBack(report []*endpointv3.ClusterStats) (lost uint64) {
	if len(report) == 0 {
		return 0
	}
	s.since = s.since.Add(-report[0].GetLoadReportInterval().AsDuration())
	wire, err := proto.Marshal(&loadstats.LoadStatsRequest{ClusterStats: report})
	if err != nil {
		return Requests(report) // cannot happen: it was decoded from the wire
	}
	return s.Add(nil, Report{wire})
}

// Requests returns the number of requests, issued or dropped, in a report.
func Requests(report []*endpointv3.ClusterStats) (n uint64) {
	for _, c := range report {
		n += c.GetTotalDroppedRequests()
		for _, l := range c.GetUpstreamLocalityStats() {
			n += l.GetTotalIssuedRequests()
		}
	}
	return n
}

// restart clears all but the gauges.
func (s *Sums) restart() {
	s.size = 0
	for key, c := range s.clusters {
		c.dropped, c.drops = 0, nil
		for key, l := range c.localities {
			l.restart()
			if l.progress == 0 && l.active == 0 && len(l.endpoints) == 0 {
				delete(c.localities, key)
				continue
			}
			s.size += units(key.bytes())
			for _, e := range l.endpoints {
				s.size += units(e.bytes())
			}
		}
		if len(c.localities) == 0 {
			delete(s.clusters, key)
			continue
		}
		s.size += units(key.bytes())
	}
}

// restart changes l in place: clients' gauges point to it.
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

// room counts something with a name of so many bytes towards Most. It returns false if that is
// reached.
func (s *Sums) room(name int) bool {
	if s.size+units(name) > Most {
		return false
	}
	s.size += units(name)
	return true
}

// units returns what a name counts.
func units(name int) int { return 1 + name/nameUnit }

func (k clusterKey) bytes() int  { return len(k.name) + len(k.service) }
func (k localityKey) bytes() int { return len(k.region) + len(k.zone) + len(k.subZone) }
func (e *endpoint) bytes() int   { return 2*len(e.address) + len(e.metadata) } // its key is the address
