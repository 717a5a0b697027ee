package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Picture is the state behind the gauges, as a copy. Types are type URLs or short names; those with
// the same short name are added up.
type Picture struct {
	Origins     []OriginPicture  // one for each configured origin; names are distinct
	Dialects    []DialectPicture // missing ones count as zero
	Connections int              // open connections of clients
	Unsynced    int              // client streams that have not accepted the current state
	Retired     int              // retired names and sets
	// HistoryBytes and HistoryVersions are what is kept of the past.
	HistoryBytes, HistoryVersions int
	Memory                        int64         // bytes used when last measured; 0: not measured
	MemoryLimit                   int64         // 0: none
	Lag                           time.Duration // how long the longest of Unsynced has been so; 0: there are none
	// Ages are how long the unsynced streams have been so, by what they lack.
	Ages map[AgeKey]*Ages
	// Waiting is how many types of client streams, and streams and connections that have no type
	// yet, wait now, by reason. One may wait for several reasons.
	Waiting map[WaitReason]int
	// Certificates are the next ends of validity by role: "listener", "admin" and "origin" for our
	// own, "client_ca" and "origin_ca" for those that we trust; "svid" and "trust_bundle" are both,
	// of the Workload API. Missing roles are not shown.
	Certificates map[string]time.Time
	CRLDue       time.Time // when the first CRL is due for its next update; zero: there is none
}

// AgeKey is what a client stream lacks the newest of: a type of an origin.
type AgeKey struct{ Origin, Type string }

// Ages count client streams by how long they have lacked something: for longer than each of the
// bounds.
type Ages [len(ageBounds)]int

// Age counts a client stream that has lacked something of a type for so long.
func (p *Picture) Age(origin, typeURL string, d time.Duration) {
	key := AgeKey{origin, ShortName(typeURL)}
	if p.Ages == nil {
		p.Ages = map[AgeKey]*Ages{}
	}
	if p.Ages[key] == nil {
		p.Ages[key] = &Ages{}
	}
	for i, bound := range ageBounds {
		if d >= bound.older {
			p.Ages[key][i]++
		}
	}
}

// OriginPicture is the state of one origin, over all its groups.
type OriginPicture struct {
	Origin    string
	Connected bool
	// When it last responded, with whatever; zero: never, shown as 0.
	LastProof  time.Time
	LastUpdate time.Time // when it last changed something; zero: never, shown as 0
	Streams    int       // open upstream streams
	Wanted     int       // streams that the subscriptions need
	Groups     int
	// Differing is the number of groups whose members differ in a node field that the key leaves
	// out, by field.
	Differing map[string]int
	Views     int
	// ParameterSets is the number of distinct parameter maps of clients, counted per group
	// (RELAY-73).
	ParameterSets int
	Stale         int // entries served without an open upstream stream
	Frozen        bool
	Canary        *CanaryPicture // nil: it has no canaries
	RolledBack    int            // groups that an operator keeps at an earlier state
	Types         []TypePicture
}

// TypePicture is the state of one type of an origin.
type TypePicture struct {
	Type          string
	Subscriptions int // names and selectors subscribed upstream
	Entries       int
	Bytes         int64 // of the entries' bodies
	Held          int   // entries whose removal is held back as part of a mass removal
	FrozenChanges int   // entries that the frozen origin has changed or removed
}

// DialectPicture is the state of the client streams of one dialect.
type DialectPicture struct {
	Dialect       string
	Streams       int
	Subscriptions map[string]int // names and selectors of clients, by type
}

// gauge describes one gauge of the picture.
type gauge struct{ *prometheus.Desc }

// pictureGauges are all that newGauge has made.
var pictureGauges []gauge

func newGauge(name, help string, labels ...string) gauge {
	g := gauge{prometheus.NewDesc(name, help, labels, nil)}
	pictureGauges = append(pictureGauges, g)
	return g
}

