package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay/node"
)

// Canary sends a change of a group to some of its clients first. The rest get it when the canaries
// have acknowledged it and it has been good for Bake. It is on if Match or Share is set: a client
// is a canary if either selects it. Until a change has passed, all other clients of the group keep
// the state before it, of all types together. Dedicated streams are excluded.
type Canary struct {
	// Match maps node fields to values. A client is a canary if all match.
	//
	// A field is written as in group_by: id, cluster, locality (region/zone/sub_zone),
	// user_agent_name, user_agent_version or metadata.PATH, where dots are part of a key or lead
	// into structs. Its value is compared as text: "true" matches true. The field identity has one
	// or more patterns as in authorization.who; one must match. A client declares its own node, so
	// any client can claim to be a canary by it. A group needs canaries and others, so group_by
	// must not have all of the fields. Default: none.
	Match map[string]Patterns `yaml:"match" reload:"ends streams"`
	// Share is the part of clients that are canaries, by a hash of the node id, 0 to 1.
	//
	// All replicas choose the same clients, and a larger share includes those of a smaller one. A
	// client without a node id is never chosen. A small group may have no canary. Default: 0.
	Share float64 `yaml:"share" reload:"ends streams"`
	// Bake is how long a change must be good on the canaries.
	//
	// It is also how long all clients of a group must have acknowledged a state before weir
	// rollback accepts it as good. Default: 60s.
	Bake time.Duration `yaml:"bake" default:"60s"`
	// Acks is how many canaries must acknowledge a change: a count, or `{ count: 2, share: 0.5 }`.
	// Default: 1.
	Acks Acks `yaml:"acks"`
	// Gone is how many canaries may disconnect after they were sent a change.
	//
	// A client that a change kills does not reject it. More gone canaries than allowed stop the
	// change, as a rejection does.
	Gone Gone `yaml:"gone"`
	// OnStop is `return` or `stay`: whether canaries get the old state back when a change is
	// stopped.
	//
	// A change stops when a canary rejects it, too many canaries are gone, or the check objects.
	// Other clients never get it. Default: return.
	OnStop string `yaml:"on_stop" default:"return" one_of:"return,stay"`
	// MaxHold is how long an undecided change waits before all clients get it. 0: for an operator.
	//
	// A change is undecided while acknowledgements or the check's answer are missing. An alert
	// fires before. More than bake. Default: 1h.
	MaxHold time.Duration `yaml:"max_hold" default:"1h"`
	// Urgent are types whose changed content goes to all clients at once.
	//
	// Also while a group is rolled back. Full type URLs after Parse. Default: [eds, sds].
	Urgent []string `yaml:"urgent" default:"eds,sds"`
	// Check is a server that is queried while a change bakes, and can stop it. Default: absent.
	Check *CanaryCheck `yaml:"check"`
}

// Acks is how many canaries of a group must acknowledge a change; both fields must hold. In the
// file it may be a number, the Count.
type Acks struct {
	// Count is the least number. 0: a group without canaries waits for bake only. Default: 1.
	Count int `yaml:"count" default:"1"`
	// Share is the least part of the group's connected canaries, 0 to 1. Default: 0.
	Share float64 `yaml:"share"`
}

// Gone is how many canaries may be gone while a change bakes.
type Gone struct {
	// Share is the part of canaries sent the change that may be gone, 0 to 1. 1 turns it off.
	//
	// With 0 one that is gone stops the change, if two or more were sent it. If only one canary
	// was sent it, its absence never stops the change: the change waits until it is back or
	// max_hold is over. Default: 0.
	Share float64 `yaml:"share"`
	// Grace is how long a canary may be away before it counts as gone.
	//
	// All its absences add up, until it has stayed for that long. It is for restarts and drains of
	// canaries. Default: 30s.
	Grace time.Duration `yaml:"grace" default:"30s"`
}

// CanaryCheck is a server that judges the canaries: exactly one of Prometheus and HTTP.
type CanaryCheck struct {
	// Prometheus is a server that answers PromQL.
	Prometheus *PrometheusCheck `yaml:"prometheus"`
	// HTTP is any other server.
	HTTP *HTTPCheck `yaml:"http"`
	// OnError is `hold` or `pass`: what a check without an answer means.
	//
	// hold: the change waits for an answer, or until max_hold is over. pass: no objection.
	// Default: hold.
	OnError string `yaml:"on_error" default:"hold" one_of:"hold,pass"`
}

