package metrics

import (
	"slices"
	"time"
)

// The closed sets of label values. A new limit, reason or type is added here first.
const other = "other"

var (
	typeNames = []string{"cds", "eds", "lds", "rds", "srds", "vhds", "sds", "rtds", "ecds", "leds", other}
	dialects  = []string{"delta", "sotw"}
	// limits are the keys under `limits` of the config file, and origins[].grpc.max_message.
	limits = []string{
		"connections", "connections_per_peer", "streams", "streams_per_connection", "streams_per_identity", "new_streams_per_second", "requests_per_second",
		"nacks_per_second", "names_per_stream", "new_names_per_second", "name_bytes", "groups", "groups_per_peer", "parameter_sets_per_stream", "parameter_sets_per_group", "views",
		"request_bytes", "memory", "max_message", "origin_resources", "origin_bytes", other,
	}
	stallReasons = []string{"send_stall", "lagging", other}
	endReasons   = []string{
		"client", "drain", "max_stream_age", "certificate", "reconfigured", "limit", "lagging", "send_stall", "first_request",
		"bad_request", "unavailable", "refused", other,
	}
	decisionResults  = []string{"allowed", "denied", "ended", other}
	handshakeReasons = []string{
		"closed", "timeout", "not_tls", "no_certificate", "bad_certificate", "revoked", "not_allowed", "refused_by_client", "no_common_version", "no_http2", other,
	}
	pollResults     = []string{"changed", "unchanged", "unresolved", "no_descriptor", "refused", other}
	evictionReasons = []string{"entries", "bytes", "max_stale", "memory", other}
	historyReasons  = []string{"versions", "bytes", "age", "memory", other}
	lookups         = [...]string{"live", "stale", "retired", "absent", "miss", "mismatch"}
	results         = []string{"ok", "error"}
	seedRoles       = []string{"served", "taken", other}
	seedResults     = []string{"ok", "error", "busy", other}
	auditResults    = []string{"clean", "drift", "postponed", other}
	locatorFaults   = []string{"unconstrained", "empty_or", other}
	canaryResults   = []string{"begun", "promoted", "stopped", "returned", "timed_out", other}
	canaryPhases    = []string{"starting", "idle", "settling", "baking", "stopped", "paused", other}
	driftKinds      = []string{"changed", "missing", "extra", other}
	certRoles       = []string{"listener", "admin", "origin", "client_ca", "origin_ca", "sibling", "sibling_ca", "svid", "trust_bundle", other}
	tlsRoles        = []string{"listener", "admin", "origin", "client_ca", "origin_ca", "sibling", "sibling_ca", "crl", "tickets", other}
	// nodeFields are those of node.WatchedFields.
	nodeFields = []string{
		"node_type", "cluster", "locality", "user_agent_version", "metadata.NAMESPACE", "metadata.CLUSTER_ID", "metadata.LABELS", "metadata.app", other,
	}
	adminReasons = []string{"host", "origin", "credentials", "token", "slowed", other}
	// ageBounds are those of weir_downstream_unsynced_older_streams.
	ageBounds = [...]struct {
		label string
		older time.Duration
	}{
		{"0s", 0},
		{"1s", time.Second},
		{"5s", 5 * time.Second},
		{"15s", 15 * time.Second},
		{"30s", 30 * time.Second},
		{"1m", time.Minute},
		{"5m", 5 * time.Minute},
		{"15m", 15 * time.Minute},
		{"1h", time.Hour},
	}
	stages = []string{"sent", "acked"}
	// failureReasons are those of FailureOf and the kinds of origins.
	failureReasons = []string{
		"refused", "dns", "unreachable", "tls", "credentials", "unauthenticated", "permission_denied", "unavailable", "timeout", "ended",
		"unimplemented", "limited", "loop", "bad_response", "file", other,
	}
	directions = [...]string{"from_origin", "to_origin", "from_client", "to_client"}
)

var shortNames = map[string]string{
	"type.googleapis.com/envoy.config.cluster.v3.Cluster":                  "cds",
	"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment":   "eds",
	"type.googleapis.com/envoy.config.listener.v3.Listener":                "lds",
	"type.googleapis.com/envoy.config.route.v3.RouteConfiguration":         "rds",
	"type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration":   "srds",
	"type.googleapis.com/envoy.config.route.v3.VirtualHost":                "vhds",
	"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret": "sds",
	"type.googleapis.com/envoy.service.runtime.v3.Runtime":                 "rtds",
	"type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig":        "ecds",
	"type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint":              "leds",
	"type.googleapis.com/envoy.api.v2.Cluster":                             "cds",
	"type.googleapis.com/envoy.api.v2.ClusterLoadAssignment":               "eds",
	"type.googleapis.com/envoy.api.v2.Listener":                            "lds",
	"type.googleapis.com/envoy.api.v2.RouteConfiguration":                  "rds",
	"type.googleapis.com/envoy.api.v2.ScopedRouteConfiguration":            "srds",
	"type.googleapis.com/envoy.api.v2.route.VirtualHost":                   "vhds",
	"type.googleapis.com/envoy.api.v2.auth.Secret":                         "sds",
	"type.googleapis.com/envoy.service.discovery.v2.Runtime":               "rtds",
}

