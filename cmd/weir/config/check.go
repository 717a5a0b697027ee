package config

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weir-xds/weir/cmd/weir/levels"
)

// checker applies the rules that the Go types cannot express.
type checker struct {
	*report
	undecoded []*Problem // problems reported before the checks began
}

// addf reports a problem, unless the value did not decode: the check would then judge a default
// that the author never meant.
func (k checker) addf(path, format string, args ...any) {
	if !k.full() && !slices.ContainsFunc(k.undecoded, func(p *Problem) bool { return within(p.Path, path) || within(path, p.Path) }) {
		k.report.addf(path, format, args...)
	}
}

// warnf is addf for values that are valid but hardly intended.
func (k checker) warnf(path, format string, args ...any) {
	if len(k.warnings) < maxProblems && !slices.ContainsFunc(k.undecoded, func(p *Problem) bool { return within(p.Path, path) || within(path, p.Path) }) {
		w := k.problem(path, fmt.Sprintf(format, args...))
		w.Warning = true
		k.warnings = append(k.warnings, w)
	}
}

// within reports whether path is at or below top, which is not the root.
func within(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && top != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// normalise sets what depends on other values.
func (c *Config) normalise() {
	for i := range c.Listeners {
		normaliseTypes(c.Listeners[i].NoLegacyWildcard)
		normaliseTypes(c.Listeners[i].Dedicated)
	}
	for i := range c.Origins {
		normaliseTypes(c.Origins[i].Types)
		normaliseTypes(c.Origins[i].AbsenceKeeps)
		normaliseTypes(c.Origins[i].Canary.Urgent)
		c.Origins[i].NameFields = normaliseFields(c.Origins[i].NameFields)
	}
	for i := range c.Sinks {
		normaliseTypes(c.Sinks[i].Types)
	}
	for i := range c.Authorization {
		normaliseTypes(c.Authorization[i].Types)
	}
	normaliseTypes(c.Ready.Types)
	if len(c.Origins) > 0 && !slices.ContainsFunc(c.Origins, func(o Origin) bool { return o.Default }) {
		c.Origins[0].Default = true
	}
	for i := range c.Origins {
		if o := &c.Origins[i]; o.GroupBy == nil && !c.OnlyAuthorities(o) {
			o.GroupBy = slices.Clone(defaultGroupBy)
			if o.REST != nil {
				o.GroupBy = append(o.GroupBy, "user_agent_version")
			}
		}
	}
}

// OnlyAuthorities reports whether an origin is asked only for xdstp names of its authorities, which
// do not depend on the client (RELAY-63).
func (c *Config) OnlyAuthorities(o *Origin) bool {
	return len(o.Authorities) > 0 && !o.Default &&
		!slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.Origin == o.Name })
}

// normaliseTypes makes full type URLs. The check reports what is no type.
func normaliseTypes(names []string) {
	for i := range names {
		names[i], _ = TypeURL(names[i])
	}
}

// normaliseFields is normaliseTypes for keys. A type that is written in both ways stays as it is,
// for the check to report.
func normaliseFields(fields map[string]int) map[string]int {
	out := make(map[string]int, len(fields))
	for name, n := range fields {
		url, _ := TypeURL(name)
		if _, twice := fields[url]; twice {
			url = name
		}
		out[url] = n
	}
	return out
}

