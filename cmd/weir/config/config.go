package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/weir-xds/weir/downstream/authz"
)

// Config is the whole file. It is not modified after Parse.
type Config struct {
	// Name is the deployment's name, equal on all replicas; it is part of the
	// node ids presented upstream. Default: weir.
	Name string `yaml:"name"`
	// Instance names this process in ControlPlane.identifier and weir-via. Default: empty, which
	// means the host name at the start; in weir-via followed by the first listener's address, so
	// that relays on one host have different names.
	Instance string `yaml:"instance"`
	// Listeners are the addresses clients connect to.
	// Default: one listener with its defaults.
	Listeners []Listener `yaml:"listeners"`
	// Origins are the control planes and directories weir takes configuration
	// from. At least one is required.
	Origins []Origin `yaml:"origins"`
	// Cache says how long what no client wants is kept.
	Cache Cache `yaml:"cache"`
	// Sinks are directories that weir writes configuration to, for Envoys that
	// read files. Default: none.
	Sinks []Sink `yaml:"sinks"`
	// Types are resource types beside those of xDS, and messages within resources that weir does
	// not know, by full type URL. Default: none.
	Types map[string]Type `yaml:"types"`
	// Authorization lists rules of who may ask what. As soon as there is one, what none of them
	// allows is denied. Default: empty, everything the listener admits.
	Authorization []Rule `yaml:"authorization"`
	// Limits bound what clients can cost. Every refusal names its key.
	Limits Limits `yaml:"limits"`
	// Timing has all waits and intervals.
	Timing Timing `yaml:"timing"`
	// Ready says what makes the process ready, beside timing.ready_wait.
	Ready Ready `yaml:"ready"`
	// Admin is the port for operators.
	Admin Admin `yaml:"admin"`
	// Probes is a second, smaller port for kubelet and Prometheus.
	Probes Probes `yaml:"probes"`
	// Log configures the log.
	Log Log `yaml:"log"`
	// Metrics configures /metrics.
	Metrics Metrics `yaml:"metrics"`
	// Tracing exports traces of updates.
	Tracing Tracing `yaml:"tracing"`

	// source has the position of each value, for Problemf.
	source *report
	rules  *authz.Rules // of Authorization; nil: none
}

// Type describes a message to weir. A new type of resource needs no code: payloads are opaque,
// except where JSON, YAML or text is read or written.
type Type struct {
	// NameField says where a resource that comes without a name has it, as it may in dialect sotw,
	// REST and files (RELAY-14): the name of a string field of the message, or its number if the
	// message's descriptors are not known. origins[].name_fields overrides it. Default: empty,
	// field 1, if that reads like a name.
	NameField string `yaml:"name_field"`
	// Descriptors is a file with the message's descriptor, a FileDescriptorSet as protoc writes it
	// with --include_imports. Without it JSON, YAML and text of the message cannot be read. It is
	// read at the start and at each reload. Messages that are linked in, Envoy's, override it.
	// Default: empty.
	Descriptors string `yaml:"descriptors" path:"file"`
}

// Ready says what makes the process ready: that each origin has answered a request since the
// start, or that what it last said was restored.
type Ready struct {
	// Types are those that weir itself asks an origin for that has answered nobody yet, with the
	// node of a client that has none. It does so while no client asks that origin, and not in the
	// first second, so that where clients come at once they alone ask. Of an origin with types of
	// its own it asks for those only; for all of its own but secrets, if it has none of these. An
	// empty list: clients alone ask, so without them weir is ready when timing.ready_wait is over.
	// Default: [cds, lds].
	Types []string `yaml:"types"`
}

// Admin is the operators' port.
type Admin struct {
	// Address is host:port or unix:///path. One that is neither loopback nor a Unix socket needs
	// tls or insecure: true. Default: 127.0.0.1:19080.
	Address string `yaml:"address"`
	// Insecure permits plaintext on an address that others can reach. Default: false.
	Insecure bool `yaml:"insecure"`
	// TokenFile has a bearer token that requests need, except for /healthz and /readyz from this
	// machine. It is read again when it changes. Default: empty, no token; then everything but Open
	// is refused on an address that others can reach, unless tls.client_ca is set.
	TokenFile string `yaml:"token_file" path:"file"`
	// TLS is the port's certificate. Default: plaintext.
	TLS ServerTLS `yaml:"tls"`
	// Hosts are names and addresses, without ports, that requests may have as their Host, besides
	// localhost, loopback and the port's own addresses. Requests with another Host are refused, so
	// that a web site cannot use this port by having its own name resolve to this address. Default:
	// none.
	Hosts []string `yaml:"hosts"`
	// Open lists which of /healthz, /readyz and /metrics are served to everybody, under any Host.
	// Default: none; this machine has /healthz and /readyz.
	Open []string `yaml:"open"`
	// Pprof serves /debug/pprof/. Default: true.
	Pprof bool `yaml:"pprof"`
}

// Probes is a second address with only /healthz, /readyz and /metrics.
type Probes struct {
	// Address is host:port or unix:///path. Default: empty, off.
	Address string `yaml:"address"`
}

// Log configures the log.
type Log struct {
	// Level is debug, info, warn or error. Default: info.
	Level string `yaml:"level"`
	// Levels are those of some packages, by name, where they differ from Level: admin, config,
	// downstream, seed, sink, snapshot, tls, tracing, upstream, weir. Default: none.
	Levels map[string]string `yaml:"levels"`
	// Format is json or console. Default: json.
	Format string `yaml:"format"`
}

// Metrics configures /metrics.
type Metrics struct {
	// Exemplars gives weir_propagation_seconds exemplars, which name the stream and the node of a
	// client. /metrics is then in the OpenMetrics format for those who ask for it, as Prometheus
	// does with exemplar storage. Default: false.
	Exemplars bool `yaml:"exemplars"`
}

// Default is the meaning of an empty file. It lacks an origin, so Parse would refuse it.
func Default() *Config {
	c := &Config{
		Name:    "weir",
		Admin:   Admin{Address: "127.0.0.1:19080", TLS: ServerTLS{MinVersion: TLS13}, Pprof: true},
		Log:     Log{Level: "info", Format: "json"},
		Tracing: Tracing{Sample: 0.01},
	}
	c.Listeners = []Listener{{}}
	c.Listeners[0].setDefaults()
	c.Cache.setDefaults()
	c.Limits.setDefaults()
	c.Timing.setDefaults()
	c.Ready.Types = []string{"cds", "lds"}
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
	src := c.source
	if src == nil {
		src = newReport("")
	}
	return src.problem(path, fmt.Sprintf(format, args...))
}
