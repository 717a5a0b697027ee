package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Reload says what a reload does with a change of a key.
type Reload string

// The values. The texts are those of deploy/docs/configuration.md.
const (
	// ReloadLive: no stream ends.
	ReloadLive Reload = "in force at once, also for what is there"
	// ReloadNext: what exists stays as it is.
	ReloadNext Reload = "for streams, and types of a stream, that begin from now on"
	// ReloadReconnect: the table's part of the origin stays.
	ReloadReconnect Reload = "weir connects to the origin anew; what is held stays, and clients notice nothing"
	// ReloadConcerned: a client that reconnects is served by the new configuration.
	ReloadConcerned Reload = "streams that are concerned end with UNAVAILABLE, and resume by version; all others go on"
	// ReloadAnew: the table's part of the origin is dropped.
	ReloadAnew Reload = "streams with names of the origin end with UNAVAILABLE, and resume by version; the origin is asked for everything anew"
	// ReloadRestart: nothing of the file is used.
	ReloadRestart Reload = "needs a restart: the reload is refused, and says so at the key"
)

// reloads says what a reload does with each key, and with all keys below it that are not listed. A
// key that is not listed needs a restart. Within lists, origins are identified by name and
// listeners by address; a key that ends in [] is for added and removed ones.
var reloads = map[string]Reload{
	"name":     ReloadRestart,
	"instance": ReloadRestart,

	"listeners[]":                    ReloadConcerned,
	"listeners[].socket_mode":        ReloadRestart,
	"listeners[].origin":             ReloadConcerned,
	"listeners[].tls":                ReloadRestart,
	"listeners[].rest":               ReloadRestart,
	"listeners[].v2":                 ReloadRestart,
	"listeners[].require_node_id":    ReloadNext,
	"listeners[].no_legacy_wildcard": ReloadNext,
	"listeners[].assume_features":    ReloadNext,
	"listeners[].dedicated":          ReloadNext,
	"listeners[].compression":        ReloadNext,

	"origins[]":                    ReloadConcerned,
	"origins[].grpc":               ReloadReconnect,
	"origins[].grpc.aggregated":    ReloadAnew,
	"origins[].grpc.v2":            ReloadAnew,
	"origins[].files":              ReloadReconnect,
	"origins[].rest":               ReloadReconnect,
	"origins[].fallback":           ReloadReconnect,
	"origins[].default":            ReloadConcerned,
	"origins[].authorities":        ReloadConcerned,
	"origins[].resume":             ReloadReconnect,
	"origins[].audit":              ReloadReconnect,
	"origins[].name_fields":        ReloadReconnect,
	"origins[].absence_timer":      ReloadLive,
	"origins[].guard":              ReloadLive,
	"origins[].limits":             ReloadLive,
	"origins[].canary":             ReloadLive,
	"origins[].canary.match":       ReloadConcerned,
	"origins[].canary.share":       ReloadConcerned,
	"origins[].freeze":             ReloadLive,
	"origins[].on_data_error":      ReloadLive,
	"origins[].absence_keeps":      ReloadLive,
	"origins[].lrs":                ReloadLive,
	"origins[].nack_report":        ReloadLive,
	"origins[].types":              ReloadAnew,
	"origins[].group_by":           ReloadAnew,
	"origins[].identity_to":        ReloadAnew,
	"origins[].node":               ReloadAnew,
	"origins[].secrets":            ReloadAnew,
	"origins[].version_mode":       ReloadAnew,
	"origins[].hash":               ReloadAnew,
	"origins[].glob":               ReloadAnew,
	"origins[].ttl_unsupported":    ReloadAnew,
	"origins[].tp2":                ReloadAnew,
	"origins[].dynamic_parameters": ReloadAnew,
	"origins[].share":              ReloadAnew,

	"types": ReloadReconnect,

	"authorization": ReloadLive,

	"metrics": ReloadLive,

	"cache.linger":   ReloadLive,
	"cache.retired":  ReloadLive,
	"cache.history":  ReloadLive,
	"cache.snapshot": ReloadRestart,
	"cache.seed":     ReloadRestart,

	"sinks": ReloadLive,

	"limits.connections":               ReloadLive,
	"limits.connections_per_peer":      ReloadLive,
	"limits.connection_idle":           ReloadRestart,
	"limits.streams":                   ReloadLive,
	"limits.streams_per_identity":      ReloadLive,
	"limits.new_streams_per_second":    ReloadLive,
	"limits.requests_per_second":       ReloadLive,
	"limits.nacks_per_second":          ReloadLive,
	"limits.names_per_stream":          ReloadLive,
	"limits.new_names_per_second":      ReloadLive,
	"limits.name_bytes":                ReloadReconnect,
	"limits.groups":                    ReloadLive,
	"limits.groups_per_peer":           ReloadLive,
	"limits.new_groups_per_second":     ReloadReconnect,
	"limits.load_reports":              ReloadReconnect,
	"limits.parameter_sets_per_stream": ReloadLive,
	"limits.parameter_sets_per_group":  ReloadLive,
	"limits.memory":                    ReloadLive,
	"limits.views":                     ReloadLive,
	"limits.streams_per_connection":    ReloadRestart,
	"limits.request_bytes":             ReloadRestart,

	"timing.settle":         ReloadLive,
	"timing.firm_settle":    ReloadLive,
	"timing.gather":         ReloadLive,
	"timing.cold_wait":      ReloadLive,
	"timing.on_demand_wait": ReloadLive,
	"timing.order_hold":     ReloadLive,
	"timing.coalesce":       ReloadLive,
	"timing.rest_wait":      ReloadLive,
	"timing.rest_hold":      ReloadLive,
	"timing.send_stall":     ReloadLive,
	"timing.first_request":  ReloadLive,
	"timing.ready_wait":     ReloadLive,
	"timing.drain":          ReloadLive,
	"timing.upstream_batch": ReloadReconnect,
	"timing.pause":          ReloadReconnect,
	"timing.backoff":        ReloadReconnect,
	"timing.keepalive":      ReloadRestart,
	"timing.max_stream_age": ReloadRestart,

	"ready.types": ReloadReconnect,

	"admin":      ReloadRestart,
	"probes":     ReloadRestart,
	"log.level":  ReloadLive,
	"log.levels": ReloadLive,
	"log.format": ReloadRestart,
	"tracing":    ReloadRestart,
}

