package config

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// canaryOf is a file with an origin whose groups are by cluster, and its canary.
func canaryOf(canary string) string {
	return "origins:\n- {name: a, grpc: {addresses: ['a:1']}, group_by: [cluster],\n   canary: " + canary + "}\n"
}

// prometheus is a check that has all it needs.
const prometheus = "url: 'http://p', query: up, threshold: 1"

// TestCanaryProblems: each file has one mistake, and gets one message, at its place.
func TestCanaryProblems(t *testing.T) {
	check := func(check string) string { return canaryOf("{share: 0.1, check: " + check + "}") }
	matched := func(groupBy, more string) string {
		return "origins: [{name: a, grpc: {addresses: ['a:1']}, " + groupBy + more + "}]\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":     {canaryOf("{shar: 0.1}"), `3:13: origins[0].canary.shar: unknown key; did you mean "share"?`},
		"unknown field":   {canaryOf("{match: {metadta.x: a}}"), `3:32: origins[0].canary.match."metadta.x": "metadta.x" is none of cluster, id, locality, user_agent_name, user_agent_version, metadata.PATH, identity; did you mean "metadata.x"?`},
		"near field":      {canaryOf("{match: {localty: a}}"), `did you mean "locality"?`},
		"all metadata":    {canaryOf("{match: {metadata: a}}"), `"metadata" is none of cluster, id, locality, user_agent_name, user_agent_version, metadata.PATH, identity; did you mean "metadata.PATH"?`},
		"no key":          {canaryOf("{match: {metadata.: a}}"), `did you mean "metadata.PATH"?`},
		"features":        {canaryOf("{match: {client_features: a}}"), `"client_features" is none of`},
		"empty":           {canaryOf("{match: {metadata.x: ''}}"), `3:33: origins[0].canary.match."metadata.x": is empty`},
		"two values":      {canaryOf("{match: {metadata.x: [a, b]}}"), "must be one value; only identity may have several"},
		"no value":        {canaryOf("{match: {metadata.x: []}}"), "must be one value"},
		"bad identity":    {canaryOf("{match: {identity: [anonymous, web]}}"), `3:43: origins[0].canary.match.identity[1]: "web" begins with none of spiffe://`},
		"one identity":    {canaryOf("{match: {identity: web}}"), `3:31: origins[0].canary.match.identity[0]: "web" begins with none of`},
		"nobody":          {canaryOf("{match: {identity: []}}"), "identity: at least one is needed"},
		"told identity":   {matched("group_by: [identity], identity_to: metadata.WHO, ", "canary: {match: {metadata.WHO: a}}"), `"metadata.WHO" has the identity (identity_to)`},
		"share":           {canaryOf("{share: 1.5}"), "3:20: origins[0].canary.share: 1.5 is not from 0 to 1"},
		"negative share":  {canaryOf("{share: -0.1}"), "must not be negative"},
		"acks":            {canaryOf("{acks: most}"), `3:19: origins[0].canary.acks.count: "most" is not a whole number`},
		"acks share":      {canaryOf("{acks: {share: 2}}"), "3:27: origins[0].canary.acks.share: 2 is not from 0 to 1"},
		"acks list":       {canaryOf("{acks: [1]}"), "origins[0].canary.acks: must be a mapping, not a list"},
		"on stop":         {canaryOf("{on_stop: retrun}"), `3:22: origins[0].canary.on_stop: "retrun" is not one of return, stay; did you mean "return"?`},
		"bake":            {canaryOf("{bake: soon}"), `origins[0].canary.bake: "soon" is not a duration`},
		"gone":            {canaryOf("{share: 0.1, gone: {share: 1.5}}"), "origins[0].canary.gone.share: 1.5 is not from 0 to 1"},
		"max hold":        {canaryOf("{share: 0.1, bake: 2h}"), "3:12: origins[0].canary.max_hold: must be more than bake (2h0m0s)"},
		"urgent":          {canaryOf("{urgent: [eds, xds]}"), `3:27: origins[0].canary.urgent[1]: "xds" is no type`},
		"urgent twice":    {canaryOf("{urgent: [eds, type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment]}"), "is listed twice"},
		"groups of one":   {matched("group_by: [cluster, id], ", "canary: {share: 0.1}"), "1:82: origins[0].canary: needs groups of several clients"},
		"all or none":     {matched("group_by: [cluster], ", "canary: {match: {cluster: b}}"), "1:86: origins[0].canary.match: matches all clients of a group or none, because origins[0].group_by has all of its fields"},
		"a part of a key": {matched("group_by: [metadata.LABELS, identity], ", "canary: {match: {metadata.LABELS.app: b, identity: anonymous}}"), "matches all clients of a group or none"},
		"check of none":   {check("{}"), "3:32: origins[0].canary.check: needs prometheus or http"},
		"check of both":   {check("{prometheus: {" + prometheus + "}, http: {url: 'http://x'}}"), "3:32: origins[0].canary.check: has both prometheus and http"},
		"on error":        {check("{http: {url: 'http://x'}, on_error: stop}"), `"stop" is not one of hold, pass`},
		"no url":          {check("{http: {}}"), "origins[0].canary.check.http.url: is required"},
		"no http":         {check("{http: {url: 'ftp://x'}}"), "3:45: origins[0].canary.check.http.url: begins with neither http:// nor https://"},
		"password":        {check("{http: {url: 'https://u:p@x'}}"), "holds a name or password"},
		"bad url":         {check("{http: {url: 'http://x:y'}}"), "is no URL"},
		"often":           {check("{http: {url: 'http://x', interval: 10ms}}"), "http.interval: must be at least 1s"},
		"seldom":          {check("{http: {url: 'http://x', interval: 5m}}"), "http.interval: must be at most bake (1m0s)"},
		"plain tls":       {check("{http: {url: 'http://x', tls: {ca: c}}}"), "http.url: is plain text, but tls is set: write https"},
		"plain token":     {check("{http: {url: 'http://x', token_file: t}}"), "http.token_file: is sent over TLS only"},
		"plain header":    {check("{prometheus: {" + prometheus + ", headers: {authorization: secret}}}"), "headers.authorization: looks like a credential"},
		"bad header":      {check("{http: {url: 'http://x', headers: {host: h}}}"), "headers.host: is not a header that can be sent"},
		"two tokens":      {check("{http: {url: 'https://x', token_file: t, headers: {Authorization: k}}}"), "is set here and by token_file"},
		"cert alone":      {check("{http: {url: 'https://x', tls: {cert: c}}}"), "http.tls.key: is missing, but cert is given"},
		"no query":        {check("{prometheus: {url: 'http://p', threshold: 1}}"), "prometheus.query: is required"},
		"no threshold":    {check("{prometheus: {url: 'http://p', query: up}}"), "3:45: origins[0].canary.check.prometheus.threshold: is required"},
		"query in url":    {check("{prometheus: {url: 'http://p?query=up', query: up, threshold: 1}}"), "prometheus.url: must have only a host and a path"},
	} {
		got := messages(t, c.text)
		if len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s: got\n%s\nwant one line with\n%s", name, strings.Join(got, "\n"), c.want)
		}
		if strings.Contains(strings.Join(got, ""), "u:p@") {
			t.Errorf("%s: a password is quoted", name)
		}
	}
}

