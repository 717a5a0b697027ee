package metrics

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

const (
	clusterURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	junk       = "type.googleapis.com/vendor.Thing/prod-eu-1"
)

// catalogue is the contract: names, and the labels of each in Prometheus's order.
var catalogue = map[string]string{
	"weir_upstream_connected":                     "origin",
	"weir_upstream_last_proof_timestamp_seconds":  "origin",
	"weir_upstream_last_update_timestamp_seconds": "origin",
	"weir_upstream_reconnects_total":              "origin",
	"weir_upstream_nacks_total":                   "origin,type",
	"weir_upstream_nack_reports_total":            "origin,type",
	"weir_upstream_subscriptions":                 "origin,type",
	"weir_upstream_streams":                       "origin",
	"weir_upstream_wanted_streams":                "origin",
	"weir_downstream_unsynced_older_streams":      "older,origin,type",
	"weir_upstream_unrequested_total":             "origin,type",
	"weir_upstream_unmatched_variants_total":      "origin,type",
	"weir_upstream_rejected_resources_total":      "origin,type",
	"weir_upstream_quarantines_total":             "origin,type",
	"weir_canary_candidates_total":                "origin,result",
	"weir_canary_groups":                          "origin,phase",
	"weir_canary_held_resources":                  "origin",
	"weir_canary_undecided_groups":                "origin",
	"weir_canary_candidate_timestamp_seconds":     "origin",
	"weir_audits_total":                           "origin,result",
	"weir_drift_resources_total":                  "kind,origin,type",
	"weir_ttl_expirations_total":                  "origin,type",
	"weir_upstream_silent_total":                  "origin",
	"weir_connections":                            "",
	"weir_downstream_streams":                     "dialect",
	"weir_downstream_subscriptions":               "dialect,type",
	"weir_downstream_responses_total":             "dialect,type",
	"weir_downstream_bytes_total":                 "dialect,type",
	"weir_downstream_nacks_total":                 "dialect,type",
	"weir_downstream_unsynced_streams":            "",
	"weir_downstream_lag_seconds":                 "",
	"weir_downstream_stalled_total":               "reason",
	"weir_streams_ended_total":                    "reason",
	"weir_handshake_failures_total":               "reason",
	"weir_polls_total":                            "result",
	"weir_propagation_seconds":                    "origin,stage,type",
	"weir_streams_opened_total":                   "dialect",
	"weir_upstream_answer_seconds":                "origin,type",
	"weir_upstream_attempts_total":                "origin",
	"weir_upstream_failures_total":                "origin,reason",
	"weir_upstream_bytes_total":                   "direction,origin",

	"weir_config_last_reload_success_timestamp_seconds": "",
	"weir_tls_last_reload_success_timestamp_seconds":    "role",
	"weir_groups":                                   "origin",
	"weir_groups_differing":                         "field,origin",
	"weir_views":                                    "origin",
	"weir_parameter_sets":                           "origin",
	"weir_cache_entries":                            "origin,type",
	"weir_cache_bytes":                              "origin,type",
	"weir_cache_stale_entries":                      "origin",
	"weir_guard_held_removals":                      "origin,type",
	"weir_upstream_frozen":                          "origin",
	"weir_rolled_back_groups":                       "origin",
	"weir_upstream_frozen_changes":                  "origin,type",
	"weir_cache_evictions_total":                    "reason",
	"weir_upstream_loops_total":                     "origin",
	"weir_upstream_too_many_pings_total":            "origin",
	"weir_cache_lookups_total":                      "result",
	"weir_cache_retired_entries":                    "",
	"weir_waiting":                                  "reason",
	"weir_history_bytes":                            "",
	"weir_history_versions":                         "",
	"weir_history_dropped_total":                    "reason",
	"weir_limit_rejections_total":                   "limit",
	"weir_authz_decisions_total":                    "result",
	"weir_connections_turned_away_total":            "",
	"weir_connections_calmed_total":                 "",
	"weir_connections_too_many_pings_total":         "",
	"weir_admin_refusals_total":                     "reason",
	"weir_memory_used_bytes":                        "",
	"weir_memory_limit_bytes":                       "",
	"weir_largest_message_bytes":                    "direction",
	"weir_variant_ambiguity_total":                  "origin",
	"weir_upstream_locator_faults_total":            "origin,reason",
	"weir_unfit_parameters_total":                   "origin",
	"weir_load_requests_lost_total":                 "origin",
	"weir_file_loads_total":                         "origin,result",
	"weir_sink_writes_total":                        "origin,result",
	"weir_config_reloads_total":                     "result",
	"weir_config_last_reload_successful":            "",
	"weir_config_info":                              "hash",
	"weir_tls_certificate_expiry_timestamp_seconds": "role",
	"weir_tls_crl_next_update_timestamp_seconds":    "",
	"weir_tls_reloads_total":                        "result,role",
	"weir_build_info":                               "goversion,revision,version",

	"weir_snapshot_writes_total":                   "result",
	"weir_snapshot_last_success_timestamp_seconds": "",
	"weir_snapshot_left_out_resources":             "reason",
	"weir_seed_transfers_total":                    "result,role",
}