var (
	upstreamConnected     = newGauge("weir_upstream_connected", "1 if the origin is connected, or answered the last request and no client needs it now; else 0.", "origin")
	upstreamLastProof     = newGauge("weir_upstream_last_proof_timestamp_seconds", "When the origin last responded, as a Unix time; 0: never.", "origin")
	upstreamLastUpdate    = newGauge("weir_upstream_last_update_timestamp_seconds", "When the origin last changed a resource, as a Unix time; 0: never.", "origin")
	upstreamStreams       = newGauge("weir_upstream_streams", "Open streams to the origin.", "origin")
	upstreamWanted        = newGauge("weir_upstream_wanted_streams", "Streams to the origin that clients' subscriptions need; more than weir_upstream_streams if some cannot be opened.", "origin")
	upstreamSubscriptions = newGauge("weir_upstream_subscriptions", "Names and selectors subscribed at the origin.", "origin", "type")
	groups                = newGauge("weir_groups", "Client groups with subscriptions at the origin.", "origin")
	groupsDiffering       = newGauge("weir_groups_differing", "Groups whose clients differ in a node field that control planes often use and that group_by leaves out.", "origin", "field")
	views                 = newGauge("weir_views", "Subscribed sets that clients share.", "origin")
	parameterSets         = newGauge("weir_parameter_sets", "Distinct sets of dynamic parameters of clients, summed over groups.", "origin")
	cacheStale            = newGauge("weir_cache_stale_entries", "Entries served while no stream to the origin confirms them.", "origin")
	cacheRetired          = newGauge("weir_cache_retired_entries", "Names and wildcard sets without subscribers, kept for an outage.")
	historyBytes          = newGauge("weir_history_bytes", "Memory used by the history; its limit is cache.history.bytes.")
	historyVersions       = newGauge("weir_history_versions", "Changes in the history, each with the previous version.")
	memoryUsed            = newGauge("weir_memory_used_bytes", "Memory that the process cannot free; its limit is limits.memory. 0 without a limit.")
	memoryLimit           = newGauge("weir_memory_limit_bytes", "Memory limit in force, configured or derived; 0: none.")
	cacheEntries          = newGauge("weir_cache_entries", "Cached entries.", "origin", "type")
	cacheBytes            = newGauge("weir_cache_bytes", "Bytes of cached resource bodies.", "origin", "type")
	guardHeld             = newGauge("weir_guard_held_removals", "Resources whose removal the guard delays.", "origin", "type")
	upstreamFrozen        = newGauge("weir_upstream_frozen", "1 if clients are kept at what they have of the origin, else 0.", "origin")
	upstreamFrozenChanges = newGauge("weir_upstream_frozen_changes", "Changes and removals that wait because the origin is frozen.", "origin", "type")
	rolledBackGroups      = newGauge("weir_rolled_back_groups", "Groups that an operator keeps at an earlier state.", "origin")
	connections           = newGauge("weir_connections", "Open connections of clients.")
	downstreamStreams     = newGauge("weir_downstream_streams", "Open client streams.", "dialect")
	downstreamSubs        = newGauge("weir_downstream_subscriptions", "Names and selectors subscribed by clients.", "type", "dialect")
	downstreamUnsynced    = newGauge("weir_downstream_unsynced_streams", "Client streams that have not acknowledged the newest resources, or wait for a first answer.")
	downstreamOlder       = newGauge("weir_downstream_unsynced_older_streams", "Client streams out of sync with the type for longer than the label; 0s counts all of them.", "origin", "type", "older")
	waiting               = newGauge("weir_waiting", "Types of client streams that wait, and streams and connections without a type yet, by reason.", "reason")
	downstreamLag         = newGauge("weir_downstream_lag_seconds", "Seconds the most-delayed client stream has been out of sync.")
	crlDue                = newGauge("weir_tls_crl_next_update_timestamp_seconds", "When the earliest CRL is due for its next update, as a Unix time; absent without CRLs.")
	certificateExpiry     = newGauge("weir_tls_certificate_expiry_timestamp_seconds", "When the earliest certificate of a role expires, as a Unix time.", "role")
)

// pictureCollector makes a Picture at every scrape.
type pictureCollector struct {
	source atomic.Pointer[func() Picture] // nil until Metrics.Gauges
}

// Describe implements prometheus.Collector.
func (c *pictureCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range pictureGauges {
		ch <- g.Desc
	}
}

// Collect implements prometheus.Collector.
func (c *pictureCollector) Collect(ch chan<- prometheus.Metric) {
	source := c.source.Load()
	if source == nil {
		return
	}
	s := sample{}
	s.add((*source)())
	for key, value := range s {
		ch <- prometheus.MustNewConstMetric(key.gauge.Desc, prometheus.GaugeValue, value, key.labels()...)
	}
}

// sample adds up values by gauge and labels. Several types share the name "other", and Prometheus
// refuses the whole scrape if a series occurs twice.
type sample map[sampleKey]float64

type sampleKey struct {
	gauge gauge
	n     int // number of labels
	label [3]string
}

func (k *sampleKey) labels() []string { return k.label[:k.n] }

func (s sample) sum(g gauge, value float64, labels ...string) {
	key := sampleKey{gauge: g, n: len(labels)}
	copy(key.label[:], labels)
	s[key] += value
}

