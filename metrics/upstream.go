package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type upstreamVecs struct {
	reconnects, loops, pings                  *prometheus.CounterVec // by origin
	silent, ambiguity, unfit                  *prometheus.CounterVec // by origin
	loadsLost                                 *prometheus.CounterVec // by origin
	fileLoads, sinkWrites                     *prometheus.CounterVec // by origin, result
	nacks, nackReports, unrequested, rejected *prometheus.CounterVec // by origin, type
	quarantines, expirations                  *prometheus.CounterVec // by origin, type
	unmatched                                 *prometheus.CounterVec // by origin, type
	audits                                    *prometheus.CounterVec // by origin, result
	locatorFaults                             *prometheus.CounterVec // by origin, reason
	drift                                     *prometheus.CounterVec // by origin, type, kind
	attempts                                  *prometheus.CounterVec // by origin
	failures                                  *prometheus.CounterVec // by origin, reason
	bytes                                     *prometheus.CounterVec // by origin, direction
	answers, propagation                      *delays                // by origin, type; of propagation by stage, too
}

func newUpstreamVecs(f promauto.Factory, reg prometheus.Registerer) upstreamVecs {
	return upstreamVecs{
		attempts: counterVec(f, "weir_upstream_attempts_total",
			"Attempts to open a stream to the origin, with the connection that it needs, to poll it, or to load its files.", "origin"),
		failures: counterVec(f, "weir_upstream_failures_total",
			"Attempts that failed, and streams that ended without an answer, by why.", "origin", "reason"),
		bytes: counterVec(f, "weir_upstream_bytes_total",
			"Bytes of the messages to and from the origin, uncompressed; of its files, what was read.", "origin", "direction"),
		answers: newDelays(reg, "weir_upstream_answer_seconds",
			"Time from a request that asks the origin for something new until its next response of the type; longer than 5 minutes is no answer.",
			"origin", "type"),
		propagation: newDelays(reg, "weir_propagation_seconds",
			"Time from the receipt of an origin's change to its being sent to, and acknowledged by, one client stream.", "stage", "origin", "type"),
		reconnects: counterVec(f, "weir_upstream_reconnects_total",
			"Upstream streams opened again after one ended.", "origin"),
		loadsLost: counterVec(f, "weir_load_requests_lost_total",
			"Requests that clients reported and the origin may not have been told of (origins[].lrs: aggregate).", "origin"),
		loops: counterVec(f, "weir_upstream_loops_total",
			"Upstream streams that a relay refused because of the relays on their way.", "origin"),
		pings: counterVec(f, "weir_upstream_too_many_pings_total",
			"Connections that the origin closed because weir's keepalive pinged it too often.", "origin"),
		silent: counterVec(f, "weir_upstream_silent_total",
			"Times a connected origin left a subscription unanswered for too long.", "origin"),
		ambiguity: counterVec(f, "weir_variant_ambiguity_total",
			"Times a response had one of several variants of a name chosen for a parameter map, an error of the origin.", "origin"),
		unfit: counterVec(f, "weir_unfit_parameters_total",
			"Fields of clients' nodes that could not become parameters, being lists, structs or no numbers.", "origin"),
		fileLoads: counterVec(f, "weir_file_loads_total",
			"Attempts to load an origin's files after a change.", "origin", "result"),
		sinkWrites: counterVec(f, "weir_sink_writes_total",
			"Files of sinks that were written or removed, and attempts that failed.", "origin", "result"),
		nacks: counterVec(f, "weir_upstream_nacks_total",
			"Responses of the origin that weir rejected.", "origin", "type"),
		nackReports: counterVec(f, "weir_upstream_nack_reports_total",
			"Requests that told the origin what clients rejected (origins[].nack_report).", "origin", "type"),
		unrequested: counterVec(f, "weir_upstream_unrequested_total",
			"Resources received that match no subscription.", "origin", "type"),
		unmatched: counterVec(f, "weir_upstream_unmatched_variants_total",
			"Resources received, of those that match no subscription, whose constraints match no client's parameters.", "origin", "type"),
		rejected: counterVec(f, "weir_upstream_rejected_resources_total",
			"Resources that weir rejected, whatever became of the rest of their response.", "origin", "type"),
		expirations: counterVec(f, "weir_ttl_expirations_total",
			"Resources removed because their TTL had passed.", "origin", "type"),
		audits: counterVec(f, "weir_audits_total",
			"Comparisons of what is held of a type with what the origin says on a fresh stream.", "origin", "result"),
		locatorFaults: counterVec(f, "weir_upstream_locator_faults_total",
			"Signs that the origin does not read locators, or not as meant: resources kept from clients with parameters, since it sends what was "+
				"never asked (unheeded), resources without constraints where only parameters were asked (unconstrained), constraints with an "+
				"or of nothing (empty_or).", "origin", "reason"),
		drift: counterVec(f, "weir_drift_resources_total",
			"Resources found to differ from what the origin says on a fresh stream: changed, missing here, or extra.", "origin", "type", "kind"),
		quarantines: counterVec(f, "weir_upstream_quarantines_total",
			"Times a type was set apart because the origin ended streams on which it was asked for it.", "origin", "type"),
	}
}

