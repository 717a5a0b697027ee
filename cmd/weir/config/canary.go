package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay/node"
)

// Canary sends a change of a group to some of its clients first, and to the rest when those have
// acknowledged it, and it has been good for a while. It is on if Match or Share is set: a client is
// a canary if either makes it one. Until a change has passed, all other clients of the group hold
// the state before it, of all types together. Dedicated streams are not part of it.
type Canary struct {
	// Match says by field which clients are canaries; all fields have to fit. A field is written as
	// in group_by: id, cluster, locality (as region/zone/sub_zone), user_agent_name,
	// user_agent_version or metadata.PATH, where dots are part of a key or lead into structs, and
	// has one value, which is compared as text: "true" fits true. Or it is identity, and has one or
	// more patterns as in authorization.who, of which one has to fit. A node is what the client
	// says of itself, so whoever may connect can be a canary by it. A group needs both canaries and
	// others, so group_by cannot have all of the fields. Default: none.
	Match map[string]Patterns `yaml:"match"`
	// Share is the part of the clients that are canaries, by a hash of the node id, 0 to 1. All
	// replicas choose the same clients, and a larger share keeps those of a smaller one. Clients
	// without a node id are none. A group with few clients may have no canary. Default: 0.
	Share float64 `yaml:"share"`
	// Bake is how long a change has to be good with the canaries. It is also how long a state of
	// any group has to be acknowledged by all before weir rollback takes it for good. Default: 60s.
	Bake time.Duration `yaml:"bake"`
	// Acks says how many canaries of a group have to acknowledge a change: a count, or
	// { count: 2, share: 0.5 }. Default: 1.
	Acks Acks `yaml:"acks"`
	// Gone says how many of the canaries that were sent a change may be gone before it is good: a
	// client that a change kills does not reject it. More than that object, as a rejection does.
	Gone Gone `yaml:"gone"`
	// OnStop says what becomes of the canaries when one rejects a change, too many are gone or the
	// check objects: return, they are sent what all others have; or stay, they keep it. All others
	// never get it. Default: return.
	OnStop string `yaml:"on_stop"`
	// MaxHold is how long a change waits that is neither good nor bad, for want of acknowledgements
	// or of the check's answer. Then it goes to all, and an alarm is raised before. More than Bake;
	// 0 is no bound: it waits for an operator. Default: 1h.
	MaxHold time.Duration `yaml:"max_hold"`
	// Urgent lists types of which changed content passes at once, to all clients, also while a
	// group is rolled back. Full type URLs after Parse. Default: eds, sds.
	Urgent []string `yaml:"urgent"`
	// Check is asked while a change bakes, and can stop it. Default: absent, nobody is asked.
	Check *CanaryCheck `yaml:"check"`
}

// Acks is how many canaries of a group have to acknowledge a change: as many as both say. In the
// file it may be a number, which is Count.
type Acks struct {
	// Count is the least number; 0: a group without canaries waits for the bake alone. Default: 1.
	Count int `yaml:"count"`
	// Share is the least part of the group's canaries that are connected, 0 to 1. Default: 0.
	Share float64 `yaml:"share"`
}

// Gone is how many canaries may be gone while a change bakes.
type Gone struct {
	// Share is the part of the canaries that were sent the change, 0 to 1. 0: one that is gone
	// objects, if two or more were sent it. Of one alone it is no objection, and the change waits
	// until the canary is back, or MaxHold is over. 1: none ever objects. Default: 0.
	Share float64 `yaml:"share"`
	// Grace is how long a canary may be away, all its absences together, until it has stayed for
	// that long: for restarts and drains of canaries. Default: 30s.
	Grace time.Duration `yaml:"grace"`
}

// CanaryCheck is somebody who knows how the canaries do: exactly one of Prometheus and HTTP.
type CanaryCheck struct {
	// Prometheus is a server that answers PromQL.
	Prometheus *PrometheusCheck `yaml:"prometheus"`
	// HTTP is any other server.
	HTTP *HTTPCheck `yaml:"http"`
	// OnError says what it means that there is no answer. hold: the change waits until there is
	// one, or MaxHold is over; or pass: it counts as no objection. Default: hold.
	OnError string `yaml:"on_error"`
}

// PrometheusCheck objects if the value of a query is too high.
type PrometheusCheck struct {
	// URL is what comes before /api/v1/query, http or https. Required.
	URL string `yaml:"url"`
	// Query is an instant query, such as the error rate of the canaries. Of several values the
	// largest counts; no value, or NaN, is no answer. Required.
	Query string `yaml:"query"`
	// Threshold is the largest value that is good. Required.
	Threshold float64 `yaml:"threshold"`
	// Interval is how often it is asked while a change bakes, and how long it may take to answer.
	// At least 1s, at most Bake. Default: 10s.
	Interval time.Duration `yaml:"interval"`
	// TLS says how an https URL is verified. Default: the system's roots.
	TLS CheckTLS `yaml:"tls"`
	// Headers are sent with every question. Those that look like credentials need https where the
	// URL is not loopback. Default: none.
	Headers map[string]string `yaml:"headers"`
	// TokenFile has a bearer token, read for each question; it needs https. Default: empty.
	TokenFile string `yaml:"token_file" path:"file"`
}

// HTTPCheck objects by answering a GET with a status that is not 2xx; the first line of the body is
// the reason.
type HTTPCheck struct {
	// URL is what is asked, http or https. Required.
	URL string `yaml:"url"`
	// Interval is how often it is asked while a change bakes, and how long it may take to answer.
	// At least 1s, at most Bake. Default: 10s.
	Interval time.Duration `yaml:"interval"`
	// TLS says how an https URL is verified. Default: the system's roots.
	TLS CheckTLS `yaml:"tls"`
	// Headers are sent with every question. Those that look like credentials need https where the
	// URL is not loopback. Default: none.
	Headers map[string]string `yaml:"headers"`
	// TokenFile has a bearer token, read for each question; it needs https. Default: empty.
	TokenFile string `yaml:"token_file" path:"file"`
}

// CheckTLS has the files for the connection to a check. They are read each time it is asked.
type CheckTLS struct {
	// CA is a PEM file. Default: empty, the system's roots.
	CA string `yaml:"ca" path:"file"`
	// Cert and Key are the client certificate, PEM files; both or neither.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
	// ServerName is verified instead of the URL's host. Default: empty.
	ServerName string `yaml:"server_name"`
}

// Values of Canary.OnStop and CanaryCheck.OnError.
const (
	OnStopReturn = "return"
	OnStopStay   = "stay"
	OnErrorHold  = "hold"
	OnErrorPass  = "pass"
)

func (c *Canary) setDefaults() {
	*c = Canary{
		Bake: 60 * time.Second, Acks: Acks{Count: 1}, Gone: Gone{Grace: 30 * time.Second}, OnStop: OnStopReturn, MaxHold: time.Hour, Urgent: []string{"eds", "sds"},
	}
}

func (c *CanaryCheck) setDefaults()     { *c = CanaryCheck{OnError: OnErrorHold} }
func (p *PrometheusCheck) setDefaults() { *p = PrometheusCheck{Interval: 10 * time.Second} }
func (h *HTTPCheck) setDefaults()       { *h = HTTPCheck{Interval: 10 * time.Second} }

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
