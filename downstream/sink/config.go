package sink

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Config is what a Sink is made of. It is not modified after New.
type Config struct {
	// Path is the directory. It is made when it is not there; it must be the sink's alone.
	Path string
	// Origin is where the resources are from. Required.
	Origin *relay.Origin
	// Node is that of a client as which the origin is asked. Nil: none is presented.
	Node *corev3.Node
	// Types are type URLs. Endpoints need clusters beside them, route configurations need listeners
	// or scoped routes, and secrets need Secrets and an origin that has them enabled. Empty:
	// clusters, endpoints, listeners and route configurations.
	Types []string
	// Secrets are the names of the secrets that are written.
	Secrets []string
	// OrderHold is the time between a change and what must come after it. Zero: none.
	OrderHold time.Duration
	// ColdWait is for how long the connected origin may be silent about a name or a list before
	// nothing waits for it.
	ColdWait time.Duration
	// Log has what fails. Nil: nothing is logged.
	Log *zap.Logger
	// Metrics counts what is written. Nil counts nothing.
	Metrics *metrics.Metrics
}

// DefaultTypes are what Config.Types means when it is empty.
func DefaultTypes() []string {
	return []string{xds.ClusterType, xds.EndpointType, xds.ListenerType, xds.RouteType}
}

// Types are the type URLs that can be written, in the order in which they are.
func Types() (all []string) {
	for _, k := range kinds {
		all = append(all, k.typeURL)
	}
	return all
}

// kind is a type that can be written.
type kind struct {
	typeURL string
	short   string // its files begin so
	list    bool   // all resources are one file; else each has its own
	from    []string
}

// kinds are in the order in which they are written: what is referred to before what refers to it.
var kinds = []*kind{
	{typeURL: xds.SecretType, short: "sds"},
	{typeURL: xds.EndpointType, short: "eds", from: []string{xds.ClusterType}},
	{typeURL: xds.ClusterType, short: "cds", list: true},
	{typeURL: xds.RouteType, short: "rds", from: []string{xds.ListenerType, xds.ScopedRouteType}},
	{typeURL: xds.ScopedRouteType, short: "srds", list: true},
	{typeURL: xds.ListenerType, short: "lds", list: true},
}

// late reports whether resources of the type refer to clusters, and so are written a hold after
// those.
func (k *kind) late() bool {
	return slices.Contains([]string{xds.RouteType, xds.ScopedRouteType, xds.ListenerType}, k.typeURL)
}

// problems are what is wrong with the configuration.
func (c *Config) problems() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("path: is required"))
	}
	for i, typeURL := range c.Types {
		at := slices.IndexFunc(kinds, func(k *kind) bool { return k.typeURL == typeURL })
		if at < 0 {
			errs = append(errs, fmt.Errorf("types[%d]: resources of %s cannot be written to files", i, typeURL))
			continue
		}
		from, listed := kinds[at].from, func(f string) bool { return slices.Contains(c.Types, f) }
		if len(from) > 0 && !slices.ContainsFunc(from, listed) {
			errs = append(errs, fmt.Errorf(
				"types[%d]: %s is asked by the names that %s has, which is not in the list",
				i, kinds[at].short, metrics.ShortName(from[0])))
		}
	}
	switch has := slices.Contains(c.Types, xds.SecretType); {
	case has && len(c.Secrets) == 0:
		errs = append(errs, errors.New("secrets: the secrets to be written must be named"))
	case !has && len(c.Secrets) > 0:
		errs = append(errs, errors.New("secrets: sds is not in types"))
	}
	return errors.Join(errs...)
}
