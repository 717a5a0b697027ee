package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The counters of an origin that have no other label.
const (
	originAttempts = iota
	originReconnects
	originLoops
	originPings
	originSilent
	originAmbiguity
	originUnfit
	originLoadsLost
	originCounters
)

var originTexts = [originCounters]struct{ name, help string }{
	originAttempts:   {"weir_upstream_attempts_total", "Attempts to open a stream to the origin (with its connection), to poll it, or to load its files."},
	originReconnects: {"weir_upstream_reconnects_total", "Upstream streams reopened after one ended."},
	originLoops:      {"weir_upstream_loops_total", "Upstream streams that a relay refused because they form a loop or pass too many relays."},
	originPings:      {"weir_upstream_too_many_pings_total", "Connections that the origin closed because of too many keepalive pings."},
	originSilent:     {"weir_upstream_silent_total", "Times a connected origin did not answer a subscription in time."},
	originAmbiguity:  {"weir_variant_ambiguity_total", "Times several variants of a name matched one parameter map, an error of the origin."},
	originUnfit:      {"weir_unfit_parameters_total", "Node fields of clients that could not become parameters: lists, structs or invalid numbers."},
	originLoadsLost:  {"weir_load_requests_lost_total", "Requests in clients' load reports that may not have reached the origin (origins[].lrs: aggregate)."},
}

// Those by result or reason, which are closed sets.
const (
	originFailures = iota
	originFileLoads
	originSinkWrites
	originAudits
	originLocatorFaults
	originKinds
)

var originKindTexts = [originKinds]struct {
	name, help, label string
	values            []string
}{
	originFailures:      {"weir_upstream_failures_total", "Attempts that failed, and streams that ended without an answer, by reason.", "reason", failureReasons},
	originFileLoads:     {"weir_file_loads_total", "Attempts to load an origin's files after a change.", "result", results},
	originSinkWrites:    {"weir_sink_writes_total", "Files of sinks written or removed, and failed attempts.", "result", results},
	originAudits:        {"weir_audits_total", "Comparisons of the cache with the origin's answer on a fresh stream, one type at a time.", "result", auditResults},
	originLocatorFaults: {"weir_upstream_locator_faults_total", "Signs that the origin misreads locators: resources without constraints for names requested with parameters (unconstrained), constraints with an empty or (empty_or).", "reason", locatorFaults},
}

// Those by type.
const (
	typeNacks = iota
	typeNackReports
	typeUnrequested
	typeUnmatched
	typeRejected
	typeQuarantines
	typeExpirations
	typeCounters
)

var typeTexts = [typeCounters]struct{ name, help string }{
	typeNacks:       {"weir_upstream_nacks_total", "Responses of the origin that weir rejected."},
	typeNackReports: {"weir_upstream_nack_reports_total", "Requests that reported to the origin what clients rejected (origins[].nack_report)."},
	typeUnrequested: {"weir_upstream_unrequested_total", "Resources received that match no subscription."},
	typeUnmatched:   {"weir_upstream_unmatched_variants_total", "Resources received that match no subscription because their constraints match no client's parameters."},
	typeRejected:    {"weir_upstream_rejected_resources_total", "Resources that weir rejected; the rest of their response may have been accepted."},
	typeQuarantines: {"weir_upstream_quarantines_total", "Times a type was quarantined because the origin ended streams that requested it."},
	typeExpirations: {"weir_ttl_expirations_total", "Resources removed because their TTL had passed."},
}

type upstreamVecs struct {
	plain                [originCounters]*prometheus.CounterVec // by origin
	kinds                [originKinds]*prometheus.CounterVec    // by origin, result or reason
	types                [typeCounters]*prometheus.CounterVec   // by origin, type
	drift                *prometheus.CounterVec                 // by origin, type, kind
	bytes                *prometheus.CounterVec                 // by origin, direction
	answers, propagation *delays                                // by origin, type; of propagation by stage, too
}

func newUpstreamVecs(f promauto.Factory, reg prometheus.Registerer) upstreamVecs {
	v := upstreamVecs{
		bytes: counterVec(f, "weir_upstream_bytes_total", "Bytes of messages to and from the origin, uncompressed; for files, bytes read.", "origin", "direction"),
		drift: counterVec(f, "weir_drift_resources_total", "Resources that differ from the origin's answer on a fresh stream: changed, missing here, or extra.", "origin", "type", "kind"),
		answers: newDelays(reg, "weir_upstream_answer_seconds",
			"Time from a request for something new to the origin's next response of the type; longer than 5 minutes counts as no answer.",
			"origin", "type"),
		propagation: newDelays(reg, "weir_propagation_seconds",
			"Time from receiving a change of the origin to sending it to a client stream, and to its acknowledgement.", "stage", "origin", "type"),
	}
	for i, c := range originTexts {
		v.plain[i] = counterVec(f, c.name, c.help, "origin")
	}
	for i, c := range originKindTexts {
		v.kinds[i] = counterVec(f, c.name, c.help, "origin", c.label)
	}
	for i, c := range typeTexts {
		v.types[i] = counterVec(f, c.name, c.help, "origin", "type")
	}
	return v
}

// Origin counts the events of one origin. Nil counts nothing.
type Origin struct {
	counts [originCounters]prometheus.Counter
	kinds  [originKinds]map[string]prometheus.Counter
	bytes  [len(directions)]prometheus.Counter
	// By short name; complete and read-only.
	types map[string]*OriginType
}