func (c *Config) check(r *report) {
	k := checker{report: r, undecoded: slices.Clone(r.problems)}
	k.name("name", c.Name)
	if c.Instance != "" {
		k.name("instance", c.Instance)
	}
	if len(c.Listeners) == 0 {
		k.addf("listeners", "at least one is needed")
	}
	for i := range c.Listeners {
		k.listener(fmt.Sprintf("listeners[%d]", i), &c.Listeners[i], c.Origins)
	}
	k.origins(c.Origins)
	k.identities(c)
	k.canaries(c)
	k.sinks(c)
	k.messages(c.Types)
	k.authorization(c)
	k.secretsByIdentity(c)
	k.size("limits.request_bytes", c.Limits.RequestBytes)
	k.size("limits.name_bytes", c.Limits.NameBytes)
	if m := c.Limits.Memory; m > 0 && m < leastMemory {
		k.addf("limits.memory", "must be at least 32MiB, or 0")
	}
	for i := range c.Origins {
		if b := c.Origins[i].Limits.Bytes; c.Limits.Memory > 0 && b > c.Limits.Memory {
			k.addf(fmt.Sprintf("origins[%d].limits.bytes", i), "is more than limits.memory")
		}
	}
	k.history(&c.Cache.History)
	if s := &c.Cache.Snapshot; s.Path != "" && s.Interval < 100*time.Millisecond {
		k.addf("cache.snapshot.interval", "must be at least 100ms")
	}
	if m := c.Cache.Snapshot.MaxBytes; m > 0 && m < leastSnapshot {
		k.addf("cache.snapshot.max_bytes", "must be at least 1MiB, or 0 for no bound")
	}
	if c.Cache.Snapshot.KeyFile != "" && !c.Cache.UsesKey() {
		k.warnf("cache.snapshot.key_file", "is not used: cache.snapshot.path is empty, so nothing is written")
	}
	k.seed(&c.Cache.Seed)
	k.timing(&c.Timing)
	k.types("ready.types", c.Ready.Types)
	k.admin(&c.Admin)
	if c.Probes.Address != "" {
		k.address("probes.address", c.Probes.Address)
	}
	k.distinctAddresses(c)
	for _, name := range slices.Sorted(maps.Keys(c.Log.Levels)) {
		k.oneOf(join("log.levels", name), name, levels.Packages...)
		k.oneOf(join("log.levels", name), c.Log.Levels[name], levels.Texts...)
	}
	k.tracing(&c.Tracing)
	k.choices("", reflect.ValueOf(c).Elem())
}

// history reports bounds under which nothing could be kept: versions alone turns history off.
func (k checker) history(h *History) {
	if h.Bytes < 1<<20 {
		k.addf("cache.history.bytes", "must be at least 1MiB; cache.history.versions: 0 keeps no history")
	}
	if h.Age < time.Minute {
		k.addf("cache.history.age", "must be at least 1m; cache.history.versions: 0 keeps no history")
	}
	if h.Versions > mostVersions {
		k.addf("cache.history.versions", "must be at most %d", mostVersions)
	}
}

// mostVersions is more than anybody compares; so many of one resource are looked through at once.
const mostVersions = 1000

// leastMemory is more than a weir without clients needs, in bytes.
const leastMemory = 32 << 20

// leastSnapshot is snapshot.LeastBytes.
const leastSnapshot = 1 << 20

func (k checker) listener(path string, l *Listener, origins []Origin) {
	k.address(path+".address", l.Address)
	k.serverTLS(path+".tls", l.TLS)
	k.openListener(path, l)
	k.types(path+".no_legacy_wildcard", l.NoLegacyWildcard)
	k.types(path+".dedicated", l.Dedicated)
	k.features(path+".assume_features", l.AssumeFeatures)
	known := slices.ContainsFunc(origins, func(o Origin) bool { return o.Name == l.Origin })
	if l.Origin != "" && !known {
		k.addf(path+".origin", "there is no origin %q", l.Origin)
	}
	k.secretsHere(path, l, origins)
}

func (k checker) admin(a *Admin) {
	k.address("admin.address", a.Address)
	k.serverTLS("admin.tls", a.TLS)
	if !isLocal(a.Address) && !a.TLS.Enabled() && !a.Insecure {
		k.addf("admin.address", "other hosts can reach %q: it needs admin.tls, or admin.insecure: true", a.Address)
	}
	if a.TLS.SPIFFE != "" && len(a.TLS.Allowed) == 0 {
		k.addf("admin.tls.spiffe", "needs allowed as well: any workload of the trust domain would have full access")
	}
	k.openAdmin(a)
	for i, host := range a.Hosts {
		if _, err := netip.ParseAddr(host); err != nil && !hostShape.MatchString(host) {
			k.addf(fmt.Sprintf("admin.hosts[%d]", i), "%q is no host name or address; write it without a scheme and a port", host)
		}
	}
	for i, path := range a.Open {
		k.oneOf(fmt.Sprintf("admin.open[%d]", i), path, "/healthz", "/readyz", "/metrics")
	}
}

