package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"

	"github.com/weir-xds/weir/downstream/authz"
)

// Config is the whole file. It is not modified after Parse.
type Config struct {
	// Name is the deployment's name, the same on all replicas.
	//
	// It is part of the node ids presented upstream. Default: weir.
	Name string `yaml:"name" default:"weir" reload:"restart"`
	// Instance names this process in `ControlPlane.identifier` and in the `weir-via` header.
	//
	// In weir-via the host name is followed by the first listener's address, so that relays on one
	// host differ. Default: empty, the host name.
	Instance string `yaml:"instance" reload:"restart"`
	// Listeners are the addresses clients connect to. Default: one listener with its defaults.
	Listeners []Listener `yaml:"listeners" each:"ends streams"`
	// Origins are the control planes and directories that weir takes configuration from.
	//
	// At least one is required.
	Origins []Origin `yaml:"origins" required:"true" each:"ends streams"`
	// Cache bounds resources that no client wants, and says where weir saves them.
	Cache Cache `yaml:"cache"`
	// Sinks are directories that weir writes configuration to, for Envoys that read files.
	// Default: none.
	Sinks []Sink `yaml:"sinks" reload:"live"`
	// Types are messages that weir does not know, by full type URL: resource types, and messages
	// inside resources. Default: none.
	Types map[string]Type `yaml:"types" reload:"reconnects"`
	// Authorization are rules that allow identities to subscribe.
	//
	// With at least one rule, every request that no rule allows is denied. Default: empty,
	// everything the listener admits.
	Authorization []Rule `yaml:"authorization" reload:"live"`
	// Limits are bounds on what clients can cost. 0 is no limit.
	//
	// Every refusal names its key.
	Limits Limits `yaml:"limits"`
	// Timing sets waits and intervals.
	Timing Timing `yaml:"timing"`
	// Ready says when the process is ready, with timing.ready_wait.
	Ready Ready `yaml:"ready"`
	// Admin is the port for operators.
	Admin Admin `yaml:"admin" reload:"restart"`
	// Probes is a second, smaller port for the kubelet and Prometheus.
	Probes Probes `yaml:"probes" reload:"restart"`
	// Log configures the log.
	Log Log `yaml:"log"`
	// Metrics configures /metrics.
	Metrics Metrics `yaml:"metrics" reload:"live"`
	// Tracing exports traces of updates.
	Tracing Tracing `yaml:"tracing" reload:"restart"`

	// source has the position of each value, for Problemf.
	source *report
	rules  *authz.Rules // of Authorization; nil: none
}

// Type describes a message to weir. A new type of resource needs no code: payloads are opaque,
// except where JSON, YAML or text is read or written.
type Type struct {
	// NameField is the string field with the resource's name, or its number if the descriptor is
	// unknown.
	//
	// Used where a resource may come without its name: dialect sotw, REST and files (RELAY-14).
	// origins[].name_fields overrides it. Default: empty, field 1, if it reads like a name.
	NameField string `yaml:"name_field"`
	// Descriptors is a FileDescriptorSet with the message, from protoc --include_imports.
	//
	// Without it weir cannot read the message as JSON, YAML or text. It is read at the start and
	// at each reload. Messages linked into weir, Envoy's, take precedence. Default: empty.
	Descriptors string `yaml:"descriptors" path:"file"`
}

// Ready says when the process is ready: each origin has answered a request since the start, or its
// last resources were restored.
type Ready struct {
	// Types are types that weir requests itself from an origin that has not answered any client
	// yet.
	//
	// weir requests them with the node of a client that has none, after one second in which no
	// client subscribes at that origin. From an origin with origins[].types it requests only those
	// on both lists, or all of origins[].types except secrets if none is on both. With an empty
	// list only clients subscribe; without clients weir is ready when timing.ready_wait is over.
	// Default: [cds, lds].
	Types []string `yaml:"types" default:"cds,lds" reload:"reconnects"`
}

// Admin is the operators' port.
type Admin struct {
	// Address is `host:port` or `unix:///path`. An address that other hosts can reach needs tls or
	// `insecure: true`. Default: 127.0.0.1:19080.
	Address string `yaml:"address" default:"127.0.0.1:19080"`
	// Insecure permits plaintext on an address that other hosts can reach. Default: false.
	Insecure bool `yaml:"insecure"`
	// TokenFile is a file with the bearer token that requests need; re-read when it changes.
	//
	// /healthz and /readyz from this machine need none. Without a token or tls.client_ca, only the
	// paths in open are served on an address that other hosts can reach. Default: empty, no token.
	TokenFile string `yaml:"token_file" path:"file"`
	// TLS is the port's certificate. Default: plaintext.
	TLS ServerTLS `yaml:"tls"`
	// Hosts are further Host headers to accept, without ports.
	//
	// localhost, loopback and the port's own addresses are always accepted. Other requests are
	// refused, so that a web site cannot reach this port by DNS rebinding. Default: none.
	Hosts []string `yaml:"hosts"`
	// Open are those of `/healthz`, `/readyz` and `/metrics` that need no token and accept any
	// Host.
	//
	// /healthz and /readyz are always open to this machine. Default: none.
	Open []string `yaml:"open"`
	// Pprof serves /debug/pprof/. Default: true.
	Pprof bool `yaml:"pprof" default:"true"`
}