// waits are the reasons of weir_waiting, which has none besides; explain.md has them with their
// meaning, and a test of cmd/weir compares.
var waits = func() (names []string) {
	for _, r := range WaitReasons() {
		names = append(names, r.String())
	}
	return names
}()

// closed lists the values that a label may have, whatever callers pass. The labels of build_info
// and origin, and the hash of config_info, are the operator's own.
var closed = map[string][]string{
	"type":    {"cds", "eds", "lds", "rds", "srds", "vhds", "sds", "rtds", "ecds", "leds", "other"},
	"dialect": {"delta", "sotw"},
	"stage":   {"sent", "acked"},
	"older":   {"0s", "1s", "5s", "15s", "30s", "1m", "5m", "15m", "1h"},
	"result": {
		"ok", "error", "live", "stale", "retired", "absent", "miss", "mismatch", "clean", "drift", "postponed", "changed", "unchanged", "unresolved",
		"no_descriptor", "refused", "allowed", "denied", "ended", "busy", "begun", "promoted", "stopped", "returned", "timed_out", "other",
	},
	"phase": {"starting", "idle", "settling", "baking", "stopped", "paused", "other"},
	"field": {
		"node_type", "cluster", "locality", "user_agent_version", "metadata.NAMESPACE", "metadata.CLUSTER_ID", "metadata.LABELS", "metadata.app", "other",
	},
	"kind":      {"changed", "missing", "extra", "other"},
	"direction": {"from_origin", "to_origin", "from_client", "to_client"},
	"reason": {
		"send_stall", "lagging", "entries", "bytes", "max_stale", "memory", "versions", "age", "unconstrained", "empty_or",
		"host", "origin", "credentials", "token", "slowed", "client", "drain", "max_stream_age", "certificate", "reconfigured", "limit",
		"first_request", "bad_request", "unavailable", "refused", "closed", "timeout", "not_tls", "no_certificate",
		"bad_certificate", "revoked", "not_allowed", "refused_by_client", "no_common_version", "no_http2", "secret", "key", "max_bytes",
		"dns", "unreachable", "tls", "unauthenticated", "permission_denied", "ended", "unimplemented", "limited", "loop", "bad_response", "file",
		"other",
	},
	"limit": {
		"connections", "connections_per_peer", "streams", "streams_per_connection", "streams_per_identity", "new_streams_per_second", "requests_per_second",
		"nacks_per_second", "names_per_stream", "new_names_per_second",
		"name_bytes", "groups", "groups_per_peer", "parameter_sets_per_stream", "parameter_sets_per_group", "views", "request_bytes", "memory", "max_message", "origin_resources", "origin_bytes",
		"other",
	},
	"origin": {"mesh"},
	"role":   {"listener", "admin", "origin", "client_ca", "origin_ca", "sibling", "sibling_ca", "svid", "trust_bundle", "crl", "tickets", "served", "taken", "other"},
}