var hostShape = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$`)

func (k checker) timing(t *Timing) {
	b, a := t.Backoff, t.Keepalive
	if b.Base == 0 {
		k.addf("timing.backoff.base", "must be more than 0s")
	}
	if b.Factor < 1 {
		k.addf("timing.backoff.factor", "must be at least 1")
	}
	if b.Jitter > 1 {
		k.addf("timing.backoff.jitter", "must be between 0 and 1")
	}
	if b.Max < b.Base {
		k.addf("timing.backoff.max", "must be at least timing.backoff.base (%s)", b.Base)
	}
	if a.Time != 0 && a.Time.Seconds() < 10 {
		k.addf("timing.keepalive.time", "must be at least 10s, or 0s to send none")
	}
	if t.Coalesce > 10*time.Second {
		k.addf("timing.coalesce", "must be at most 10s: clients lag by as much")
	}
	if t.MaxStreamAge != 0 && t.MaxStreamAge < time.Second {
		k.addf("timing.max_stream_age", "must be at least 1s, or 0s for no bound")
	}
	if a.Time != 0 && a.Timeout == 0 {
		k.addf("timing.keepalive.timeout", "must be more than 0s")
	}
}

// distinctAddresses reports an address on two ports; port 0 is a new one each time.
func (k checker) distinctAddresses(c *Config) {
	first := make(map[string]string)
	use := func(path, address string) {
		other, taken := first[address]
		switch {
		case address == "" || strings.HasSuffix(address, ":0"):
		case taken:
			k.addf(path, "%q is already %s", address, other)
		default:
			first[address] = path
		}
	}
	for i := range c.Listeners {
		use(fmt.Sprintf("listeners[%d].address", i), c.Listeners[i].Address)
	}
	use("admin.address", c.Admin.Address)
	use("probes.address", c.Probes.Address)
	use("cache.seed.listen", c.Cache.Seed.Listen)
}

// choices reports values that the tags do not list.
func (k checker) choices(path string, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		k.choices(path, v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			k.choices(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case v.Kind() == reflect.Struct:
		for key, f := range keysOf(v.Type()) {
			at, x := join(path, key), v.FieldByIndex(f.Index)
			if allowed := choicesOf(at, f.Tag); allowed != nil && x.Kind() == reflect.String && !slices.Contains(allowed, x.String()) {
				k.oneOf(at, x.String(), slices.DeleteFunc(allowed, func(text string) bool { return text == "" })...)
			}
			k.choices(at, x)
		}
	}
}

func (k checker) oneOf(path, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	if near, ok := Nearest(value, allowed); ok {
		k.addf(path, "%q is not one of %s; did you mean %q?", value, strings.Join(allowed, ", "), near)
		return
	}
	k.addf(path, "%q is not one of %s", value, strings.Join(allowed, ", "))
}

var nameShape = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

// name reports what cannot stand unescaped in a node id, a label and a URL.
func (k checker) name(path, name string) {
	if name == "" {
		k.addf(path, "is required")
	} else if !nameShape.MatchString(name) {
		k.addf(path, "%q must be letters, digits, '.', '_' and '-', at most 64, with a letter or digit at each end", name)
	}
}

func (k checker) types(path string, names []string) {
	seen := make(map[string]bool)
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		if _, ok := TypeURL(name); !ok {
			k.unknownType(at, name)
		} else if seen[name] {
			k.addf(at, "%q is listed twice", name)
		}
		seen[name] = true
	}
}

func (k checker) unknownType(path, name string) {
	k.addf(path, "%q is no type; write one of %s or a full type URL", name, strings.Join(ShortNames(), ", "))
}

// size reports what gRPC cannot express: it uses int32 in places.
func (k checker) size(path string, b Bytes) {
	if b > math.MaxInt32 {
		k.addf(path, "must be less than 2GiB")
	}
}

func (k checker) address(path, address string) {
	if msg := addressFault(address); msg != "" {
		k.addf(path, "%q %s", address, msg)
	}
}

// addressFault returns what is wrong with host:port or unix:///path.
func addressFault(address string) string {
	if socket, ok := strings.CutPrefix(address, "unix://"); ok {
		if !strings.HasPrefix(socket, "/") || socket == "/" {
			return "must be unix:///path, with an absolute path"
		}
		return ""
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, "/ \t\r\n") {
		return "is neither host:port nor unix:///path"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "has no port between 0 and 65535"
	}
	return ""
}

// isLocal reports whether only this machine can reach an address. An address without a host is
// every interface.
func isLocal(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // reported as no address at all
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// grpcHeaders reports headers that cannot be sent: gRPC reserves some. The value may be a
// credential, so it is not quoted.
func (k checker) grpcHeaders(path string, headers map[string]string) {
	for name, value := range headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || strings.HasPrefix(strings.ToLower(name), "grpc-") {
			k.addf(join(path, name), "is not a header gRPC can send")
		}
	}
}