// ReloadOf returns what a reload does with a change at a path or key; "" if it is not listed, so
// that it needs a restart.
func ReloadOf(path string) Reload {
	for key := generic(path); key != ""; key = parent(key) {
		if r, listed := reloads[key]; listed && (key == generic(path) || !strings.HasSuffix(key, "[]")) {
			return r
		}
	}
	return ""
}

// Changed returns the paths at which two configurations differ, without those of removed listeners
// and origins, in no particular order.
func (c *Config) Changed(before *Config) []string {
	d := difference{}
	d.value("", reflect.ValueOf(before).Elem(), reflect.ValueOf(c).Elem())
	return d.paths
}

// CheckReload returns, by line, the differences that need a restart.
func (c *Config) CheckReload(before *Config) error {
	src := c.source
	if src == nil {
		src = newReport("")
	}
	r := &report{file: src.file, at: src.at}
	for _, path := range c.Changed(before) {
		if how := ReloadOf(path); how == ReloadRestart || how == "" {
			r.addf(path, "a reload cannot change this: restart weir for it")
		}
	}
	return r.err()
}

// Before returns the index of listener i in the configuration before; -1 if it is new. Listeners
// with port 0 are identified by their order.
func (c *Config) Before(before *Config, i int) int {
	nth := 0
	for j := range c.Listeners[:i] {
		if c.Listeners[j].Address == c.Listeners[i].Address {
			nth++
		}
	}
	for j := range before.Listeners {
		if before.Listeners[j].Address == c.Listeners[i].Address {
			if nth == 0 {
				return j
			}
			nth--
		}
	}
	return -1
}

// OriginNamed returns the origin with a name; nil if there is none.
func (c *Config) OriginNamed(name string) *Origin {
	for i := range c.Origins {
		if c.Origins[i].Name == name {
			return &c.Origins[i]
		}
	}
	return nil
}

// difference collects paths.
type difference struct{ paths []string }

func (d *difference) value(path string, a, b reflect.Value) {
	if c, ok := b.Addr().Interface().(*Config); ok {
		d.lists(a.Addr().Interface().(*Config), c)
	}
	switch b.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				d.paths = append(d.paths, path)
			}
			return
		}
		d.value(path, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range b.NumField() {
			key := b.Type().Field(i).Tag.Get("yaml")
			if at := join(path, key); key != "" && at != "listeners" && at != "origins" {
				d.value(at, a.Field(i), b.Field(i))
			}
		}
	default:
		if !same(a, b) {
			d.paths = append(d.paths, path)
		}
	}
}

// lists compares the elements with equal names.
func (d *difference) lists(a, b *Config) {
	kept := 0
	for i := range b.Listeners {
		path := fmt.Sprintf("listeners[%d]", i)
		if j := b.Before(a, i); j >= 0 {
			kept++
			d.value(path, reflect.ValueOf(&a.Listeners[j]).Elem(), reflect.ValueOf(&b.Listeners[i]).Elem())
		} else {
			d.paths = append(d.paths, path)
		}
	}
	if kept < len(a.Listeners) {
		d.paths = append(d.paths, "listeners[]")
	}
	kept = 0
	for i := range b.Origins {
		path := fmt.Sprintf("origins[%d]", i)
		if o := a.OriginNamed(b.Origins[i].Name); o != nil {
			kept++
			d.value(path, reflect.ValueOf(o).Elem(), reflect.ValueOf(&b.Origins[i]).Elem())
		} else {
			d.paths = append(d.paths, path)
		}
	}
	if kept < len(a.Origins) {
		d.paths = append(d.paths, "origins[]")
	}
}

// ReloadTable returns the table of deploy/docs/configuration.md: for each Reload its keys, sorted.
func ReloadTable() string {
	byWords := make(map[Reload][]string)
	for key, r := range reloads {
		byWords[r] = append(byWords[r], "`"+key+"`")
	}
	out := "| what a reload does with a change | keys |\n| --- | --- |\n"
	for _, r := range []Reload{ReloadLive, ReloadNext, ReloadReconnect, ReloadConcerned, ReloadAnew, ReloadRestart} {
		keys := byWords[r]
		slices.SortFunc(keys, cmp.Compare[string])
		out += fmt.Sprintf("| %s | ", r)
		for i, key := range keys {
			if i > 0 {
				out += ", "
			}
			out += key
		}
		out += " |\n"
	}
	return out
}
