package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const socket = "listeners: [{address: 'unix:///s'}]\n"

// Each file can be used, and gets these warnings.
func TestWarnings(t *testing.T) {
	grpc := func(more string) string {
		return "origins: [{name: mesh, " + more + ", grpc: {addresses: ['cp:18000'], tls: {}}}]\n"
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"none":                 {origin, nil},
		"id":                   {grpc("group_by: [cluster, id]"), []string{"1:44: warning: origins[0].group_by[1]: each client will have its own group and"}},
		"id, fixed":            {grpc("group_by: [id], node: {id: x}"), []string{`sees node.id "x" for all of them`}},
		"cluster, fixed":       {grpc("group_by: [cluster], node: {id: x}"), nil},
		"id, files":            {"origins: [{name: a, group_by: [id], files: {path: x}}]\n", nil},
		"secrets":              {grpc("secrets: dedicated"), nil}, // the listener is on loopback
		"secrets, plain":       {grpc("secrets: dedicated") + "listeners: [{address: ':1'}]\n", []string{"2:23: warning: listeners[0].address: clients of other hosts will be refused the secrets of origin \"mesh\""}},
		"secrets, tls":         {grpc("secrets: dedicated") + "listeners: [{address: ':1', tls: {cert: c, key: k}}]\n", []string{"2:34: warning: listeners[0].tls: clients of other hosts"}},
		"secrets, mutual":      {grpc("secrets: dedicated") + "listeners: [{address: ':1', tls: {cert: c, key: k, client_ca: a}}]\n", nil},
		"secrets, own":         {grpc("secrets: by_identity, group_by: [identity]") + socket + "authorization: [{who: ['uid:*'], types: [sds]}]\n", nil},
		"secrets, own, none":   {grpc("secrets: by_identity, group_by: [identity]") + socket + "authorization: [{who: ['uid:*'], types: [cds]}]\n", []string{"1:33: warning: origins[0].secrets: no client will get a secret: no rule allows any"}},
		"secrets, own, nobody": {grpc("secrets: by_identity, group_by: [identity]") + socket + "authorization: [{who: [anonymous]}]\n", []string{"no client will get a secret"}},
		"secrets, part":        {grpc("secrets: by_identity") + socket + "authorization: [{who: ['uid:{id}'], names: ['{id}']}]\n", nil},
		"secrets, v2":          {grpc("secrets: by_identity") + socket + "authorization: [{who: ['uid:{id}'], names: ['{id}'], types: [type.googleapis.com/envoy.api.v2.auth.Secret]}]\n", nil},
		"secrets, one":         {grpc("secrets: by_identity") + socket + "authorization: [{who: ['uid:0'], origins: [mesh]}]\n", nil},
		"secrets, no part":     {grpc("secrets: by_identity") + socket + "authorization: [{who: ['uid:{id}'], names: ['*'], claims: {node.id: '{id}'}}]\n", []string{"no rule allows any by a pattern of names with a part of the identity"}},
		"secrets, not here":    {grpc("secrets: by_identity") + "authorization: [{who: ['uid:0']}]\n", []string{"warning: listeners[0].address: clients will be refused the secrets of origin \"mesh\" here", `"uid:0" never matches`}},
		"refused, plain":       {grpc("secrets: refuse") + "listeners: [{address: ':1'}]\n", nil},
		"parameters":           {grpc("tp2: true, group_by: [cluster, dynamic_parameters]"), []string{"1:55: warning: origins[0].group_by[1]: clients with different parameters"}},
		"parameters, of files": {"origins: [{name: a, tp2: true, group_by: [dynamic_parameters], files: {path: x}}]\n", nil},
		"parameters, old":      {grpc("group_by: [cluster, dynamic_parameters]"), nil},
		"tp2":                  {grpc("tp2: true"), nil},
		"identity":             {grpc("group_by: [cluster, identity]"), []string{"1:44: warning: origins[0].group_by[1]: all clients will be anonymous, and one group"}},
		"identity, tls":        {grpc("group_by: [identity]") + "listeners: [{address: ':1', tls: {cert: c, key: k}}]\n", []string{"all clients will be anonymous"}},
		"identity, mutual":     {grpc("group_by: [identity]") + "listeners: [{address: ':1', tls: {cert: c, key: k, client_ca: a}}, {address: ':2'}]\n", nil},
		"identity, socket":     {grpc("group_by: [identity]") + "listeners: [{address: 'unix:///run/weir.sock'}]\n", nil},
		"identity, files":      {"origins: [{name: a, group_by: [identity], files: {path: x}}]\n", nil},
		"identity, told":       {grpc("identity_to: metadata.WHO, secrets: dedicated"), []string{"1:37: warning: origins[0].identity_to: all clients will be anonymous: no"}},
		"identity, told, tls":  {grpc("identity_to: metadata.WHO, group_by: [identity, metadata]") + "listeners: [{address: 'unix:///s'}]\n", nil},
		"two, by line": {"listeners: [{address: ':1'}]\n" + grpc("secrets: dedicated, group_by: [id]"), []string{
			"1:23: warning: listeners[0].address", "2:55: warning: origins[0].group_by[0]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse("weir.yaml", []byte(c.text), noEnv)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(cfg.Warnings(), ofOpenPort)
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %d", got, len(c.want))
			}
			for i, w := range got {
				if !strings.Contains(w.Error(), c.want[i]) {
					t.Errorf("got %v, want %s", w, c.want[i])
				}
			}
		})
	}
	if w := Default().Warnings(); w != nil {
		t.Errorf("a configuration from no file: %v", w)
	}
}