// PrometheusCheck objects if the value of a query is too high.
type PrometheusCheck struct {
	// URL is the base URL, before `/api/v1/query`, http or https. Required.
	URL string `yaml:"url" required:"true"`
	// Query is an instant query, such as the canaries' error rate. The largest value counts.
	//
	// No value, or NaN, is no answer. Required.
	Query string `yaml:"query" required:"true"`
	// Threshold is the largest good value. Required.
	Threshold float64 `yaml:"threshold" required:"true"`
	// Interval is how often the check runs, and its timeout. At least 1s, at most bake. Default:
	// 10s.
	Interval time.Duration `yaml:"interval" default:"10s"`
	// TLS verifies an https URL. Default: the system's roots.
	TLS CheckTLS `yaml:"tls"`
	// Headers are HTTP headers sent with every query.
	//
	// Headers that look like credentials need https unless the URL is loopback. Default: none.
	Headers map[string]string `yaml:"headers" secret:"true"`
	// TokenFile is a file with a bearer token, read for each query. Needs https. Default: empty.
	TokenFile string `yaml:"token_file" path:"file"`
}

// HTTPCheck objects by answering a GET with a status that is not 2xx; the first line of the body is
// the reason.
type HTTPCheck struct {
	// URL is the URL to GET, http or https. Other answers than 2xx stop the change.
	//
	// The first line of the body is the reason. Required.
	URL string `yaml:"url" required:"true"`
	// Interval is how often the check runs, and its timeout. At least 1s, at most bake. Default:
	// 10s.
	Interval time.Duration `yaml:"interval" default:"10s"`
	// TLS verifies an https URL. Default: the system's roots.
	TLS CheckTLS `yaml:"tls"`
	// Headers are HTTP headers sent with every request.
	//
	// Headers that look like credentials need https unless the URL is loopback. Default: none.
	Headers map[string]string `yaml:"headers" secret:"true"`
	// TokenFile is a file with a bearer token, read for each request. Needs https. Default: empty.
	TokenFile string `yaml:"token_file" path:"file"`
}

// CheckTLS has the files for the connection to a check. They are read for each query.
type CheckTLS struct {
	// CA is a PEM file of authorities. Default: empty, the system's roots.
	CA string `yaml:"ca" path:"file"`
	// Cert and Key are the client certificate, PEM files; both or neither. Default: empty.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
	// ServerName is the host name to verify instead of the URL's host. Default: empty.
	ServerName string `yaml:"server_name"`
}

// Values of Canary.OnStop and CanaryCheck.OnError.
const (
	OnStopReturn = "return"
	OnStopStay   = "stay"
	OnErrorHold  = "hold"
	OnErrorPass  = "pass"
)

// On reports whether changes go to canaries first.
func (c *Canary) On() bool { return len(c.Match) > 0 || c.Share > 0 }

// identityField is the field of Canary.Match that has patterns of identities.
const identityField = node.Identity

// Clients returns which clients are canaries; nil: the gate is off.
func (c *Canary) Clients() *node.Canary {
	if !c.On() {
		return nil
	}
	out := &node.Canary{Share: c.Share}
	for field, values := range c.Match {
		if field == identityField {
			out.Identities = slices.Clone(values)
			out.Identified = identified(values)
			continue
		}
		if out.Match == nil {
			out.Match = make(map[string]string, len(c.Match))
		}
		out.Match[field] = values[0]
	}
	return out
}

// identified returns what reports whether an identity fits one of the patterns.
func identified(patterns []string) func(who string) bool {
	compiled := make([]authz.Who, len(patterns))
	for i, text := range patterns {
		var err error
		if compiled[i], err = authz.ParseWho(text); err != nil {
			// our own bug: the check has reported it
			panic(fmt.Sprintf("config: canary.match.identity: %q %v", text, err))
		}
	}
	return func(who string) bool {
		return slices.ContainsFunc(compiled, func(w authz.Who) bool { return w.Matches(who) })
	}
}
