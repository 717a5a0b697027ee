package config

import (
	"slices"
	"strings"
	"testing"
)

const origin = "origins: [{name: mesh, grpc: {addresses: ['cp:18000']}}]\n"

func noEnv(string) (string, bool) { return "", false }

// messages parses a file that must fail and returns its problems as printed.
func messages(t *testing.T, text string) []string {
	t.Helper()
	_, err := Parse("weir.yaml", []byte(text), noEnv)
	if err == nil {
		return nil
	}
	var out []string
	for _, p := range Problems(err) {
		out = append(out, p.Error())
	}
	if got := strings.Join(out, "\n"); got != err.Error() {
		t.Errorf("the error prints as\n%v\nits problems as\n%s", err, got)
	}
	return out
}

// Five different mistakes in one file: five messages, in the order of lines.
func TestFiveMistakes(t *testing.T) {
	got := messages(t, `listeners:
  - adress: 127.0.0.1:1
timing:
  settle: 30
limits: { streams: many }
origins:
  - name: mesh
    grpc:
      addresses: [control-plane]
  - name: mesh
    files: { path: ./x }
`)
	want := []string{
		`weir.yaml:2:5: listeners[0].adress: unknown key; did you mean "address"?`,
		`weir.yaml:4:11: timing.settle: "30" is not a duration such as 250ms, 30s or 10m`,
		`weir.yaml:5:20: limits.streams: "many" is not a whole number`,
		`weir.yaml:9:19: origins[0].grpc.addresses[0]: "control-plane" is neither host:port nor unix:///path`,
		`weir.yaml:10:11: origins[1].name: "mesh" is already the name of origins[0]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// mapping is a file with an origin of tp2 and parameters from nodes.
func mapping(fromNode string) string {
	return "origins:\n- {name: a, files: {path: x}, tp2: true, dynamic_parameters: {from_node: " + fromNode + "}}\n"
}

// Each file has one mistake and must get exactly one message.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "1:1: origins: no origins; at least one is needed"},
		"comments only":      {"# nothing\n", "1:1: origins: no origins; at least one is needed"},
		"empty list":         {"origins: []\n", "1:10: origins: no origins; at least one is needed"},
		"item":               {"origins: [5]\n", "1:11: origins[0]: must be a mapping, not a single value"},
		"root":               {"- a\n", "1:1: must be a mapping, not a list"},
		"syntax":             {"origins: [\n", "2:1: not valid YAML: "},
		"second document":    {origin + "---\nname: x\n", "2:1: a second document begins here; only one is read"},
		"bad second":         {origin + "---\n{", "not valid YAML: "},
		"duplicate key":      {origin + "name: a\nname: b\n", "3:1: name: given twice, first in line 2"},
		"merge key":          {origin + "log: {<<: {level: info}}\n", `2:7: log."<<": YAML merge keys`},
		"tag":                {origin + "name: !!str weir\n", "2:7: name: YAML tags such as !!str"},
		"null":               {origin + "log:\n", "2:5: log: has no value"},
		"unknown, far":       {origin + "zzzzzzzz: 1\n", "2:1: zzzzzzzz: unknown key"},
		"unknown, gone":      {origin + "timing:\n  ack_wait: 5s\n", `3:3: timing.ack_wait: unknown key`},
		"unknown, swapped":   {origin + "nmae: a\n", `2:1: nmae: unknown key; did you mean "name"?`},
		"unknown, deep":      {origin + "timing: {keepalive: {tiem: 1s}}\n", `2:22: timing.keepalive.tiem: unknown key; did you mean "time"?`},
		"list for value":     {origin + "name: [a]\n", "2:7: name: must be a single value, not a list"},
		"value for mapping":  {origin + "log: info\n", "2:6: log: must be a mapping, not a single value"},
		"bool":               {origin + "admin: {insecure: yes}\n", `2:19: admin.insecure: "yes" is neither true nor false`},
		"negative":           {origin + "limits: {streams: -1}\n", `limits.streams: "-1" must not be negative`},
		"huge":               {origin + "limits: {streams: 99999999999999999999}\n", "is too large"},
		"float":              {origin + "timing: {backoff: {factor: .nan}}\n", "is not a number"},
		"negative wait":      {origin + "timing: {settle: -1s}\n", "must not be negative"},
		"endless wait":       {origin + "timing: {max_stream_age: 876000h}\n", `"876000h" must be at most ten years, 87600h`},
		"size":               {origin + "limits: {name_bytes: 64Kb}\n", "is not a size"},
		"size too large":     {origin + "limits: {request_bytes: 2GiB}\n", "must be less than 2GiB"},
		"name":               {origin + "name: a/b\n", `2:7: name: "a/b" must be letters`},
		"no listeners":       {origin + "listeners: []\n", "2:12: listeners: at least one"},
		"listener address":   {origin + "listeners: [{address: localhost}]\n", "2:23: listeners[0].address: "},
		"listener port":      {origin + "listeners: [{address: 'a:65536'}]\n", "has no port between"},
		"socket":             {origin + "listeners: [{address: 'unix://weir.sock'}]\n", "must be unix:///path"},
		"same address":       {origin + "probes: {address: '127.0.0.1:18080'}\n", "probes.address: \"127.0.0.1:18080\" is already listeners[0].address"},
		"mode":               {origin + "listeners: [{socket_mode: 0999}]\n", "is not an octal file mode"},
		"tls key":            {origin + "listeners: [{tls: {cert: a}}]\n", "2:19: listeners[0].tls.key: is missing, but cert is given"},
		"tls crl":            {origin + "listeners: [{tls: {cert: a, key: b, crl: c}}]\n", "listeners[0].tls.crl: needs client_ca as well"},
		"tls client_ca":      {origin + "admin: {tls: {client_ca: a}}\n", "admin.tls.client_ca: needs cert and key"},
		"allowed nobody":     {origin + "listeners: [{tls: {cert: a, key: b, allowed: ['spiffe://a/b']}}]\n", "2:46: listeners[0].tls.allowed: needs client_ca"},
		"allowed, no who":    {origin + "listeners: [{tls: {cert: a, key: b, client_ca: c, allowed: ['spiffe://a/b', web]}}]\n", `2:77: listeners[0].tls.allowed[1]: "web" begins with none of spiffe://`},
		"allowed users":      {origin + "admin: {tls: {cert: a, key: b, client_ca: c, allowed: ['uid:0']}}\n", `admin.tls.allowed[0]: "uid:0" is the identity of no certificate`},
		"server, no who":     {"origins: [{name: a, grpc: {addresses: ['a:1'], tls: {ca: c, server_identity: cp}}}]\n", `1:78: origins[0].grpc.tls.server_identity: "cp" begins with none of`},
		"server, anybody":    {"origins: [{name: a, rest: {urls: ['https://x'], tls: {ca: c, server_identity: anonymous}}}]\n", `origins[0].rest.tls.server_identity: "anonymous" is the identity of no certificate`},
		"server, no ca":      {"origins: [{name: a, grpc: {addresses: ['a:1'], tls: {server_identity: 'spiffe://a/b'}}}]\n", "origins[0].grpc.tls.server_identity: needs ca"},
		"spiffe relative":    {origin + "listeners: [{tls: {spiffe: agent.sock}}]\n", `2:28: listeners[0].tls.spiffe: "agent.sock" must be unix:///path`},
		"spiffe over TCP":    {origin + "listeners: [{tls: {spiffe: 'tcp://127.0.0.1:1'}}]\n", `listeners[0].tls.spiffe: "tcp://127.0.0.1:1" must be unix:///path`},
		"spiffe and files":   {origin + "listeners: [{tls: {spiffe: 'unix:///s', client_ca: a}}]\n", "2:52: listeners[0].tls.client_ca: is for files, but spiffe is set"},
		"spiffe allowed dns": {origin + "listeners: [{tls: {spiffe: 'unix:///s', allowed: ['dns:a.b']}}]\n", `2:51: listeners[0].tls.allowed[0]: "dns:a.b" does not begin with spiffe://`},
		"spiffe for anybody": {origin + "admin: {tls: {spiffe: 'unix:///s'}}\n", "2:23: admin.tls.spiffe: needs allowed as well"},
		"spiffe origin":      {"origins: [{name: a, grpc: {addresses: ['a:1'], tls: {spiffe: 'unix:///s'}}}]\n", "1:62: origins[0].grpc.tls.spiffe: needs server_identity as well"},
		"spiffe origin ca":   {"origins: [{name: a, rest: {urls: ['https://x'], tls: {spiffe: 'unix:///s', ca: c, server_identity: 'spiffe://a/b'}}}]\n", "origins[0].rest.tls.ca: is for files"},
		"spiffe origin dns":  {"origins: [{name: a, grpc: {addresses: ['a:1'], tls: {spiffe: 'unix:///s', server_identity: 'dns:a'}}}]\n", `origins[0].grpc.tls.server_identity: "dns:a" does not begin with spiffe://`},
		"alpn":               {"origins: [{name: a, grpc: {addresses: ['a:1'], tls: {alpn: off}}}]\n", `1:60: origins[0].grpc.tls.alpn: "off" is not one of required, optional`},
		"alpn of rest":       {"origins: [{name: a, rest: {urls: ['https://x'], tls: {alpn: optional}}}]\n", `origins[0].rest.tls.alpn: "optional" is not one of required`},
		"listener origin":    {origin + "listeners: [{origin: mash}]\n", `listeners[0].origin: there is no origin "mash"`},
		"type":               {origin + "listeners: [{no_legacy_wildcard: [xds]}]\n", `listeners[0].no_legacy_wildcard[0]: "xds" is no type`},
		"type twice":         {origin + "listeners: [{no_legacy_wildcard: [eds, eds]}]\n", "listed twice"},
		"admin open":         {origin + "admin: {address: ':19080'}\n", "admin.address: other hosts can reach \":19080\""},
		"admin path":         {origin + "admin: {open: [/healthz, /config]}\n", `2:26: admin.open[1]: "/config" is not one of /healthz, /readyz, /metrics`},
		"admin near":         {origin + "admin: {open: [/metric]}\n", `did you mean "/metrics"?`},
		"host with port":     {origin + "admin: {hosts: [a, 'b:1']}\n", `2:20: admin.hosts[1]: "b:1" is no host name or address; write it without a scheme and a port`},
		"host with scheme":   {origin + "admin: {hosts: ['http://b']}\n", `admin.hosts[0]: "http://b" is no host name`},
		"any host":           {origin + "admin: {hosts: ['*']}\n", `admin.hosts[0]: "*" is no host name`},
		"old TLS":            {origin + "listeners: [{tls: {cert: a, key: b, min_version: '1.1'}}]\n", `listeners[0].tls.min_version: "1.1" is not one of 1.3, 1.2`},
		"log level":          {origin + "log: {level: wran}\n", `log.level: "wran" is not one of debug, info, warn, error; did you mean "warn"?`},
		"log level of one":   {origin + "log: {levels: {seed: wran}}\n", `log.levels.seed: "wran" is not one of debug, info, warn, error; did you mean "warn"?`},
		"trace to a path":    {origin + "tracing: {endpoint: 'http://otel:4317'}\n", `2:21: tracing.endpoint: "http://otel:4317" is not host:port, of a collector that takes OTLP over gRPC`},
		"trace to a socket":  {origin + "tracing: {endpoint: 'unix:///otel'}\n", `tracing.endpoint: "unix:///otel" is not host:port`},
		"trace to no port":   {origin + "tracing: {endpoint: 'otel:0'}\n", `tracing.endpoint: "otel:0" is not host:port`},
		"trace too many":     {origin + "tracing: {sample: 1.5}\n", `2:19: tracing.sample: must be between 0 and 1`},
		"trace header":       {origin + "tracing: {headers: {'a b': secret}}\n", `tracing.headers."a b": is not a header gRPC can send`},
		"trace credential":   {origin + "tracing: {endpoint: 'otel:4317', insecure: true, headers: {authorization: secret}}\n", `looks like a credential and is sent over TLS only, but "otel:4317" is reached in plain text; leave tracing.insecure out`},
		"trace cert alone":   {origin + "tracing: {tls: {cert: c.pem}}\n", `tracing.tls.key: is missing, but cert is given`},
		"trace in both":      {origin + "tracing: {insecure: true, tls: {ca: ca.pem}}\n", `tracing.insecure: is plain text, but tracing.tls has files: choose one`},
		"log of no package":  {origin + "log: {levels: {relay: debug}}\n", `log.levels.relay: "relay" is not one of admin, config, downstream`},
		"backoff max":        {origin + "timing: {backoff: {base: 1m}}\n", "timing.backoff.max: must be at least"},
		"factor":             {origin + "timing: {backoff: {factor: 0.5}}\n", "must be at least 1"},
		"jitter":             {origin + "timing: {backoff: {jitter: 2}}\n", "must be between 0 and 1"},
		"keepalive":          {origin + "timing: {keepalive: {time: 1s}}\n", "at least 10s"},
		"origin name":        {"origins: [{files: {path: x}}]\n", "1:11: origins[0].name: is required"},
		"no kind":            {"origins: [{name: a}]\n", "1:11: origins[0]: needs grpc, files or rest"},
		"misspelled kind":    {"origins: [{name: a, grcp: {}}]\n", `1:21: origins[0].grcp: unknown key; did you mean "grpc"?`},
		"two kinds":          {"origins: [{name: a, files: {path: x}, grpc: {addresses: ['a:1']}}]\n", "has both grpc and files"},
		"rest of before":     {"origins: [{name: a, rest: {url: x, urls: ['http://x']}}]\n", `origins[0].rest.url: unknown key; did you mean "urls"?`},
		"rest and files":     {"origins: [{name: a, rest: {urls: ['http://x']}, files: {path: x}}]\n", "has both files and rest; choose one"},
		"all kinds":          {"origins: [{name: a, rest: {urls: ['http://x']}, files: {path: x}, grpc: {addresses: ['a:1']}}]\n", "has grpc, files and rest"},
		"rest without url":   {"origins: [{name: a, rest: {}}]\n", "origins[0].rest.urls: at least one is needed"},
		"rest of no scheme":  {"origins: [{name: a, rest: {urls: ['x:80']}}]\n", "origins[0].rest.urls[0]: begins with neither http:// nor https://"},
		"rest with password": {"origins: [{name: a, rest: {urls: ['https://u:p@x']}}]\n", "holds a name or password"},
		"rest with query":    {"origins: [{name: a, rest: {urls: ['https://x/?a=b']}}]\n", "must have only a host and a path"},
		"rest url twice":     {"origins: [{name: a, rest: {urls: ['https://x', 'https://x']}}]\n", `urls[1]: "https://x" is listed twice`},
		"rest plain tls":     {"origins: [{name: a, rest: {urls: ['http://x'], tls: {}}}]\n", `"http://x" is plain text, but tls is set: write https`},
		"rest plain token":   {"origins: [{name: a, rest: {urls: ['http://127.0.0.1'], token_file: t}}]\n", "rest.token_file: is sent over TLS only"},
		"rest plain header":  {"origins: [{name: a, rest: {urls: ['http://x'], headers: {x-api-key: k}}}]\n", "rest.headers.x-api-key: looks like a credential"},
		"rest bad header":    {"origins: [{name: a, rest: {urls: ['http://x'], headers: {host: k}}}]\n", "rest.headers.host: is not a header that can be sent"},
		"rest two tokens":    {"origins: [{name: a, rest: {urls: ['https://x'], token_file: t, headers: {Authorization: k}}}]\n", "is set here and by token_file"},
		"rest half a pair":   {"origins: [{name: a, rest: {urls: ['https://x'], tls: {cert: c}}}]\n", "rest.tls"},
		"rest often":         {"origins: [{name: a, rest: {urls: ['http://x'], poll: 5ms}}]\n", "rest.poll: must be at least 100ms"},
		"rest of nothing":    {"origins: [{name: a, rest: {urls: ['http://x'], max_message: 0}}]\n", "rest.max_message: must be more than 0"},
		"rest and tp2":       {"origins: [{name: a, rest: {urls: ['http://x']}, tp2: true}]\n", "dynamic parameters are not available over REST"},
		"rest of vhds":       {"origins: [{name: a, rest: {urls: ['http://x']}, types: [cds, vhds]}]\n", "origins[0].types[1]: "},
		"rest plain secrets": {"origins: [{name: a, rest: {urls: ['http://x']}, secrets: dedicated}]\n", "or secrets would travel in plain text"},
		"files path":         {"origins: [{name: a, files: {}}]\n", "1:28: origins[0].files.path: is required"},
		"no addresses":       {"origins: [{name: a, grpc: {}}]\n", "addresses: at least one"},
		"address twice":      {"origins: [{name: a, grpc: {addresses: ['a:1', 'a:1']}}]\n", "listed twice"},
		"no host":            {"origins: [{name: a, grpc: {addresses: [':1']}}]\n", "cannot be connected to"},
		"dialect":            {"origins: [{name: a, grpc: {addresses: ['a:1'], dialect: stow}}]\n", `did you mean "sotw"?`},
		"token without tls":  {"origins: [{name: a, grpc: {addresses: ['a:1'], token_file: t}}]\n", "is sent over TLS only"},
		"client cert":        {"origins: [{name: a, grpc: {addresses: ['a:1'], tls: {key: k}}}]\n", "tls.cert: is missing"},
		"header":             {"origins: [{name: a, grpc: {addresses: ['a:1'], headers: {'a b': c}}}]\n", `headers."a b": is not a header`},
		"no message":         {"origins: [{name: a, grpc: {addresses: ['a:1'], max_message: 0}}]\n", "must be more than 0"},
		"more than memory":   {"origins: [{name: a, files: {path: x}, limits: {bytes: 65MiB}}]\nlimits: {memory: 64MiB}\n", "origins[0].limits.bytes: is more than limits.memory"},
		"two defaults":       {"origins:\n- {name: a, files: {path: x}, default: true}\n- {name: b, files: {path: x}, default: true}\n", "3:40: origins[1].default: origins[0] is the default already"},
		"last resort empty":  {"origins: [{name: a, grpc: {addresses: ['a:1']}, fallback: {}}]\n", "1:59: origins[0].fallback: needs files.path"},
		"last resort of no":  {"origins: [{name: a, grpc: {addresses: ['a:1']}, fallback: {files: {}}}]\n", "1:59: origins[0].fallback: needs files.path"},
		"last resort, grpc":  {"origins: [{name: a, grpc: {addresses: ['a:1']}, fallback: {grpc: {addresses: ['b:1'], dialect: stow}}}]\n", "1:60: origins[0].fallback.grpc: removed: a fallback has only files; write the other control plane as another address of the origin, after those in grpc.addresses or rest.urls"},
		"last resort, rest":  {"origins: [{name: a, rest: {urls: ['http://x']}, fallback: {rest: {urls: ['x:80']}}}]\n", "origins[0].fallback.rest: removed: a fallback has only files; "},
		"last resorts":       {"origins: [{name: a, grpc: {addresses: ['a:1']}, fallback: {files: {path: y}, grpc: {addresses: ['b:1']}}}]\n", "origins[0].fallback.grpc: removed: a fallback has only files; "},
		"last resort of its": {"origins: [{name: a, grpc: {addresses: ['a:1']}, fallback: {files: {path: y}, fallback: {}}}]\n", "origins[0].fallback.fallback: unknown key"},
		"last resort, files": {"origins: [{name: a, files: {path: x}, fallback: {files: {path: y}}}]\n", "1:49: origins[0].fallback: is for origins of grpc or rest"},
		"last resort, own":   {"origins: [{name: a, grpc: {addresses: ['a:1']}, version_mode: origin, fallback: {files: {path: y}}}]\n", "fallback: needs version_mode: content"},
		"group term":         {"origins: [{name: a, files: {path: x}, group_by: [clutser]}]\n", `did you mean "cluster"?`},
		"group identity":     {"origins: [{name: a, files: {path: x}, group_by: [identty]}]\n", `did you mean "identity"?`},
		"identity told":      {"origins: [{name: a, grpc: {addresses: ['a:1']}, group_by: [cluster], identity_to: metadata.WHO}]\n", "1:83: origins[0].identity_to: needs identity in origins[0].group_by, or dedicated streams"},
		"identity where":     {"origins: [{name: a, grpc: {addresses: ['a:1']}, group_by: [identity], identity_to: cluster}]\n", `1:84: origins[0].identity_to: "cluster" is not metadata.KEY`},
		"identity no key":    {"origins: [{name: a, grpc: {addresses: ['a:1']}, group_by: [identity], identity_to: metadata.}]\n", `"metadata." is not metadata.KEY`},
		"identity to files":  {"origins: [{name: a, files: {path: x}, group_by: [identity], identity_to: metadata.WHO}]\n", "1:74: origins[0].identity_to: is for origins of grpc or rest"},
		"identity twice":     {"origins: [{name: a, grpc: {addresses: ['a:1']}, group_by: [identity, metadata.WHO], identity_to: metadata.WHO}]\n", `1:70: origins[0].group_by[1]: "metadata.WHO" has the identity (origins[0].identity_to)`},
		"identity mapped":    {"origins: [{name: a, grpc: {addresses: ['a:1']}, tp2: true, group_by: [identity], identity_to: metadata.WHO, dynamic_parameters: {from_node: {env: metadata.WHO.env}}}]\n", `origins[0].dynamic_parameters.from_node.env: "metadata.WHO.env" has the identity`},
		"group metadata":     {"origins: [{name: a, files: {path: x}, group_by: [metadata.]}]\n", "lacks its key"},
		"resume":             {"origins: [{name: a, files: {path: x}, resume: never}]\n", "is not one of versions, none"},
		"absence that goes":  {"origins: [{name: a, files: {path: x}, absence_keeps: [eds, cds]}]\n", "are always removed"},
		"absence timer":      {"origins: [{name: a, files: {path: x}, absence_timer: never}]\n", "is not one of absence, transient"},
		"ttl":                {"origins: [{name: a, files: {path: x}, ttl_unsupported: hide}]\n", "is not one of serve, withhold"},
		"data error":         {"origins: [{name: a, files: {path: x}, on_data_error: kill}]\n", "is not one of keep, drop"},
		"glob":               {"origins: [{name: a, files: {path: x}, glob: deep}]\n", "is not one of one_level, recursive"},
		"report to files":    {"origins: [{name: a, files: {path: x}, nack_report: true}]\n", "1:52: origins[0].nack_report: is for origins of grpc"},
		"unsupported switch": {"origins: [{name: a, files: {path: x}, resume_sotw: true}]\n", "1:52: origins[0].resume_sotw: not supported by this version yet; leave it out"},
		"tp2":                {"origins: [{name: a, files: {path: x}, tp2: maybe}]\n", `1:44: origins[0].tp2: "maybe" is neither true nor false`},
		"otherwise":          {"origins: [{name: a, files: {path: x}, dynamic_parameters: {otherwise: ignore}}]\n", `1:71: origins[0].dynamic_parameters.otherwise: "ignore" is not one of refuse, ignored; did you mean "ignored"?`},
		"otherwise, tp2":     {"origins: [{name: a, files: {path: x}, tp2: true, dynamic_parameters: {otherwise: ignored}}]\n", "1:82: origins[0].dynamic_parameters.otherwise: is for origins without parameters"},
		"mapped, no tp2":     {"origins: [{name: a, files: {path: x}, dynamic_parameters: {from_node: {env: metadata.env}}}]\n", "1:71: origins[0].dynamic_parameters.from_node: needs tp2: true"},
		"removed key":        {"origins: [{name: a, files: {path: x}, share: false}]\n", "1:39: origins[0].share: removed; leave it out: weir subscribes separately for each set of parameters"},
		"mapped field":       {mapping("{env: cluster}"), `2:80: origins[0].dynamic_parameters.from_node.env: "cluster" is not metadata.PATH`},
		"mapped nothing":     {mapping("{env: metadata.}"), `"metadata." is not metadata.PATH`},
		"mapped, no step":    {mapping("{env: metadata.a..b}"), `"metadata.a..b" is not metadata.PATH`},
		"mapped to no name":  {mapping("{'': metadata.env}"), `from_node."": the parameter has no name`},
		"mapped list":        {mapping("{env: [metadata.env]}"), "from_node.env: must be a single value, not a list"},
		"mapped struct":      {mapping("{a: metadata.app, b: metadata.app.env}"), `from_node.a: "metadata.app" would be a struct, because "metadata.app.env" is mapped as well`},
		"mapped and grouped": {"origins:\n- {name: a, files: {path: x}, tp2: true, dynamic_parameters: {from_node: {env: metadata.env}},\n   group_by: [cluster, metadata.env]}\n", `3:24: origins[0].group_by[1]: "metadata.env" is mapped to a parameter`},
		"guard share":        {"origins: [{name: a, files: {path: x}, guard: {share: 1.5}}]\n", "1:54: origins[0].guard.share: 1.5 is not from 0 to 1"},
		"guard min":          {"origins: [{name: a, files: {path: x}, guard: {min: 0}}]\n", "1:52: origins[0].guard.min: 0 is less than 1; set hold: 0s to turn the guard off"},
		"guard hold":         {"origins: [{name: a, files: {path: x}, guard: {hold: -1s}}]\n", "negative"},
		"secrets":            {"origins: [{name: a, files: {path: x}, secrets: dedicate}]\n", `did you mean "dedicated"?`},
		"secrets of whom":    {"origins: [{name: a, files: {path: x}, secrets: by_identity}]\n", "1:48: origins[0].secrets: by_identity needs authorization: without rules no client could get a secret"},
		"by identity, plain": {"origins: [{name: a, secrets: by_identity, grpc: {addresses: ['a:1']}}]\nauthorization: [{who: [anonymous]}]\n", `"a:1" is neither loopback nor a Unix socket: with secrets: by_identity it needs grpc.tls`},
		"by identity, rest":  {"origins: [{name: a, rest: {urls: ['http://x']}, secrets: by_identity}]\nauthorization: [{who: [anonymous]}]\n", "or secrets would travel in plain text"},
		"by identity, sink":  {"origins: [{name: a, grpc: {addresses: ['unix:///s']}, secrets: by_identity}]\nauthorization: [{who: [anonymous]}]\nsinks: [{path: /out, types: [sds], secrets: [s]}]\n", "it needs secrets: dedicated"},
		"secrets in plain":   {"origins: [{name: a, secrets: dedicated, grpc: {addresses: ['localhost:1', 'unix:///s', 'a:1']}}]\n", `1:88: origins[0].grpc.addresses[2]: "a:1" is neither loopback nor a Unix socket: with secrets: dedicated it needs grpc.tls`},
		"dedicated":          {origin + "listeners: [{dedicated: [xds]}]\n", `2:26: listeners[0].dedicated[0]: "xds" is no type`},
		"no feature":         {origin + "listeners: [{assume_features: ['']}]\n", "2:32: listeners[0].assume_features[0]: is empty"},
		"feature twice":      {origin + "listeners: [{assume_features: [a, b, a]}]\n", `assume_features[2]: "a" is listed twice`},
		"authority of two":   {"origins: [{name: a, files: {path: x}, authorities: [x, y]}, {name: b, files: {path: x}, authorities: ['', x]}]\n", `1:107: origins[1].authorities[1]: "x" is already origins[0].authorities[0]`},
		"version mode":       {"origins: [{name: a, files: {path: x}, version_mode: origins}]\n", `version_mode: "origins" is not one of content, origin; did you mean "origin"?`},
		"compression":        {"origins: [{name: a, grpc: {addresses: ['a:1'], compression: gzp}}]\n", `compression: "gzp" is not one of gzip; did you mean "gzip"?`},
		"compressed":         {origin + "listeners: [{compression: zstd}]\n", `listeners[0].compression: "zstd" is not one of gzip`},
		"name of no type":    {"origins: [{name: a, files: {path: x}, name_fields: {x: 2}}]\n", `origins[0].name_fields.x: "x" is no type`},
		"name that is known": {"origins: [{name: a, files: {path: x}, name_fields: {eds: 2}}]\n", "are known to have their name in field 1"},
		"name in no field":   {"origins: [{name: a, files: {path: x}, name_fields: {a/b: 19000}}]\n", "19000 is no protobuf field number"},
		"name below fields":  {"origins: [{name: a, files: {path: x}, name_fields: {a/b: -1}}]\n", "must not be negative"},
		"hash":               {"origins: [{name: a, files: {path: x}, hash: md5}]\n", `hash: "md5" is not one of bytes, canonical`},
		"type by short name": {origin + "types: {eds: {descriptors: x}}\n", `types.eds: "eds" is no full type URL`},
		"type of nothing":    {origin + "types: {a/b: {}}\n", `2:14: types."a/b": says nothing`},
		"type that is known": {origin + "types: {type.googleapis.com/envoy.config.cluster.v3.Cluster: {name_field: name}}\n", "are known to have their name in field 1"},
		"type unknown key":   {origin + "types: {a/b: {name_fields: x}}\n", `did you mean "name_field"?`},
		"coalesce":           {origin + "timing: {coalesce: 11s}\n", "2:20: timing.coalesce: must be at most 10s: clients lag by as much"},
		"coalesce before":    {origin + "timing: {coalesce: -1s}\n", "negative"},
		"unsupported wait":   {origin + "cache: {max_stale: 1s}\n", "2:20: cache.max_stale: not supported by this version yet; leave it out"},
		"parameter sets":     {origin + "limits: {parameter_sets_per_group: -1}\n", `2:36: limits.parameter_sets_per_group: "-1" must not be negative`},
		"memory":             {origin + "limits: {memory: 1MiB}\n", "2:18: limits.memory: must be at least 32MiB, or 0"},
		"history bytes":      {origin + "cache: {history: {bytes: 1023KiB}}\n", "2:26: cache.history.bytes: must be at least 1MiB; cache.history.versions: 0 keeps no history"},
		"history age":        {origin + "cache: {history: {age: 59s}}\n", "2:24: cache.history.age: must be at least 1m"},
		"history versions":   {origin + "cache: {history: {versions: 1001}}\n", "2:29: cache.history.versions: must be at most 1000"},
		"history negative":   {origin + "cache: {history: {versions: -1}}\n", "cache.history.versions"},
		"retired":            {origin + "cache: {retired: {entries: -1}}\n", "cache.retired.entries"},
		"unsupported nested": {origin + "cache: {max_stale: wrong}\n", "cache.max_stale: not supported"},
		"snapshot bytes":     {origin + "cache:\n  snapshot: {path: /x, max_bytes: 1023KiB}\n", "3:35: cache.snapshot.max_bytes: must be at least 1MiB, or 0 for no bound"},
		"snapshot":           {origin + "cache: {snapshot: {path: /x, interval: 1ms}}\n", "2:40: cache.snapshot.interval: must be at least 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			got := messages(t, c.text)
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("got\n%s\nwant one message with\n%s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}

func TestProblemIsOneLine(t *testing.T) {
	for _, m := range messages(t, "\"a\\nb\": 1\n"+origin) {
		if strings.Contains(m, "\n") {
			t.Errorf("more than one line: %q", m)
		}
	}
}

// Later mistakes, such as a certificate nobody can read, are reported where
// the field is, or where it would have been.
func TestProblemf(t *testing.T) {
	c, err := Parse("weir.yaml", []byte("# a comment\n"+origin), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Problemf("origins[0].grpc.addresses[0]", "refused by %s", "peer").Error()
	if want := "weir.yaml:2:43: origins[0].grpc.addresses[0]: refused by peer"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p := c.Problemf("origins[0].grpc.tls.ca", "x"); p.Line != 2 || p.Column != 30 {
		t.Errorf("an absent field is at %d:%d, want its parent's 2:30", p.Line, p.Column)
	}
	if p := Default().Problemf("admin.address", "in use"); p.Line != 1 {
		t.Errorf("a configuration from no file has line %d, want 1", p.Line)
	}
}
