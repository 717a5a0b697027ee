package metrics

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics has all counters. The zero value is not usable; nil is, and counts nothing.
type Metrics struct {
	// Set once by New. The maps are read-only, so lookups take no lock.
	downstream    map[downstreamKey]*DownstreamType
	opened        map[string]prometheus.Counter // by dialect
	stalled       map[string]prometheus.Counter // by reason
	ended         map[string]prometheus.Counter // by reason
	handshakes    map[string]prometheus.Counter // by reason
	polls         map[string]prometheus.Counter // by result
	evictions     map[string]prometheus.Counter // by reason
	dropped       map[string]prometheus.Counter // from the history, by reason
	lookups       [len(lookups)]prometheus.Counter
	rejections    map[string]prometheus.Counter // by limit
	decisions     map[string]prometheus.Counter // by result
	turnedAway    prometheus.Counter
	calmedDown    prometheus.Counter
	tooManyPings  prometheus.Counter
	adminRefusals map[string]prometheus.Counter // by reason
	configReloads map[string]prometheus.Counter // by result
	configGood    prometheus.Gauge
	configRead    prometheus.Gauge
	tlsReloads    map[string]map[string]prometheus.Counter // by role and result
	tlsRead       *prometheus.GaugeVec
	configInfo    *prometheus.GaugeVec
	snapshots     map[string]prometheus.Counter // by result
	snapshotSaved prometheus.Gauge
	snapshotLeft  *prometheus.GaugeVec
	seeds         map[string]map[string]prometheus.Counter // by role and result
	candidates    *prometheus.CounterVec
	upstream      upstreamVecs
	buildInfo     *prometheus.GaugeVec

	largest   [len(directions)]atomic.Int64 // bytes, by Direction; only grows
	exemplars atomic.Bool
	picture   pictureCollector
}