// TestCanaryWarnings: each file can be used, and gets these warnings.
func TestCanaryWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // "": none
	}{
		"off":               {canaryOf("{}"), ""},
		"bake alone":        {canaryOf("{bake: 2h}"), ""},
		"share":             {canaryOf("{share: 0.1}"), ""},
		"none waits":        {canaryOf("{share: 1}"), "3:20: warning: origins[0].canary.share: all clients with a node id are canaries"},
		"check, off":        {canaryOf("{check: {http: {url: 'http://x'}}}"), "3:20: warning: origins[0].canary.check: is not used"},
		"check, url":        {canaryOf("{share: 0.1, check: {http: {url: 'http://x/a?job=b'}}}"), ""},
		"check, token":      {canaryOf("{share: 0.1, check: {http: {url: 'https://x', token_file: t}}}"), ""},
		"check, here":       {canaryOf("{share: 0.1, check: {http: {url: 'http://127.0.0.1:1', headers: {authorization: x}}}}"), ""},
		"no bound":          {canaryOf("{share: 0.1, bake: 5h, max_hold: 0s}"), ""},
		"identity":          {canaryOf("{match: {identity: 'spiffe://corp/*'}}"), `3:31: warning: origins[0].canary.match.identity[0]: "spiffe://corp/*" never matches: no listener that clients connect to`},
		"identity, user":    {canaryOf("{match: {identity: 'uid:0'}}") + socket, ""},
		"identity, mutual":  {canaryOf("{match: {identity: ['dns:a.b']}}") + "listeners: [{tls: {cert: c, key: k, client_ca: a}}]\n", ""},
		"share and group":   {"origins: [{name: a, grpc: {addresses: ['a:1']}, group_by: [cluster], canary: {match: {cluster: b}, share: 0.1}}]\n", ""},
		"by default":        {"origins: [{name: a, grpc: {addresses: ['a:1']}, canary: {match: {metadata.x: b}}}]\n", ""},
		"a field outside":   {"origins: [{name: a, grpc: {addresses: ['a:1']}, group_by: [metadata], canary: {match: {metadata.x: b, cluster: c}}}]\n", ""},
		"a mapped field":    {"origins: [{name: a, grpc: {addresses: ['a:1']}, tp2: true, canary: {match: {metadata.x: b}}, dynamic_parameters: {from_node: {x: metadata.x}}}]\n", ""},
		"one group, files":  {"origins: [{name: a, files: {path: x}, canary: {match: {cluster: b}}}]\n", ""},
		"one group, files'": {"origins: [{name: a, files: {path: x}, group_by: [id], canary: {share: 0.1}}]\n", ""},
	} {
		cfg, err := Parse("weir.yaml", []byte(c.text), noEnv)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := slices.DeleteFunc(cfg.Warnings(), ofOpenPort)
		switch {
		case c.want == "" && len(got) == 0:
		case c.want == "" || len(got) != 1 || !strings.Contains(got[0].Error(), c.want):
			t.Errorf("%s: got %v, want %q", name, got, c.want)
		}
	}
}

