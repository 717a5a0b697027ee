package metrics

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
)

// Metrics has all counters. The zero value is not usable; nil is, and counts nothing.
type Metrics struct {
	// Set once by New. The maps are read-only, so lookups take no lock.
	downstream    map[downstreamKey]*DownstreamType
	counts        [counters]map[string]prometheus.Counter // by their label
	lookups       [len(lookups)]prometheus.Counter
	configGood    prometheus.Gauge
	configRead    prometheus.Gauge
	tlsReloads    map[string]map[string]prometheus.Counter // by role and result
	tlsRead       *prometheus.GaugeVec
	configInfo    *prometheus.GaugeVec
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

// The counters with one label, whose values are a closed set, or with none.
const (
	countStalled = iota
	countOpened
	countEnded
	countHandshakes
	countPolls
	countEvictions
	countDropped
	countRejections
	countDecisions
	countAdminRefusals
	countConfigReloads
	countSnapshots
	countTurnedAway
	countCalmedDown
	countPings
	counters
)

var counterTexts = [counters]struct {
	name, help, label string
	values            []string
}{
	countStalled:       {"weir_downstream_stalled_total", "Client streams closed because the client did not read.", "reason", stallReasons},
	countOpened:        {"weir_streams_opened_total", "Discovery streams that clients opened, including those that were refused.", "dialect", dialects},
	countEnded:         {"weir_streams_ended_total", "Client streams that ended, by reason.", "reason", endReasons},
	countHandshakes:    {"weir_handshake_failures_total", "TLS handshakes with clients that failed, by reason.", "reason", handshakeReasons},
	countPolls:         {"weir_polls_total", "Polls over REST-JSON and Fetch methods, by result.", "result", pollResults},
	countEvictions:     {"weir_cache_evictions_total", "Retired cache entries dropped, by the limit that was reached.", "reason", evictionReasons},
	countDropped:       {"weir_history_dropped_total", "Changes dropped from the history, by the limit that was reached.", "reason", historyReasons},
	countRejections:    {"weir_limit_rejections_total", "Connections, streams, requests and names refused because of a limit, by the limit's configuration key.", "limit", limits},
	countDecisions:     {"weir_authz_decisions_total", "Authorization decisions: streams and subscriptions allowed, subscriptions denied, and streams ended because no rule matches the client.", "result", decisionResults},
	countAdminRefusals: {"weir_admin_refusals_total", "Requests refused by the admin port: unknown Host, page of another web site, no token or certificate, wrong token, or too many wrong tokens from one peer.", "reason", adminReasons},
	countConfigReloads: {"weir_config_reloads_total", "Attempts to load a changed configuration file.", "result", results},
	countSnapshots:     {"weir_snapshot_writes_total", "Attempts to write changes to the snapshot on disk.", "result", results},
	countTurnedAway:    {"weir_connections_turned_away_total", "Connections refused because the process was out of file descriptors.", "", nil},
	countCalmedDown:    {"weir_connections_calmed_total", "Connections closed with ENHANCE_YOUR_CALM: most streams were refused or reset before an answer, or most frames were empty.", "", nil},
	countPings:         {"weir_connections_too_many_pings_total", "Connections that weir closed because the client's keepalive pinged more often than timing.keepalive.min_client_interval allows.", "", nil},
}

// New registers the catalogue on reg, which must not have any of it yet. Series whose labels are
// known exist from the start, at zero, so that a rate includes the first event.
func New(reg *prometheus.Registry) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		downstream: newDownstream(f),
		configGood: gaugeVec(f, "weir_config_last_reload_successful",
			"1 if the last read of the configuration file was accepted; 0 if it was rejected and an earlier configuration is in force.",
		).WithLabelValues(),
		configRead: gaugeVec(f, "weir_config_last_reload_success_timestamp_seconds",
			"When a configuration file was last accepted, as a Unix time.").WithLabelValues(),
		tlsReloads: byRole(counterVec(f, "weir_tls_reloads_total",
			"Reloads of certificate, key, authority, CRL and ticket key files; after an error the previous content stays in force.",
			"role", "result"), tlsRoles, results),
		tlsRead: gaugeVec(f, "weir_tls_last_reload_success_timestamp_seconds",
			"When certificate, key, authority, CRL and ticket key files were last loaded, as a Unix time; absent without any.", "role"),
		configInfo: gaugeVec(f, "weir_config_info",
			"Always 1; the label is the SHA-256 of the configuration text in force.", "hash"),
		snapshotSaved: gaugeVec(f, "weir_snapshot_last_success_timestamp_seconds",
			"When the snapshot on disk was last complete, as a Unix time; 0: never, or no snapshot.").WithLabelValues(),
		snapshotLeft: gaugeVec(f, "weir_snapshot_left_out_resources",
			"Resources missing from the snapshot on disk: without cache.snapshot.key_file secrets and resources with a private key; and groups for which cache.snapshot.max_bytes has no room.",
			"reason"),
		seeds: byRole(counterVec(f, "weir_seed_transfers_total",
			"Complete states sent to a sibling, or copied from one at the start.", "role", "result"), seedRoles, seedResults),
		candidates: counterVec(f, "weir_canary_candidates_total",
			"Canary trials that ended, by result.", "origin", "result"),
		upstream:  newUpstreamVecs(f, reg),
		buildInfo: gaugeVec(f, "weir_build_info", "Always 1; the labels describe the build.", "version", "revision", "goversion"),
	}
	for i, c := range counterTexts {
		if c.label == "" {
			m.counts[i] = map[string]prometheus.Counter{other: counterVec(f, c.name, c.help).WithLabelValues()}
			continue
		}
		m.counts[i] = children(counterVec(f, c.name, c.help, c.label), c.values)
	}
	lookedUp := counterVec(f, "weir_cache_lookups_total",
		"Names and wildcards that clients subscribed to, by what the cache had.", "result")
	for i, result := range lookups {
		m.lookups[i] = lookedUp.WithLabelValues(result)
	}
	for i, direction := range directions {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "weir_largest_message_bytes",
			Help:        "Size of the largest message since the start, to compare with the receivers' limits.",
			ConstLabels: prometheus.Labels{"direction": direction},
		}, func() float64 { return float64(m.largest[i].Load()) })
	}
	m.SnapshotLeftOut(0, 0, 0)
	reg.MustRegister(&m.picture)
	return m
}