// Probes is a second address with only /healthz, /readyz and /metrics.
type Probes struct {
	// Address is `host:port` or `unix:///path`. It serves only /healthz, /readyz and /metrics.
	// Default: empty, off.
	Address string `yaml:"address"`
}

// Log configures the log.
type Log struct {
	// Level is `debug`, `info`, `warn` or `error`. Default: info.
	Level string `yaml:"level" default:"info" one_of:"debug,info,warn,error" reload:"live"`
	// Levels maps packages to their own level.
	//
	// The packages are admin, config, downstream, seed, sink, snapshot, tls, tracing, upstream and
	// weir. Default: none.
	Levels map[string]string `yaml:"levels" one_of:"debug,info,warn,error" reload:"live"`
	// Format is `json` or `console`. Default: json.
	Format string `yaml:"format" default:"json" one_of:"json,console" reload:"restart"`
}

// Metrics configures /metrics.
type Metrics struct {
	// Exemplars adds exemplars to weir_propagation_seconds. They name a client's stream and node.
	//
	// /metrics then answers in the OpenMetrics format where the scraper asks for it, as Prometheus
	// does with exemplar storage. Default: false.
	Exemplars bool `yaml:"exemplars"`
}

// Default is the meaning of an empty file. It lacks an origin, so Parse would refuse it.
func Default() *Config {
	c := newDefault(reflect.TypeFor[Config]()).Addr().Interface().(*Config)
	c.Listeners = []Listener{newDefault(reflect.TypeFor[Listener]()).Interface().(Listener)}
	return c
}

// Load reads and checks a file, with variables from the environment. Its errors are those of Parse.
func Load(path string) (*Config, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(path, data, os.LookupEnv)
}

// Parse reads and checks one YAML document. name is used in messages, and relative paths in the
// file start at its directory. env looks up variables; nil has none. The error joins every *Problem
// found, sorted by line; Problems returns them.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	src := newReport(name)
	src.text = data
	root, err := parseYAML(src, data)
	if err != nil {
		return nil, err
	}
	c := Default()
	c.source = src
	d := newDecoder(src, env)
	if root != nil && !d.document(root, c) {
		return nil, src.err()
	}
	c.normalise()
	c.check(src)
	if err := src.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Text returns the argument of Parse: the file, with variables and secrets as written. It must not
// be modified.
func (c *Config) Text() []byte {
	if c.source == nil {
		return nil
	}
	return c.source.text
}

// SnapshotPath returns cache.snapshot.path of a file that Parse refuses, as far as it can be read;
// "" if it cannot.
func SnapshotPath(name string, data []byte, env func(string) (string, bool)) string {
	for _, text := range [][]byte{data, cacheBlock.Find(append(data[:len(data):len(data)], '\n'))} {
		src := newReport(name)
		root, err := parseYAML(src, text)
		if err != nil || root == nil {
			continue
		}
		c := Default()
		newDecoder(src, env).document(root, c)
		if path := c.Cache.Snapshot.Path; path != "" {
			return path
		}
	}
	return ""
}

// cacheBlock matches the key cache in a file that is not valid YAML elsewhere.
var cacheBlock = regexp.MustCompile(`(?m)^cache:.*\n(?:[ \t#].*\n|\n)*`)

// Warnings are about values that are valid but hardly intended, sorted by line.
func (c *Config) Warnings() []*Problem {
	if c.source == nil {
		return nil
	}
	return slices.SortedStableFunc(slices.Values(c.source.warnings), byPlace)
}

// Problemf makes a problem that was found later (a certificate that cannot be read, an address in
// use), at the place of the field. The path is as in messages, such as "origins[0].grpc.tls.ca"; a
// field that was not written is reported at its nearest written parent.
func (c *Config) Problemf(path, format string, args ...any) *Problem {
	return c.report().problem(path, fmt.Sprintf(format, args...))
}

// report has the positions of the file; of a configuration that is of none, it has no names.
func (c *Config) report() *report { return cmp.Or(c.source, newReport("")) }