// TestCanaryClients: the file's words choose the clients that they say.
func TestCanaryClients(t *testing.T) {
	c := parsed(t, canaryOf("{match: {metadata.canary: true, identity: ['uid:7', 'spiffe://corp/{ns}/canary']}, acks: 3}")+socket).Origins[0].Canary
	if c.Acks != (Acks{Count: 3}) {
		t.Errorf("acks are %+v", c.Acks)
	}
	if len(c.Urgent) != 2 || c.Urgent[0] != shortNames["eds"] || c.Urgent[1] != shortNames["sds"] {
		t.Errorf("urgent are %q", c.Urgent)
	}
	metadata, err := structpb.NewStruct(map[string]any{"canary": true})
	if err != nil {
		t.Fatal(err)
	}
	n := &corev3.Node{Id: "web-0", Metadata: metadata}
	clients := c.Clients()
	for who, want := range map[string]bool{"uid:7": true, "uid:70": false, "spiffe://corp/shop/canary": true, "spiffe://corp/shop/web": false, "anonymous": false} {
		if got := clients.Is(n, who); got != want {
			t.Errorf("%s: %v, want %v", who, got, want)
		}
	}
	if clients.Is(&corev3.Node{Id: "web-0"}, "uid:7") {
		t.Error("a client without the field is a canary")
	}
	if clients = parsed(t, canaryOf("{share: 1}")).Origins[0].Canary.Clients(); !clients.Is(n, "anonymous") {
		t.Error("a client is outside a share of all")
	}
	if clients = parsed(t, canaryOf("{bake: 5m}")).Origins[0].Canary.Clients(); clients != nil {
		t.Error("canaries are on without match and share")
	}
}

// TestCanaryReload: who is a canary concerns streams; how a change is judged concerns none.
func TestCanaryReload(t *testing.T) {
	for key, want := range map[string]Reload{
		"match": ReloadConcerned, "share": ReloadConcerned, "bake": ReloadLive, "acks.share": ReloadLive, "gone.grace": ReloadLive, "on_stop": ReloadLive,
		"max_hold": ReloadLive, "urgent": ReloadLive, "check": ReloadLive, "check.prometheus.query": ReloadLive,
	} {
		if got := ReloadOf("origins[3].canary." + key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}