// New registers the catalogue on reg, which must not have any of it yet. Series whose labels are
// known exist from the start, at zero, so that a rate includes the first event.
func New(reg *prometheus.Registry) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		downstream: newDownstream(f),
		stalled: children(counterVec(f, "weir_downstream_stalled_total",
			"Client streams ended because the client did not read.", "reason"), stallReasons),
		opened: children(counterVec(f, "weir_streams_opened_total",
			"Discovery streams that clients opened, including those that were refused.", "dialect"), dialects),
		ended: children(counterVec(f, "weir_streams_ended_total",
			"Client streams that ended, by why.", "reason"), endReasons),
		handshakes: children(counterVec(f, "weir_handshake_failures_total",
			"TLS handshakes with clients that failed, by why.", "reason"), handshakeReasons),
		polls: children(counterVec(f, "weir_polls_total",
			"Polls over REST-JSON and Fetch methods, by what came of them.", "result"), pollResults),
		evictions: children(counterVec(f, "weir_cache_evictions_total",
			"Retired cache entries dropped, by the bound that was reached.", "reason"), evictionReasons),
		dropped: children(counterVec(f, "weir_history_dropped_total",
			"Changes dropped from the history, by the bound that was reached.", "reason"), historyReasons),
		rejections: children(counterVec(f, "weir_limit_rejections_total",
			"Things refused because of a limit, by the limit's key in the config file.", "limit"), limits),
		decisions: children(counterVec(f, "weir_authz_decisions_total",
			"Decisions of the rules of authorization: streams and subscriptions that were allowed, subscriptions that were denied, "+
				"and streams ended because no rule fits the client.", "result"), decisionResults),
		turnedAway: f.NewCounter(prometheus.CounterOpts{
			Name: "weir_connections_turned_away_total",
			Help: "Connections closed at once because files ran out.",
		}),
		calmedDown: f.NewCounter(prometheus.CounterOpts{
			Name: "weir_connections_calmed_total",
			Help: "Connections closed with ENHANCE_YOUR_CALM: most of their streams were refused or reset before an answer, or most of their frames carried nothing.",
		}),
		tooManyPings: f.NewCounter(prometheus.CounterOpts{
			Name: "weir_connections_too_many_pings_total",
			Help: "Connections that weir closed because the client's keepalive pinged more often than timing.keepalive.min_client_interval allows.",
		}),
		adminRefusals: children(counterVec(f, "weir_admin_refusals_total",
			"Requests to the admin port that were refused: an unknown Host, a page of another web site, no token or certificate, a wrong "+
				"token, too many of those from one peer.", "reason"), adminReasons),
		configReloads: children(counterVec(f, "weir_config_reloads_total",
			"Attempts to load a changed config file.", "result"), results),
		configGood: f.NewGauge(prometheus.GaugeOpts{
			Name: "weir_config_last_reload_successful",
			Help: "1 if the config file was accepted when it was read last, at the start or since; 0 if it was refused, and another text is in force.",
		}),
		configRead: f.NewGauge(prometheus.GaugeOpts{
			Name: "weir_config_last_reload_success_timestamp_seconds",
			Help: "When the config file was last read and accepted, at the start or since.",
		}),
		tlsReloads: byRole(counterVec(f, "weir_tls_reloads_total",
			"Changes of files of certificates, keys, authorities, CRLs and ticket keys; after an error what was there before stays in force.",
			"role", "result"), tlsRoles, results),
		tlsRead: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_tls_last_reload_success_timestamp_seconds",
			Help: "When files of certificates, keys, authorities, CRLs and ticket keys were last read and taken into use, at the start or since; absent without any.",
		}, []string{"role"}),
		configInfo: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_config_info", Help: "Always 1; the label is the SHA-256 of the text of the configuration that is in force.",
		}, []string{"hash"}),
		snapshots: children(counterVec(f, "weir_snapshot_writes_total",
			"Attempts to write what changed to the snapshot on disk.", "result"), results),
		snapshotSaved: f.NewGauge(prometheus.GaugeOpts{
			Name: "weir_snapshot_last_success_timestamp_seconds",
			Help: "When the snapshot on disk last was all there is to keep; 0: never, or there is none.",
		}),
		snapshotLeft: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_snapshot_left_out_resources",
			Help: "Resources that the snapshot on disk leaves out: without cache.snapshot.key_file secrets, and others with a private key in them; and those of groups that cache.snapshot.max_bytes has no room for.",
		}, []string{"reason"}),
		seeds: byRole(counterVec(f, "weir_seed_transfers_total",
			"Whole states that were sent to a sibling, or taken from one at the start.", "role", "result"), seedRoles, seedResults),
		candidates: counterVec(f, "weir_canary_candidates_total",
			"States that were tried on canaries first, by what became of them.", "origin", "result"),
		upstream: newUpstreamVecs(f, reg),
		buildInfo: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_build_info", Help: "Always 1; the labels say which build this is.",
		}, []string{"version", "revision", "goversion"}),
	}
	lookedUp := counterVec(f, "weir_cache_lookups_total",
		"Names and wildcards that clients asked for, by what was there at that moment.", "result")
	for i, result := range lookups {
		m.lookups[i] = lookedUp.WithLabelValues(result)
	}
	for i, direction := range directions {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "weir_largest_message_bytes",
			Help:        "Size of the largest message since the start, to be held against the receivers' limits.",
			ConstLabels: prometheus.Labels{"direction": direction},
		}, func() float64 { return float64(m.largest[i].Load()) })
	}
	m.SnapshotLeftOut(0, 0, 0)
	reg.MustRegister(&m.picture)
	return m
}

// Gauges sets the source of the gauges, which are absent before. picture is called once per scrape,
// on its goroutine; concurrently if there are several scrapes.
func (m *Metrics) Gauges(picture func() Picture) {
	if m != nil {
		m.picture.source.Store(&picture)
	}
}

// BuildInfo states version and revision of this build.
func (m *Metrics) BuildInfo(version, revision string) {
	if m != nil {
		m.buildInfo.Reset()
		m.buildInfo.WithLabelValues(version, revision, runtime.Version()).Set(1)
	}
}