// ShortName returns the label value of a type: cds, eds, lds, rds, srds, vhds, sds, rtds, ecds,
// leds, or "other". It takes a type URL, v3 or v2, or a short name, which it returns.
func ShortName(typeURL string) string {
	if short, ok := shortNames[typeURL]; ok {
		return short
	}
	return oneOf(typeNames, typeURL)
}

// dialectName returns the label value of a dialect. Unary and REST answers count as SotW, whose
// form they have.
func dialectName(dialect string) string {
	if dialect == "delta" {
		return dialect
	}
	return "sotw"
}

func oneOf(set []string, value string) string {
	if slices.Contains(set, value) {
		return value
	}
	return other
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// waitReason is the name of a WaitReason, and what it means.
type waitReason struct{ name, meaning string }

// waitReasons are all reasons to wait. deploy/docs/explain.md has them too.
var waitReasons = [waitReasonsEnd]waitReason{
	NoWait: {"none", "a deadline that nothing waits for"},

	WaitAck:          {"ack", "the client has not answered the last response"},
	WaitNack:         {"nack", "the client rejected the response; it gets the next change"},
	WaitStalled:      {"write_stalled", "the client does not read from its connection"},
	WaitWriter:       {"writer", "the stream waits for its turn to be written"},
	WaitCalmed:       {"calmed", "a new connection waits because its peer misbehaved"},
	WaitArrival:      {"arrival", "new streams are admitted in turn (limits.new_streams_per_second)"},
	WaitPace:         {"pace", "the client sends requests or NACKs too fast, so weir reads slower"},
	WaitNewNames:     {"new_names", "the peer requests too many new names (limits.new_names_per_second)"},
	WaitIntake:       {"intake", "long requests of all clients are read in turn"},
	WaitFirstRequest: {"first_request", "the client opened a stream and sent no request"},
	WaitRESTWait:     {"rest_wait", "a poll waits for resources that are not known yet (timing.rest_wait)"},
	WaitRESTHold:     {"rest_hold", "a poll waits for a change (timing.rest_hold)"},

	WaitOrder:           {"order", "a type that goes first has unsent changes"},
	WaitClusters:        {"clusters", "the client has not answered the Clusters that go first"},
	WaitEndpoints:       {"endpoints", "endpoints of Clusters already sent go first"},
	WaitEarlierSet:      {"earlier_set", "a type that goes first is not complete"},
	WaitRemoval:         {"removal", "a removal waits until all possible references are gone"},
	WaitEndpointRequest: {"endpoint_request", "endpoints wait for the client's request, or for timing.order_hold"},
	WaitCoalesce:        {"coalesce", "changes are collected into one response (timing.coalesce)"},

	WaitPermission: {"permission", "no rule allows it to the client"},
	WaitLimit:      {"limit", "a limit was reached; it waits for room"},

	WaitLongList:   {"long_list", "a long list of names is processed in parts"},
	WaitConfirm:    {"confirm", "the origin has not confirmed what the snapshot restored"},
	WaitNames:      {"names", "some names of the list are not known yet"},
	WaitError:      {"error", "a name of the list is in error and has no older version"},
	WaitBadPart:    {"bad_part", "weir rejected a part of the origin's answer and waits for another"},
	WaitSettle:     {"settle", "the origin's answer may be incomplete (timing.settle)"},
	WaitGather:     {"gather", "a change waits for others of the same push (timing.gather)"},
	WaitGuard:      {"guard", "the guard delays a removal (guard.hold)"},
	WaitFreeze:     {"freeze", "the origin is frozen and has different content"},
	WaitHold:       {"hold", "a rollback or canary gate keeps the group at a state"},
	WaitHost:       {"host", "a virtual host was requested, and the origin has not answered"},
	WaitColdWait:   {"cold_wait", "it is not in the cache, and no stream to the origin is open (timing.cold_wait)"},
	WaitOrigin:     {"origin", "the origin was asked, and has not answered"},
	WaitQuarantine: {"quarantine", "the origin ends streams that request the type, so weir asks rarely"},
	WaitAsk:        {"ask", "weir requests long lists of names in parts"},
	WaitBatch:      {"batch", "subscriptions are collected before a request (timing.upstream_batch)"},
	WaitQueue:      {"lane_queue", "the group waits for its turn to open a stream (limits.new_groups_per_second)"},
	WaitConnect:    {"connect", "a connection or stream to the origin is opening"},
	WaitBackoff:    {"backoff", "the last attempt to reach the origin failed; the next is later"},
	WaitPoll:       {"poll", "the next poll is later"},
}