// Origin counts the events of one origin. Nil counts nothing.
type Origin struct {
	reconnects, loops, pings, silent, ambiguity, unfit prometheus.Counter
	loadsLost                                          prometheus.Counter
	fileLoads, sinkWrites, audits                      map[string]prometheus.Counter // by result
	locatorFaults                                      map[string]prometheus.Counter // by reason
	attempts                                           prometheus.Counter
	failures                                           map[string]prometheus.Counter // by reason
	bytes                                              [len(directions)]prometheus.Counter
	// By short name; complete and read-only.
	types map[string]*OriginType
}

// OriginType counts the events of one type of an origin. Nil counts nothing.
type OriginType struct {
	nacks, nackReports, unrequested, unmatched, rejected, quarantines, expirations prometheus.Counter
	// By kind.
	drift       map[string]prometheus.Counter
	answers     *delay
	propagation Propagation
}

// Origin returns the counters of an origin, by its name in the config file. It looks up labels
// under a lock, so it is called once, when the origin is set up. Two results for one name count
// together.
func (m *Metrics) Origin(name string) *Origin {
	if m == nil {
		return nil
	}
	v := &m.upstream
	o := &Origin{
		reconnects: v.reconnects.WithLabelValues(name),
		loops:      v.loops.WithLabelValues(name),
		pings:      v.pings.WithLabelValues(name),
		silent:     v.silent.WithLabelValues(name),
		ambiguity:  v.ambiguity.WithLabelValues(name),
		unfit:      v.unfit.WithLabelValues(name),
		loadsLost:  v.loadsLost.WithLabelValues(name),
		fileLoads:  make(map[string]prometheus.Counter, len(results)),
		sinkWrites: make(map[string]prometheus.Counter, len(results)),
		audits:     make(map[string]prometheus.Counter, len(auditResults)),
		attempts:   v.attempts.WithLabelValues(name),
		failures:   make(map[string]prometheus.Counter, len(failureReasons)),
		types:      make(map[string]*OriginType, len(typeNames)),
	}
	for _, r := range failureReasons {
		o.failures[r] = v.failures.WithLabelValues(name, r)
	}
	for _, d := range []Direction{FromOrigin, ToOrigin} {
		o.bytes[d] = v.bytes.WithLabelValues(name, directions[d])
	}
	o.locatorFaults = make(map[string]prometheus.Counter, len(locatorFaults))
	for _, r := range locatorFaults {
		o.locatorFaults[r] = v.locatorFaults.WithLabelValues(name, r)
	}
	for _, r := range auditResults {
		o.audits[r] = v.audits.WithLabelValues(name, r)
	}
	for _, r := range results {
		o.fileLoads[r] = v.fileLoads.WithLabelValues(name, r)
		o.sinkWrites[r] = v.sinkWrites.WithLabelValues(name, r)
	}
	for _, t := range typeNames {
		o.types[t] = &OriginType{
			nacks:       v.nacks.WithLabelValues(name, t),
			nackReports: v.nackReports.WithLabelValues(name, t),
			unrequested: v.unrequested.WithLabelValues(name, t),
			unmatched:   v.unmatched.WithLabelValues(name, t),
			rejected:    v.rejected.WithLabelValues(name, t),
			quarantines: v.quarantines.WithLabelValues(name, t),
			expirations: v.expirations.WithLabelValues(name, t),
			drift:       make(map[string]prometheus.Counter, len(driftKinds)),
			answers:     v.answers.with(name, t),
			propagation: Propagation{v.propagation.with(stages[0], name, t), v.propagation.with(stages[1], name, t), &m.exemplars},
		}
		for _, kind := range driftKinds {
			o.types[t].drift[kind] = v.drift.WithLabelValues(name, t, kind)
		}
	}
	return o
}

// Type returns the counters of a type, by short name or type URL. It takes no lock.
func (o *Origin) Type(typeShort string) *OriginType {
	if o == nil {
		return nil
	}
	return o.types[ShortName(typeShort)]
}

// Attempt counts an attempt to reach the origin.
func (o *Origin) Attempt() {
	if o != nil {
		o.attempts.Inc()
	}
}

// Failure counts a failed attempt, or a stream that ended without an answer, by reason.
func (o *Origin) Failure(reason string) {
	if o != nil {
		o.failures[oneOf(failureReasons, reason)].Inc()
	}
}

