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
	locatorFaults   = []string{"unheeded", "unconstrained", "empty_or", other}
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

	WaitAck:          {"ack", "the client has not answered the response of the type that was written last"},
	WaitNack:         {"nack", "the client rejected the response; what it rejected is sent again when it changes"},
	WaitStalled:      {"write_stalled", "the client does not read, so the connection takes no more"},
	WaitWriter:       {"writer", "the stream waits for its turn to be written to"},
	WaitCalmed:       {"calmed", "a new connection of a peer that was told to calm down is accepted later"},
	WaitArrival:      {"arrival", "new streams are admitted one after the other (limits.new_streams_per_second)"},
	WaitPace:         {"pace", "the client sends requests or NACKs too fast, and is read more slowly"},
	WaitNewNames:     {"new_names", "the client's peer brings too many names (limits.new_names_per_second)"},
	WaitIntake:       {"intake", "long requests of all clients are read one after the other"},
	WaitFirstRequest: {"first_request", "the client has opened a stream and has sent no request"},
	WaitRESTWait:     {"rest_wait", "a poll waits until all that it asks for is known (timing.rest_wait)"},
	WaitRESTHold:     {"rest_hold", "a poll has what it asks for, and waits for a change (timing.rest_hold)"},

	WaitOrder:           {"order", "a type that is written before this one has changes to be written first"},
	WaitClusters:        {"clusters", "the client has not answered the Clusters that were written before"},
	WaitEndpoints:       {"endpoints", "endpoints of Clusters that were written have to be written first"},
	WaitEarlierSet:      {"earlier_set", "a type that is written before this one is not complete yet"},
	WaitRemoval:         {"removal", "a removal waits until what may still refer to it was written"},
	WaitEndpointRequest: {"endpoint_request", "endpoints are sent when the client asks for them, or after timing.order_hold"},
	WaitCoalesce:        {"coalesce", "changes are collected, so that one response has them (timing.coalesce)"},

	WaitPermission: {"permission", "no rule allows it to the client"},
	WaitLimit:      {"limit", "it was refused because of a limit, until there is room"},

	WaitLongList:   {"long_list", "a long list of names is taken in piece by piece"},
	WaitConfirm:    {"confirm", "what was restored from the snapshot waits until the origin confirms it"},
	WaitNames:      {"names", "a list waits for the names in it of which nothing is known yet"},
	WaitError:      {"error", "a list waits for what is in an error and not held"},
	WaitBadPart:    {"bad_part", "weir refused a part of the origin's answer, and waits for it to be stated again"},
	WaitSettle:     {"settle", "the origin's answer is arriving, and may not be complete (timing.settle)"},
	WaitGather:     {"gather", "a change waits for the other changes of the same moment (timing.gather)"},
	WaitGuard:      {"guard", "a removal is held back as part of a mass removal (guard.hold), or for a while after a reconnect"},
	WaitFreeze:     {"freeze", "the origin is frozen, and has something else than clients have"},
	WaitHold:       {"hold", "the group is held at a state, by a rollback or for its canaries, and the origin has something else"},
	WaitHost:       {"host", "a virtual host was asked for on demand, and the origin has not answered"},
	WaitColdWait:   {"cold_wait", "what it asks for is not held, and no stream to the origin is open (timing.cold_wait)"},
	WaitOrigin:     {"origin", "the origin was asked, and has not answered"},
	WaitQuarantine: {"quarantine", "the origin ends streams that ask for the type, so it is asked rarely"},
	WaitAsk:        {"ask", "the origin is asked for long lists of names piece by piece"},
	WaitBatch:      {"batch", "subscriptions are collected before the origin is asked (timing.upstream_batch)"},
	WaitQueue:      {"lane_queue", "the group waits for its turn to open a stream to the origin (limits.new_groups_per_second)"},
	WaitConnect:    {"connect", "a connection or a stream to the origin is being opened"},
	WaitBackoff:    {"backoff", "the last attempt to reach the origin failed, and the next is later"},
	WaitPoll:       {"poll", "the origin is polled, and the next poll is later"},
}