func (s sample) add(p Picture) {
	for i := range p.Origins {
		s.addOrigin(&p.Origins[i])
	}
	for _, dialect := range dialects {
		s.sum(downstreamStreams, 0, dialect)
	}
	for _, d := range p.Dialects {
		dialect := dialectName(d.Dialect)
		s.sum(downstreamStreams, float64(d.Streams), dialect)
		for typeURL, n := range d.Subscriptions {
			s.sum(downstreamSubs, float64(n), ShortName(typeURL), dialect)
		}
	}
	for _, r := range WaitReasons() {
		s.sum(waiting, float64(p.Waiting[r]), r.String())
	}
	s.sum(connections, float64(p.Connections))
	s.sum(downstreamUnsynced, float64(p.Unsynced))
	s.sum(cacheRetired, float64(p.Retired))
	s.sum(historyBytes, float64(p.HistoryBytes))
	s.sum(historyVersions, float64(p.HistoryVersions))
	s.sum(downstreamLag, p.Lag.Seconds())
	for key, n := range p.Ages {
		for i, bound := range ageBounds {
			s.sum(downstreamOlder, float64(n[i]), key.Origin, key.Type, bound.label)
		}
	}
	s.sum(memoryUsed, float64(p.Memory))
	s.sum(memoryLimit, float64(p.MemoryLimit))
	if !p.CRLDue.IsZero() {
		s.sum(crlDue, unixSeconds(p.CRLDue))
	}
	for role, ends := range p.Certificates {
		key := sampleKey{gauge: certificateExpiry, n: 1, label: [3]string{oneOf(certRoles, role)}}
		if at, ok := s[key]; !ok || unixSeconds(ends) < at {
			s[key] = unixSeconds(ends)
		}
	}
}

func (s sample) addOrigin(o *OriginPicture) {
	s.sum(upstreamConnected, truth(o.Connected), o.Origin)
	s.sum(upstreamFrozen, truth(o.Frozen), o.Origin)
	s.sum(rolledBackGroups, float64(o.RolledBack), o.Origin)
	s.sum(upstreamLastProof, unixSeconds(o.LastProof), o.Origin)
	s.sum(upstreamLastUpdate, unixSeconds(o.LastUpdate), o.Origin)
	s.sum(upstreamStreams, float64(o.Streams), o.Origin)
	s.sum(upstreamWanted, float64(o.Wanted), o.Origin)
	s.sum(groups, float64(o.Groups), o.Origin)
	for field, n := range o.Differing {
		s.sum(groupsDiffering, float64(n), o.Origin, oneOf(nodeFields, field))
	}
	s.sum(views, float64(o.Views), o.Origin)
	s.sum(parameterSets, float64(o.ParameterSets), o.Origin)
	s.sum(cacheStale, float64(o.Stale), o.Origin)
	if o.Canary != nil {
		s.addCanary(o.Origin, o.Canary)
	}
	for _, t := range o.Types {
		short := ShortName(t.Type)
		s.sum(upstreamSubscriptions, float64(t.Subscriptions), o.Origin, short)
		s.sum(cacheEntries, float64(t.Entries), o.Origin, short)
		s.sum(cacheBytes, float64(t.Bytes), o.Origin, short)
		s.sum(guardHeld, float64(t.Held), o.Origin, short)
		s.sum(upstreamFrozenChanges, float64(t.FrozenChanges), o.Origin, short)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// CanaryPicture is how the canary gates of an origin stand.
type CanaryPicture struct {
	Groups    map[string]int // by phase
	Held      int            // resources that clients lack of what the origin says now
	Undecided int            // groups whose candidate is neither good nor bad
	Since     time.Time      // since when the oldest candidate is tried or stopped; zero: none is
}

var (
	canaryGroups    = newGauge("weir_canary_groups", "Groups with canaries, by phase of their gate.", "origin", "phase")
	canaryHeld      = newGauge("weir_canary_held_resources", "Resources whose newest version canaries or other clients do not have yet.", "origin")
	canaryUndecided = newGauge("weir_canary_undecided_groups", "Groups whose canary trial is over and undecided.", "origin")
	canarySince     = newGauge("weir_canary_candidate_timestamp_seconds", "When the oldest canary trial began or stopped, as a Unix time; 0: none.", "origin")
)

func (s sample) addCanary(origin string, c *CanaryPicture) {
	for _, phase := range canaryPhases {
		s.sum(canaryGroups, 0, origin, phase)
	}
	for phase, n := range c.Groups {
		s.sum(canaryGroups, float64(n), origin, oneOf(canaryPhases, phase))
	}
	s.sum(canaryHeld, float64(c.Held), origin)
	s.sum(canaryUndecided, float64(c.Undecided), origin)
	s.sum(canarySince, unixSeconds(c.Since), origin)
}

// CanaryCandidate counts what has become of a candidate of an origin: begun, promoted, stopped,
// returned or timed_out. An empty result counts nothing, and has the origin's series exist.
func (m *Metrics) CanaryCandidate(origin, result string) {
	switch {
	case m == nil:
	case result == "":
		for _, r := range canaryResults {
			m.candidates.WithLabelValues(origin, r)
		}
	default:
		m.candidates.WithLabelValues(origin, oneOf(canaryResults, result)).Inc()
	}
}