// exercise calls everything, with good values and with what must never become a label.
func exercise(m *Metrics) {
	for _, s := range []string{"", junk, "\xff", "cds", clusterURL, "delta", "send_stall", "entries", "streams"} {
		m.Downstream(s, s).Response(10)
		m.Downstream(s, s).Nack()
		m.Stalled(s)
		m.StreamOpened(s)
		m.StreamEnded(s)
		m.HandshakeFailure(s)
		m.Poll(s)
		m.Evicted(s, 2)
		m.HistoryDropped(s, 2)
		m.LimitRejection(s)
		m.Decided(s, 2)
		m.CanaryCandidate("mesh", s)
		o := m.Origin("mesh")
		o.Type(s).Nack()
		o.Type(s).Unrequested(1)
		o.Type(s).Unmatched(1)
		o.Type(s).Rejected(1)
		o.Type(s).Quarantined()
		o.Type(s).Drifted(s)
		o.Audited(s)
		o.Attempt()
		o.Failure(s)
		o.Bytes(FromClient, 1)
		o.Bytes(ToOrigin, 1)
		o.Type(s).Asked()
		o.Type(s).Answered(time.Second)
		o.Type(s).Propagation().Sent(time.Second, Exemplar{})
		o.Type(s).Propagation().Acked(time.Second, Exemplar{Stream: 1, Node: s, Trace: s})
		o.Type(s).Expired(1)
		o.Reconnect()
		o.Loop()
		o.TooManyPings()
		o.Silent()
		o.LocatorFaults(s, 1)
		o.VariantAmbiguity(1)
		o.UnfitParameters(1)
		o.LoadsLost(1)
		o.FileLoad(errors.New(s))
		o.SinkWrite(errors.New(s))
		m.AdminRefusal(s)
		m.ConfigReload(errors.New(s))
		m.TLSReload(s, errors.New(s))
		m.SnapshotWrite(errors.New(s))
		m.SeedTransfer(s, s)
	}
	m.SeedTransfer("taken", "busy")
	m.AdminRefusal("slowed")
	m.ConfigLoaded(nil)
	m.ConfigInfo("0a1b")
	m.ConfigReload(nil)
	m.TLSReload("crl", nil)
	m.SnapshotWrite(nil)
	m.SnapshotSaved(time.Unix(1, 0))
	m.SnapshotLeftOut(2, 3, 4)
	m.Origin("mesh").FileLoad(nil)
	m.Lookup(Miss)
	m.Message(FromOrigin, 10)
	m.BuildInfo("v1.2.3", "abcdef")
	m.Gauges(func() Picture {
		types := []TypePicture{{Type: clusterURL}, {Type: junk}, {Type: ""}, {Type: "\xff"}, {Type: "leds"}}
		p := Picture{
			Origins: []OriginPicture{{
				Origin: "mesh", Types: types, Differing: map[string]int{junk: 1, "cluster": 1}, Canary: &CanaryPicture{Groups: map[string]int{junk: 1, "idle": 1}},
			}},
			CRLDue:       time.Unix(4, 0),
			Certificates: map[string]time.Time{"listener": time.Unix(1, 0), junk: time.Unix(2, 0), "\xff": time.Unix(3, 0)},
			Dialects: []DialectPicture{
				{Dialect: "delta", Subscriptions: map[string]int{clusterURL: 1, junk: 2}},
				{Dialect: junk, Subscriptions: map[string]int{"": 1}},
			},
		}
		for _, t := range types {
			p.Age("mesh", t.Type, time.Hour)
		}
		return p
	})
}