// Bytes counts the bytes of a message FromOrigin or ToOrigin.
func (o *Origin) Bytes(d Direction, n int) {
	if o != nil && o.bytes[d] != nil {
		o.bytes[d].Add(float64(n))
	}
}

// LoadsLost counts requests in load reports that may not have reached the origin.
func (o *Origin) LoadsLost(requests uint64) {
	if o != nil && requests > 0 {
		o.loadsLost.Add(float64(requests))
	}
}

// Audited counts a comparison of a type: "clean", "drift" or "postponed".
func (o *Origin) Audited(result string) {
	if o != nil {
		o.audits[oneOf(auditResults, result)].Inc()
	}
}

// LocatorFaults counts n signs that the origin does not handle locators as specified: "unheeded",
// "unconstrained" or "empty_or".
func (o *Origin) LocatorFaults(reason string, n int) {
	if o != nil && n > 0 {
		o.locatorFaults[oneOf(locatorFaults, reason)].Add(float64(n))
	}
}

// Drifted counts a resource that differs from what the origin sends: "changed", "missing" or
// "extra".
func (t *OriginType) Drifted(kind string) {
	if t != nil {
		t.drift[oneOf(driftKinds, kind)].Inc()
	}
}

// Reconnect counts an upstream stream that was reopened after one had ended.
func (o *Origin) Reconnect() {
	if o != nil {
		o.reconnects.Inc()
	}
}

// Loop counts an upstream stream that was refused because of the relays on its path (RELAY-88).
func (o *Origin) Loop() {
	if o != nil {
		o.loops.Inc()
	}
}

// TooManyPings counts a connection that the origin closed for our keepalive (ERR-12).
func (o *Origin) TooManyPings() {
	if o != nil {
		o.pings.Inc()
	}
}

// Silent counts a subscription that the connected origin left unanswered for too long.
func (o *Origin) Silent() {
	if o != nil {
		o.silent.Inc()
	}
}

// VariantAmbiguity counts n choices among variants of a name that match the same subscription
// (DYN-9).
func (o *Origin) VariantAmbiguity(n int) {
	if o != nil && n > 0 {
		o.ambiguity.Add(float64(n))
	}
}

// UnfitParameters counts n fields of clients' nodes that cannot become parameters (RELAY-65).
func (o *Origin) UnfitParameters(n int) {
	if o != nil && n > 0 {
		o.unfit.Add(float64(n))
	}
}

// FileLoad counts an attempt to load the origin's files; err != nil: it failed (FILE-5).
func (o *Origin) FileLoad(err error) {
	if o != nil {
		o.fileLoads[result(err)].Inc()
	}
}

// SinkWrite counts a file of a sink that was written or removed; err != nil: the attempt failed.
func (o *Origin) SinkWrite(err error) {
	if o != nil {
		o.sinkWrites[result(err)].Inc()
	}
}

// Nack counts a response that we rejected.
func (t *OriginType) Nack() {
	if t != nil {
		t.nacks.Inc()
	}
}

// NackReport counts a request that told the origin what clients rejected (RELAY-35).
func (t *OriginType) NackReport() {
	if t != nil {
		t.nackReports.Inc()
	}
}

// Unrequested counts n resources that match no subscription.
func (t *OriginType) Unrequested(n int) {
	if t != nil {
		t.unrequested.Add(float64(n))
	}
}

// Unmatched counts n of the unrequested resources: variants that match no client's parameters.
func (t *OriginType) Unmatched(n int) {
	if t != nil {
		t.unmatched.Add(float64(n))
	}
}

// Rejected counts n resources that we rejected.
func (t *OriginType) Rejected(n int) {
	if t != nil {
		t.rejected.Add(float64(n))
	}
}

// Quarantined counts that the type was put in quarantine (RELAY-92).
func (t *OriginType) Quarantined() {
	if t != nil {
		t.quarantines.Inc()
	}
}

// Expired counts n resources removed because their TTL ended.
func (t *OriginType) Expired(n int) {
	if t != nil {
		t.expirations.Add(float64(n))
	}
}

// mostAnswer is how long an answer takes at most. What comes later was sent for another reason:
// many origins leave a request for what they do not have unanswered.
const mostAnswer = 5 * time.Minute

// Asked says that the type is asked of the origin, so that there may be answers.
func (t *OriginType) Asked() {
	if t != nil {
		t.answers.shown.Store(true)
	}
}

// Answered records that a request for something new was answered after d.
func (t *OriginType) Answered(d time.Duration) {
	if t != nil && d <= mostAnswer {
		t.answers.Observe(d.Seconds())
	}
}

// Propagation returns what measures changes of the type on their way to clients. It takes no lock.
// Callers should keep the result, which never changes.
func (t *OriginType) Propagation() *Propagation {
	if t == nil {
		return nil
	}
	t.propagation.show()
	return &t.propagation
}