// Stalled counts a client stream that was ended because the client does not read: "send_stall" or
// "lagging".
func (m *Metrics) Stalled(reason string) {
	if m != nil {
		m.stalled[oneOf(stallReasons, reason)].Inc()
	}
}

// StreamOpened counts a client stream that was opened, by its dialect.
func (m *Metrics) StreamOpened(dialect string) {
	if m != nil {
		m.opened[dialectName(dialect)].Inc()
	}
}

// StreamEnded counts the end of a client stream, by reason.
func (m *Metrics) StreamEnded(reason string) {
	if m != nil {
		m.ended[oneOf(endReasons, reason)].Inc()
	}
}

// Poll counts a poll over REST-JSON or a Fetch method, by result.
func (m *Metrics) Poll(result string) {
	if m != nil {
		m.polls[oneOf(pollResults, result)].Inc()
	}
}

// HandshakeFailure counts a failed TLS handshake with a client, by reason.
func (m *Metrics) HandshakeFailure(reason string) {
	if m != nil {
		m.handshakes[oneOf(handshakeReasons, reason)].Inc()
	}
}

// Lookup says what a client finds that subscribes to a name or a wildcard.
type Lookup int

// In this order: an upstream stream vouches for it; one did until it broke; it was retired and the
// origin is down; it is stated not to exist; it is not known yet; it is not known yet for these
// parameters, though variants for others are held (DYN-8).
const (
	Live Lookup = iota
	Stale
	Retired
	Absent
	Miss
	Mismatch
)

// Lookup counts what a client found.
func (m *Metrics) Lookup(result Lookup) {
	if m != nil {
		m.lookups[result].Inc()
	}
}

// Evicted counts n retired entries dropped because of a bound: "entries", "bytes" or "max_stale".
// It takes no lock.
func (m *Metrics) Evicted(reason string, n int) {
	if m != nil {
		m.evictions[oneOf(evictionReasons, reason)].Add(float64(n))
	}
}

// HistoryDropped counts n changes dropped from the history because of a bound: "versions", "bytes",
// "age" or "memory". It takes no lock.
func (m *Metrics) HistoryDropped(reason string, n int) {
	if m != nil && n > 0 {
		m.dropped[oneOf(historyReasons, reason)].Add(float64(n))
	}
}

// LimitRejection counts a refusal, by the config key of the limit.
func (m *Metrics) LimitRejection(limit string) {
	if m != nil {
		m.rejections[oneOf(limits, limit)].Inc()
	}
}

// Decided counts n decisions of the rules of authorization: "allowed", "denied" or "ended". It
// takes no lock.
func (m *Metrics) Decided(result string, n int) {
	if m != nil {
		m.decisions[oneOf(decisionResults, result)].Add(float64(n))
	}
}

// TurnedAway counts a connection closed at once for lack of file descriptors.
func (m *Metrics) TurnedAway() {
	if m != nil {
		m.turnedAway.Inc()
	}
}

// CalmedDown counts a connection closed with ENHANCE_YOUR_CALM.
func (m *Metrics) CalmedDown() {
	if m != nil {
		m.calmedDown.Inc()
	}
}

// TooManyPings counts a connection closed because the client pinged too often (ERR-12).
func (m *Metrics) TooManyPings() {
	if m != nil {
		m.tooManyPings.Inc()
	}
}

// AdminRefusal counts a refused request to the admin port: "host", "origin", "credentials", "token"
// or "slowed".
func (m *Metrics) AdminRefusal(reason string) {
	if m != nil {
		m.adminRefusals[oneOf(adminReasons, reason)].Inc()
	}
}

// ConfigReload counts an attempt to load a changed config file; err != nil: it failed.
func (m *Metrics) ConfigReload(err error) {
	if m != nil {
		m.configReloads[result(err)].Inc()
		m.ConfigLoaded(err)
	}
}

