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

// Config configures a Sink. It is not modified after New.
type Config struct {
	// Path is the directory. It is made if it does not exist; it must be the sink's only.
	Path string
	// Origin is the table's part for the origin of the resources. Required.
	Origin *relay.Origin
	// Node is the node to present, like a client's. Nil: none.
	Node *corev3.Node
	// Types are type URLs. Endpoints need clusters beside them, route configurations need listeners
	// or scoped routes, and secrets need Secrets and an origin that has them enabled. Empty:
	// DefaultTypes.
	Types []string
	// Secrets are the names of the secrets that are written.
	Secrets []string
	// OrderHold is the time between a change and what must come after it. Zero: none.
	OrderHold time.Duration
	// ColdWait is how long the connected origin may be silent about a name or a list before nothing
	// waits for it.
	ColdWait time.Duration
	// Log gets failures. Nil: no log.
	Log *zap.Logger
	// Metrics counts the files written. Nil: nothing is counted.
	Metrics *metrics.Metrics
}

// DefaultTypes returns the types that an empty Config.Types means: clusters, endpoints, listeners
// and route configurations.
func DefaultTypes() []string {
	return []string{xds.ClusterType, xds.EndpointType, xds.ListenerType, xds.RouteType}
}

// Types returns the type URLs that can be written, in order of writing.
func Types() (all []string) {
	for _, k := range kinds {
		all = append(all, k.typeURL)
	}
	return all
}

// kind is a type that can be written.
type kind struct {
	typeURL string
	short   string // prefix of its files
	list    bool   // one file has all resources; otherwise each has its own
	from    []string
}

// kinds are in order of writing: what is referred to comes before what refers to it.
var kinds = []*kind{
	{typeURL: xds.SecretType, short: "sds"},
	{typeURL: xds.EndpointType, short: "eds", from: []string{xds.ClusterType}},
	{typeURL: xds.ClusterType, short: "cds", list: true},
	{typeURL: xds.RouteType, short: "rds", from: []string{xds.ListenerType, xds.ScopedRouteType}},
	{typeURL: xds.ScopedRouteType, short: "srds", list: true},
	{typeURL: xds.ListenerType, short: "lds", list: true},
}

// late reports whether resources of the type refer to clusters, so that they are written a hold
// after those.
func (k *kind) late() bool {
	return slices.Contains([]string{xds.RouteType, xds.ScopedRouteType, xds.ListenerType}, k.typeURL)
}

// problems returns all problems of the configuration, joined.
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