func (m *Metrics) count(counter int, value string, n int) {
	if m != nil && n > 0 {
		m.counts[counter][oneOf(counterTexts[counter].values, value)].Add(float64(n))
	}
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
func (m *Metrics) Stalled(reason string) { m.count(countStalled, reason, 1) }

// StreamOpened counts a client stream that was opened, by its dialect.
func (m *Metrics) StreamOpened(dialect string) { m.count(countOpened, dialectName(dialect), 1) }

// StreamEnded counts the end of a client stream, by reason.
func (m *Metrics) StreamEnded(reason string) { m.count(countEnded, reason, 1) }

// Poll counts a poll over REST-JSON or a Fetch method, by result.
func (m *Metrics) Poll(result string) { m.count(countPolls, result, 1) }

// HandshakeFailure counts a failed TLS handshake with a client, by reason.
func (m *Metrics) HandshakeFailure(reason string) { m.count(countHandshakes, reason, 1) }

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
func (m *Metrics) Evicted(reason string, n int) { m.count(countEvictions, reason, n) }

// HistoryDropped counts n changes dropped from the history because of a bound: "versions", "bytes",
// "age" or "memory". It takes no lock.
func (m *Metrics) HistoryDropped(reason string, n int) { m.count(countDropped, reason, n) }

// LimitRejection counts a refusal, by the config key of the limit.
func (m *Metrics) LimitRejection(limit string) { m.count(countRejections, limit, 1) }

// Decided counts n decisions of the rules of authorization: "allowed", "denied" or "ended". It
// takes no lock.
func (m *Metrics) Decided(result string, n int) { m.count(countDecisions, result, n) }

// TurnedAway counts a connection closed at once for lack of file descriptors.
func (m *Metrics) TurnedAway() { m.count(countTurnedAway, other, 1) }

// CalmedDown counts a connection closed with ENHANCE_YOUR_CALM.
func (m *Metrics) CalmedDown() { m.count(countCalmedDown, other, 1) }

// TooManyPings counts a connection closed because the client pinged too often (ERR-12).
func (m *Metrics) TooManyPings() { m.count(countPings, other, 1) }

// AdminRefusal counts a refused request to the admin port: "host", "origin", "credentials", "token"
// or "slowed".
func (m *Metrics) AdminRefusal(reason string) { m.count(countAdminRefusals, reason, 1) }

// ConfigReload counts an attempt to load a changed config file; err != nil: it failed.
func (m *Metrics) ConfigReload(err error) {
	m.count(countConfigReloads, result(err), 1)
	m.ConfigLoaded(err)
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
		out[role] = children(vec, results, role)
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
func (m *Metrics) SnapshotWrite(err error) { m.count(countSnapshots, result(err), 1) }

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

func gaugeVec(f promauto.Factory, name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// children returns the counters of a vector by the values of its last label.
func children(vec *prometheus.CounterVec, values []string, labels ...string) map[string]prometheus.Counter {
	out := make(map[string]prometheus.Counter, len(values))
	for _, v := range values {
		out[v] = vec.WithLabelValues(append(slices.Clip(labels), v)...)
	}
	return out
}

// Totals are sums of counters since the start, for the charts of the admin page.
type Totals struct {
	Responses, Bytes, Nacks, Ended float64 // of client streams
}

// Totals adds up what was counted so far. It takes no lock.
func (m *Metrics) Totals() (t Totals) {
	if m == nil {
		return t
	}
	for _, d := range m.downstream {
		t.Responses += valueOf(d.responses)
		t.Bytes += valueOf(d.bytes)
		t.Nacks += valueOf(d.nacks)
	}
	for _, c := range m.counts[countEnded] {
		t.Ended += valueOf(c)
	}
	return t
}

func valueOf(c prometheus.Counter) float64 {
	var out dto.Metric
	if c.Write(&out) != nil {
		return 0 // cannot happen: it is a counter
	}
	return out.GetCounter().GetValue()
}