// TLSReload counts a change of TLS files, by their role; err != nil: they cannot be used.
func (m *Metrics) TLSReload(role string, err error) {
	if m != nil {
		m.tlsReloads[oneOf(tlsRoles, role)][result(err)].Inc()
		if err == nil {
			m.TLSLoaded(role)
		}
	}
}

// TLSLoaded records that TLS files of a role were read and taken into use.
func (m *Metrics) TLSLoaded(role string) {
	if m != nil {
		m.tlsRead.WithLabelValues(oneOf(tlsRoles, role)).Set(unixSeconds(time.Now()))
	}
}

// byRole returns the counters of a vector with the labels role and result.
func byRole(vec *prometheus.CounterVec, roles, results []string) map[string]map[string]prometheus.Counter {
	out := make(map[string]map[string]prometheus.Counter, len(roles))
	for _, role := range roles {
		out[role] = map[string]prometheus.Counter{}
		for _, r := range results {
			out[role][r] = vec.WithLabelValues(role, r)
		}
	}
	return out
}

// ConfigLoaded records whether the config file was accepted when it was last read; err != nil: it
// was not.
func (m *Metrics) ConfigLoaded(err error) {
	switch {
	case m == nil:
	case err != nil:
		m.configGood.Set(0)
	default:
		m.configGood.Set(1)
		m.ConfigAccepted(time.Now())
	}
}

// ConfigAccepted records when the text that is in force was read from the config file.
func (m *Metrics) ConfigAccepted(at time.Time) {
	if m != nil {
		m.configRead.Set(unixSeconds(at))
	}
}

// ConfigInfo states the configuration in force, by the hash of its text.
func (m *Metrics) ConfigInfo(hash string) {
	if m != nil {
		m.configInfo.Reset()
		m.configInfo.WithLabelValues(hash).Set(1)
	}
}

// SnapshotWrite counts an attempt to write changes to disk; err != nil: it failed.
func (m *Metrics) SnapshotWrite(err error) {
	if m != nil {
		m.snapshots[result(err)].Inc()
	}
}

// SnapshotLeftOut records how many resources the snapshot leaves out: since it is not encrypted, of
// type Secret, and others with a key in them; and those of groups that it has no room for.
func (m *Metrics) SnapshotLeftOut(secrets, withKeys, noRoom int) {
	if m != nil {
		m.snapshotLeft.WithLabelValues("secret").Set(float64(secrets))
		m.snapshotLeft.WithLabelValues("key").Set(float64(withKeys))
		m.snapshotLeft.WithLabelValues("max_bytes").Set(float64(noRoom))
	}
}

// SeedTransfer counts a whole state that was sent to a sibling, or taken from one.
func (m *Metrics) SeedTransfer(role, result string) {
	if m != nil {
		m.seeds[oneOf(seedRoles, role)][oneOf(seedResults, result)].Inc()
	}
}

// SnapshotSaved records that everything to be kept is on disk, as of a time.
func (m *Metrics) SnapshotSaved(at time.Time) {
	if m != nil {
		m.snapshotSaved.Set(unixSeconds(at))
	}
}

// Direction says where a message was going.
type Direction int

// The four directions.
const (
	FromOrigin Direction = iota
	ToOrigin
	FromClient
	ToClient
)

// Message records the size of a message, encoded and uncompressed, in bytes. The largest is shown.
func (m *Metrics) Message(d Direction, bytes int) {
	if m == nil {
		return
	}
	for largest := &m.largest[d]; ; {
		old := largest.Load()
		if int64(bytes) <= old || largest.CompareAndSwap(old, int64(bytes)) {
			return
		}
	}
}

func counterVec(f promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// children returns the counters of a vector with one label, by its values.
func children(vec *prometheus.CounterVec, values []string) map[string]prometheus.Counter {
	out := make(map[string]prometheus.Counter, len(values))
	for _, v := range values {
		out[v] = vec.WithLabelValues(v)
	}
	return out
}