// ofOpenPort: TestOpenPortsAreWarnedOf has these.
func ofOpenPort(w *Problem) bool {
	return strings.Contains(w.Msg, "other hosts can reach it") || strings.Contains(w.Msg, "without client_ca no client needs")
}

// TestKeysAreWarnedOf: of the default key is said what is said of id, at the place of the origin;
// and of a key that tells istio's proxies apart while one of them is presented for all (RELAY-61).
func TestKeysAreWarnedOf(t *testing.T) {
	const metadata = "clients with unique metadata, such as an address (istio's INSTANCE_IPS), will each have their own group and upstream streams; list the metadata.KEY that the origin uses (weir groups suggest finds them) (RELAY-61)"
	const sidecar = "node: {id: 'sidecar~10.0.0.1~web.shop~shop.svc.cluster.local'}"
	const istio = "istio treats all clients as this one proxy, and sends its configuration to clients of other namespaces, kinds and addresses; remove it and set group_by: [id, cluster, metadata], unless all are gateways of one namespace"
	for name, c := range map[string]struct {
		more string
		want []string
	}{
		"the default":        {"", []string{"f:3:5: warning: origins[0].group_by: is not set, so all metadata counts: " + metadata}},
		"written":            {"group_by: [cluster, metadata]", []string{"f:4:25: warning: origins[0].group_by[1]: " + metadata}},
		"some metadata":      {"group_by: [cluster, metadata.NAMESPACE]", nil},
		"no key":             {"group_by: []", nil},
		"names alone":        {"authorities: [x]\n    default: false", nil},
		"one proxy":          {"group_by: [cluster]\n    " + sidecar, []string{"f:5:16: warning: origins[0].node.id: " + istio}},
		"one proxy for all":  {"group_by: []\n    " + sidecar, []string{"f:5:16: warning: origins[0].node.id: " + istio}},
		"an id of one's own": {"group_by: [cluster]\n    node: {id: weir}", nil},
	} {
		second := "  - {name: b, group_by: [], default: true, grpc: {addresses: ['b:1']}}\n"
		text := "name: w\norigins:\n  - name: a\n    " + c.more + "\n    grpc: {addresses: ['a:1']}\n"
		if strings.Contains(c.more, "authorities") {
			text += second
		}
		cfg, err := Parse("f", []byte(text), noEnv)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, w := range append(cfg.Warnings(), cfg.KeyNotes()...) {
			got = append(got, w.Error())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	cfg, err := Parse("f", []byte("origins: [{name: a, files: {path: x}}]\n"), noEnv)
	if err != nil || len(cfg.KeyNotes()) > 0 {
		t.Errorf("of files: %v, %v", cfg.KeyNotes(), err)
	}
}

// RELAY-63: an origin that is asked for xdstp names alone has one group, unless the file says
// otherwise.
func TestGroupByDefault(t *testing.T) {
	for name, c := range map[string]struct {
		second, listeners string
		want              []string
	}{
		"authorities only": {"authorities: [x]", "", []string{}},
		"nothing at all":   {"types: [cds]", "", defaultGroupBy},
		"the default":      {"authorities: [x], default: true", "", defaultGroupBy},
		"of a listener":    {"authorities: [x]", "listeners: [{origin: b}]\n", defaultGroupBy},
		"written":          {"authorities: [x], group_by: [cluster]", "", []string{"cluster"}},
		"written, empty":   {"group_by: []", "", []string{}},
	} {
		cfg, err := Parse("weir.yaml", []byte("origins: [{name: a, grpc: {addresses: ['a:1']}}, {name: b, grpc: {addresses: ['b:1']}, "+c.second+"}]\n"+c.listeners), noEnv)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := cfg.Origins[1].GroupBy; !slices.Equal(got, c.want) {
			t.Errorf("%s: grouped by %v, want %v", name, got, c.want)
		}
	}
	cfg, err := Parse("weir.yaml", []byte("origins: [{name: a, rest: {urls: ['http://127.0.0.1:1']}}]\n"), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Origins[0].GroupBy; !slices.Equal(got, append(slices.Clone(defaultGroupBy), "user_agent_version")) {
		t.Errorf("clients of a REST-JSON server, which chooses templates by the version, are grouped by %v", got)
	}
}

// TestDynamicParameters: the keys of parameters, as they are written and as they are by default
// (RELAY-64, DYN-18, RELAY-73).
func TestDynamicParameters(t *testing.T) {
	cfg, err := Parse("weir.yaml", []byte(`
origins:
  - name: mesh
    grpc: { addresses: ["cp:1"] }
    tp2: true
    group_by: [cluster, metadata.app]
    dynamic_parameters:
      from_node: { env: metadata.env, "app.kubernetes.io/version": metadata.app.version, also: metadata.env }
  - { name: old, grpc: { addresses: ["cp:2"] }, dynamic_parameters: { otherwise: ignored } }
  - { name: plain, files: { path: x } }
limits: { parameter_sets_per_stream: 3, parameter_sets_per_group: 0 }
`), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	mesh, old, plain := cfg.Origins[0], cfg.Origins[1], cfg.Origins[2]
	if !mesh.TP2 || !maps.Equal(mesh.DynamicParameters.FromNode, map[string]string{
		"env": "metadata.env", "app.kubernetes.io/version": "metadata.app.version", "also": "metadata.env",
	}) || mesh.DynamicParameters.Otherwise != OtherwiseRefuse {
		t.Errorf("mesh is %+v", mesh)
	}
	if old.TP2 || old.DynamicParameters.Otherwise != OtherwiseIgnored {
		t.Errorf("old is %+v", old)
	}
	if plain.TP2 || len(plain.DynamicParameters.FromNode) > 0 || plain.DynamicParameters.Otherwise != OtherwiseRefuse {
		t.Errorf("plain is %+v", plain)
	}
	if l, d := cfg.Limits, Default().Limits; l.ParameterSetsPerStream != 3 || l.ParameterSetsPerGroup != 0 ||
		d.ParameterSetsPerStream != 64 || d.ParameterSetsPerGroup != 1000 {
		t.Errorf("limits are %+v, by default %+v", l, d)
	}
	if w := cfg.Warnings(); len(w) > 0 {
		t.Errorf("warnings: %v", w)
	}
}