func exercised(t *testing.T) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	exercise(New(reg))
	return reg
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(exercised(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The catalogue is complete, nothing is outside it, and no label has a value outside its list.
func TestLabelsAreClosed(t *testing.T) {
	families, err := exercised(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	missing := maps.Clone(catalogue)
	for _, f := range families {
		want, ok := catalogue[f.GetName()]
		if !ok {
			t.Errorf("%s is not in the catalogue", f.GetName())
		}
		delete(missing, f.GetName())
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", f.GetName()) // the lint takes an empty text for one
		}
		for _, m := range f.GetMetric() {
			var names []string
			for _, l := range m.GetLabel() {
				names = append(names, l.GetName())
				values := closed[l.GetName()]
				if f.GetName() == "weir_waiting" {
					values = waits
				}
				if values != nil && !slices.Contains(values, l.GetValue()) {
					t.Errorf("%s: %s=%q is outside the closed set", f.GetName(), l.GetName(), l.GetValue())
				}
			}
			if got := strings.Join(names, ","); got != want {
				t.Errorf("%s has labels %q, want %q", f.GetName(), got, want)
			}
		}
	}
	for name := range missing {
		t.Errorf("%s is missing", name)
	}
}

func TestNilIsANoOp(t *testing.T) {
	exercise(nil) // must not panic
	var m *Metrics
	if m.Downstream("cds", "delta") != nil || m.Origin("mesh") != nil || m.Origin("mesh").Type("cds") != nil {
		t.Error("nil hands out something other than nil")
	}
}

func TestShortName(t *testing.T) {
	for typeURL, want := range map[string]string{
		clusterURL: "cds",
		"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment":                      "eds",
		"type.googleapis.com/envoy.config.listener.v3.Listener":                                   "lds",
		"type.googleapis.com/envoy.config.route.v3.RouteConfiguration":                            "rds",
		"type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration":                      "srds",
		"type.googleapis.com/envoy.config.route.v3.VirtualHost":                                   "vhds",
		"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret":                    "sds",
		"type.googleapis.com/envoy.service.runtime.v3.Runtime":                                    "rtds",
		"type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig":                           "ecds",
		"type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint":                                 "leds",
		"type.googleapis.com/envoy.api.v2.auth.Secret":                                            "sds",
		"type.googleapis.com/envoy.extensions.filters.network.thrift_proxy.v3.RouteConfiguration": "other",
		"type.googleapis.com/envoy.config.cluster.v3.ClusterCollection":                           "other",
		"envoy.config.cluster.v3.Cluster":                                                         "other",
		"":                                                                                        "other",
		"srds":                                                                                    "srds",
	} {
		if got := ShortName(typeURL); got != want {
			t.Errorf("ShortName(%q) = %q, want %q", typeURL, got, want)
		}
	}
}

func TestCounters(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	m.Downstream("cds", "delta").Response(100)
	m.Downstream(clusterURL, "delta").Response(11)
	m.Downstream("eds", "sotw").Nack()
	m.Stalled("lagging")
	m.Evicted("bytes", 3)
	m.HistoryDropped("age", 4)
	m.Lookup(Live)
	m.Lookup(Retired)
	m.Lookup(Retired)
	m.Lookup(Mismatch)
	m.LimitRejection("names_per_stream")
	m.Decided("denied", 9)
	m.Message(ToClient, 500)
	m.Message(ToClient, 300)
	m.StreamOpened("sotw")
	m.ConfigAccepted(time.Unix(1234, 0))
	m.BuildInfo("v1", "abc")
	m.BuildInfo("v2", "def")
	o := m.Origin("mesh")
	o.Reconnect()
	m.Origin("mesh").Reconnect() // the same series
	o.Loop()
	o.Silent()
	o.VariantAmbiguity(1)
	o.LocatorFaults("unconstrained", 7)
	o.UnfitParameters(0)
	o.UnfitParameters(3)
	o.LoadsLost(8)
	o.FileLoad(nil)
	o.SinkWrite(nil)
	o.Type("lds").Nack()
	o.Type(junk).Unrequested(4)
	o.Type("cds").Rejected(5)
	o.Type("cds").Unmatched(6)
	o.Type("eds").Quarantined()
	o.Type("eds").Expired(2)
	o.Type(clusterURL).Propagation().Acked(2*time.Second, Exemplar{})
	o.Type("cds").Propagation().Acked(3*time.Second, Exemplar{})
	o.Type("cds").Propagation().Sent(time.Second, Exemplar{})
	o.Attempt()
	o.Failure("dns")
	o.Bytes(FromOrigin, 20)
	o.Bytes(ToClient, 30) // no bytes of the origin
	o.Type("lds").Asked()
	o.Type("lds").Answered(4 * time.Second)
	o.Type("lds").Answered(6 * time.Minute) // no answer

	got := values(t, reg)
	maps.DeleteFunc(got, func(_ string, v float64) bool { return v == 0 })
	for series, want := range map[string]float64{
		"weir_downstream_responses_total delta cds":       2,
		"weir_downstream_bytes_total delta cds":           111,
		"weir_downstream_nacks_total sotw eds":            1,
		"weir_downstream_stalled_total lagging":           1,
		"weir_cache_evictions_total bytes":                3,
		"weir_history_dropped_total age":                  4,
		"weir_cache_lookups_total live":                   1,
		"weir_cache_lookups_total retired":                2,
		"weir_cache_lookups_total mismatch":               1,
		"weir_upstream_unmatched_variants_total mesh cds": 6,
		"weir_limit_rejections_total names_per_stream":    1,
		"weir_authz_decisions_total denied":               9,
		"weir_largest_message_bytes to_client":            500,
		"weir_propagation_seconds mesh acked cds":         5,
		"weir_propagation_seconds mesh sent cds":          1,
		"weir_streams_opened_total sotw":                  1,
		"weir_upstream_attempts_total mesh":               1,
		"weir_upstream_failures_total mesh dns":           1,
		"weir_upstream_bytes_total from_origin mesh":      20,
		"weir_upstream_answer_seconds mesh lds":           4,

		"weir_config_last_reload_success_timestamp_seconds": 1234,

		"weir_upstream_loops_total mesh":                        1,
		"weir_upstream_reconnects_total mesh":                   2,
		"weir_upstream_silent_total mesh":                       1,
		"weir_variant_ambiguity_total mesh":                     1,
		"weir_upstream_locator_faults_total mesh unconstrained": 7,
		"weir_unfit_parameters_total mesh":                      3,
		"weir_load_requests_lost_total mesh":                    8,
		"weir_file_loads_total mesh ok":                         1,
		"weir_sink_writes_total mesh ok":                        1,
		"weir_upstream_nacks_total mesh lds":                    1,
		"weir_upstream_unrequested_total mesh other":            4,
		"weir_upstream_rejected_resources_total mesh cds":       5,
		"weir_upstream_quarantines_total mesh eds":              1,
		"weir_ttl_expirations_total mesh eds":                   2,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
		delete(got, series)
	}
	for series, v := range got {
		if !strings.HasPrefix(series, "weir_build_info ") || !strings.HasSuffix(series, " def v2") || v != 1 {
			t.Errorf("%s is %v, want nothing else counted", series, v)
		}
	}
}

// values gives the value (of histograms, the sum) of each series, by name and label values.
func values(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series := f.GetName()
			for _, l := range m.GetLabel() {
				series += " " + l.GetValue()
			}
			out[series] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return out
}

func TestLargestMessageKeepsTheLargest(t *testing.T) {
	m := New(prometheus.NewPedanticRegistry())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 1000 {
				m.Message(FromClient, n*8+i)
			}
		})
	}
	wg.Wait()
	if got := m.largest[FromClient].Load(); got != 7999 {
		t.Errorf("largest is %d, want 7999", got)
	}
}

// What happens per message neither allocates nor looks a label up.
func TestHotPathDoesNotAllocate(t *testing.T) {
	m := New(prometheus.NewPedanticRegistry())
	d, p := m.Downstream("cds", "delta"), m.Origin("mesh").Type("cds").Propagation()
	if n := testing.AllocsPerRun(100, func() {
		d.Response(100)
		d.Nack()
		p.Sent(time.Millisecond, Exemplar{})
		m.Message(ToClient, 100)
		m.LimitRejection("streams")
		m.Downstream(clusterURL, "sotw").Response(1)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