// OriginType counts the events of one type of an origin. Nil counts nothing.
type OriginType struct {
	counts [typeCounters]prometheus.Counter
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
	o := &Origin{types: make(map[string]*OriginType, len(typeNames))}
	for i, vec := range v.plain {
		o.counts[i] = vec.WithLabelValues(name)
	}
	for i, vec := range v.kinds {
		o.kinds[i] = children(vec, originKindTexts[i].values, name)
	}
	for _, d := range []Direction{FromOrigin, ToOrigin} {
		o.bytes[d] = v.bytes.WithLabelValues(name, directions[d])
	}
	for _, t := range typeNames {
		x := &OriginType{
			drift:       children(v.drift, driftKinds, name, t),
			answers:     v.answers.with(name, t),
			propagation: Propagation{v.propagation.with(stages[0], name, t), v.propagation.with(stages[1], name, t), &m.exemplars},
		}
		for i, vec := range v.types {
			x.counts[i] = vec.WithLabelValues(name, t)
		}
		o.types[t] = x
	}
	return o
}

func (o *Origin) add(counter int, n float64) {
	if o != nil && n > 0 {
		o.counts[counter].Add(n)
	}
}

func (o *Origin) addKind(counter int, kind string, n int) {
	if o != nil && n > 0 {
		o.kinds[counter][oneOf(originKindTexts[counter].values, kind)].Add(float64(n))
	}
}

func (t *OriginType) add(counter, n int) {
	if t != nil {
		t.counts[counter].Add(float64(n))
	}
}

// Type returns the counters of a type, by short name or type URL. It takes no lock.
func (o *Origin) Type(typeShort string) *OriginType {
	if o == nil {
		return nil
	}
	return o.types[ShortName(typeShort)]
}

// Attempt counts an attempt to reach the origin.
func (o *Origin) Attempt() { o.add(originAttempts, 1) }

// Failure counts a failed attempt, or a stream that ended without an answer, by reason.
func (o *Origin) Failure(reason string) { o.addKind(originFailures, reason, 1) }

// Bytes counts the bytes of a message FromOrigin or ToOrigin.
func (o *Origin) Bytes(d Direction, n int) {
	if o != nil && o.bytes[d] != nil {
		o.bytes[d].Add(float64(n))
	}
}

// LoadsLost counts requests in load reports that may not have reached the origin.
func (o *Origin) LoadsLost(requests uint64) { o.add(originLoadsLost, float64(requests)) }

// Audited counts a comparison of a type: "clean", "drift" or "postponed".
func (o *Origin) Audited(result string) { o.addKind(originAudits, result, 1) }

// LocatorFaults counts n signs that the origin does not handle locators as specified:
// "unconstrained" or "empty_or".
func (o *Origin) LocatorFaults(reason string, n int) { o.addKind(originLocatorFaults, reason, n) }

// Drifted counts a resource that differs from what the origin sends: "changed", "missing" or
// "extra".
func (t *OriginType) Drifted(kind string) {
	if t != nil {
		t.drift[oneOf(driftKinds, kind)].Inc()
	}
}

// Reconnect counts an upstream stream that was reopened after one had ended.
func (o *Origin) Reconnect() { o.add(originReconnects, 1) }

// Loop counts an upstream stream that was refused because of the relays on its path (RELAY-88).
func (o *Origin) Loop() { o.add(originLoops, 1) }

// TooManyPings counts a connection that the origin closed for our keepalive (ERR-12).
func (o *Origin) TooManyPings() { o.add(originPings, 1) }

// Silent counts a subscription that the connected origin left unanswered for too long.
func (o *Origin) Silent() { o.add(originSilent, 1) }

// VariantAmbiguity counts n choices among variants of a name that match the same subscription
// (DYN-9).
func (o *Origin) VariantAmbiguity(n int) { o.add(originAmbiguity, float64(n)) }

// UnfitParameters counts n fields of clients' nodes that cannot become parameters (RELAY-65).
func (o *Origin) UnfitParameters(n int) { o.add(originUnfit, float64(n)) }

// FileLoad counts an attempt to load the origin's files; err != nil: it failed (FILE-5).
func (o *Origin) FileLoad(err error) { o.addKind(originFileLoads, result(err), 1) }

// SinkWrite counts a file of a sink that was written or removed; err != nil: the attempt failed.
func (o *Origin) SinkWrite(err error) { o.addKind(originSinkWrites, result(err), 1) }

// Nack counts a response that we rejected.
func (t *OriginType) Nack() { t.add(typeNacks, 1) }

// NackReport counts a request that told the origin what clients rejected (RELAY-35).
func (t *OriginType) NackReport() { t.add(typeNackReports, 1) }

// Unrequested counts n resources that match no subscription.
func (t *OriginType) Unrequested(n int) { t.add(typeUnrequested, n) }

// Unmatched counts n of the unrequested resources: variants that match no client's parameters.
func (t *OriginType) Unmatched(n int) { t.add(typeUnmatched, n) }

// Rejected counts n resources that we rejected.
func (t *OriginType) Rejected(n int) { t.add(typeRejected, n) }

// Quarantined counts that the type was put in quarantine (RELAY-92).
func (t *OriginType) Quarantined() { t.add(typeQuarantines, 1) }

// Expired counts n resources removed because their TTL ended.
func (t *OriginType) Expired(n int) { t.add(typeExpirations, n) }

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
