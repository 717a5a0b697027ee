package config

import (
	"fmt"
	"strings"
	"testing"
)

// ruled is a configuration with three listeners, two origins, and rules from line 5 on.
const ruled = `listeners: [{address: '127.0.0.1:1', tls: {cert: c, key: k, client_ca: a}}, {address: 'unix:///s'}, {address: '127.0.0.1:2'}]
origins:
  - {name: mesh, grpc: {addresses: ['a:1']}}
  - {name: east, grpc: {addresses: ['b:1']}}
authorization:
`

// TestAuthorization: rules are compiled as they are written, with types by either name and a claim
// as one pattern or several.
func TestAuthorization(t *testing.T) {
	c := parsed(t, ruled+`- who: ["spiffe://corp/ns/{ns}/sa/{sa}"]
  listeners: ['127.0.0.1:1']
  origins: [mesh]
  types: [cds, type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment]
  names: ["{ns}/*"]
  claims: { node.cluster: "{sa}", node.metadata.NAMESPACE: ["{ns}"], parameters.env: [prod, test-*] }
  set: { node.metadata.TEAM: "{ns}" }
`)
	said := map[string]string{"node.cluster": "web", "node.metadata.NAMESPACE": "shop", "node.metadata.TEAM": "shop", "parameters.env": "test-1"}
	fields := func(field string) (string, bool) { v, ok := said[field]; return v, ok }
	at := c.Rules().For("spiffe://corp/ns/shop/sa/web", "127.0.0.1:1")
	if set := at.SetNode(); len(set) != 1 || set[0].Field != "node.metadata.TEAM" || set[0].Value != "shop" {
		t.Errorf("set is %v", set)
	}
	a, fits := at.Fit(fields)
	if !fits {
		t.Fatal("it does not fit")
	}
	for _, row := range []struct {
		origin, typeURL, name string
		want                  bool
	}{
		{"mesh", typeHost + "envoy.config.cluster.v3.Cluster", "shop/x", true},
		{"mesh", typeHost + "envoy.config.endpoint.v3.ClusterLoadAssignment", "shop/x", true},
		{"mesh", typeHost + "envoy.config.listener.v3.Listener", "shop/x", false},
		{"mesh", typeHost + "envoy.config.cluster.v3.Cluster", "web/x", false},
		{"east", typeHost + "envoy.config.cluster.v3.Cluster", "shop/x", false},
	} {
		h := a.Holding(row.origin, row.typeURL, fields)
		p := h.Permit()
		if p.Allows(row.name) != row.want {
			t.Errorf("%+v: allowed %v", row, !row.want)
		}
	}
	if _, fits := c.Rules().For("spiffe://corp/ns/shop/sa/web", "127.0.0.1:2").Fit(fields); fits {
		t.Error("it fits at another listener")
	}
	if none := parsed(t, strings.TrimSuffix(ruled, "authorization:\n")); none.Rules() != nil {
		t.Error("there are rules where none is written")
	}
}

// TestAuthorizationProblems: each mistake in a rule has a line and a key.
func TestAuthorizationProblems(t *testing.T) {
	for text, want := range map[string]string{
		"- {}":                                                            "6:3: authorization[0].who: is required",
		"- {who: []}":                                                     "6:9: authorization[0].who: is required",
		"- who: [corp]":                                                   `6:9: authorization[0].who[0]: "corp" begins with none of spiffe://`,
		"- who: corp":                                                     "6:8: authorization[0].who: must be a list, not a single value",
		"- {who: [anonymous], allow: all}":                                "6:22: authorization[0].allow: unknown key",
		"- {who: [anonymous], name: [x]}":                                 `6:22: authorization[0].name: unknown key; did you mean "names"?`,
		"- {who: [anonymous], origins: [mehs]}":                           `6:32: authorization[0].origins[0]: "mehs" is no origin; did you mean "mesh"?`,
		"- {who: [anonymous], origins: [far]}":                            `6:32: authorization[0].origins[0]: "far" is no origin of this file`,
		"- {who: [anonymous], origins: [east, east]}":                     `6:38: authorization[0].origins[1]: "east" is listed twice`,
		"- {who: [anonymous], listeners: ['127.0.0.1:3']}":                `6:34: authorization[0].listeners[0]: "127.0.0.1:3" is no listener's address`,
		"- {who: [anonymous], types: [cds, xds]}":                         `6:35: authorization[0].types[1]: "xds" is no type`,
		"- {who: [anonymous], names: ['{x']}":                             `6:30: authorization[0].names[0]: "{x" has a brace`,
		"- {who: [anonymous], names: ['']}":                               `6:30: authorization[0].names[0]: "" is empty`,
		"- {who: [anonymous], names: [{x: y}]}":                           "6:30: authorization[0].names[0]: must be a single value, not a mapping",
		"- {who: [anonymous], claims: {cluster: x}}":                      "6:40: authorization[0].claims.cluster: is none of node.id",
		"- {who: [anonymous], claims: {node.cluster: []}}":                `6:45: authorization[0].claims."node.cluster": has no value`,
		"- {who: [anonymous], claims: {node.cluster: }}":                  `authorization[0].claims."node.cluster": has no value`,
		"- {who: [anonymous], claims: {node.cluster: '**x'}}":             `6:45: authorization[0].claims."node.cluster": "**x" has ** before its end`,
		"- {who: [anonymous], claims: {node.metadata.a.b: [c, '**x']}}":   `6:54: authorization[0].claims."node.metadata.a.b"[1]: "**x" has ** before its end`,
		"- {who: [anonymous], set: {node.cluster: 'a*'}}":                 `6:42: authorization[0].set."node.cluster": "a*" has a star`,
		"- {who: [anonymous], set: {node.cluster: [a]}}":                  `6:42: authorization[0].set."node.cluster": must be a single value, not a list`,
		"- {who: [anonymous], set: {node.cluster: a, node.cluster: b}}":   `6:45: authorization[0].set."node.cluster": given twice`,
		"- {who: ['${NOBODY}']}":                                          "6:10: authorization[0].who[0]: environment variable NOBODY is not set",
		"- {who: [anonymous]}\n- {who: [anonymous], set: {node.name: a}}": `7:39: authorization[1].set."node.name": is none of node.id`,
	} {
		if got := messages(t, ruled+text+"\n"); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got\n%s\nwant one message with\n%s", text, strings.Join(got, "\n"), want)
		}
	}
}

// TestAuthorizationWarnings: rules that never match, and parts that nothing binds, are told by
// line; what may match is not.
func TestAuthorizationWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"- {who: ['uid:0'], claims: {parameters.env: a}}": `6:45: warning: authorization[0].claims."parameters.env": never matches: no origin that the rule is for has tp2`,
		"- {who: ['uid:0'], set: {parameters.env: a}}":    `6:42: warning: authorization[0].set."parameters.env": never matches: no origin that the rule is for has tp2`,
		"- {who: [anonymous, 'uid:{u}', 'spiffe://corp/{a}/**', 'dns:*.corp', 'uri:https://**', 'subject:CN={x}'], names: [a]}": "",
		"- {who: ['uid:0'], names: ['{x}/a', b]}":                                         `6:28: warning: authorization[0].names[0]: {x} is in no pattern of who, so "{x}/a" never matches`,
		"- {who: ['uid:0'], claims: {node.cluster: '{x}'}}":                               `6:43: warning: authorization[0].claims."node.cluster": {x} is in no pattern of who`,
		"- {who: ['uid:0'], set: {node.cluster: '{x}'}}":                                  `6:40: warning: authorization[0].set."node.cluster": {x} is in no pattern of who`,
		"- {who: ['uid:root']}":                                                           `6:10: warning: authorization[0].who[0]: "uid:root" never matches`,
		"- {who: ['spiffe://corp//a']}":                                                   `6:10: warning: authorization[0].who[0]: "spiffe://corp//a" never matches`,
		"- {who: ['uid:0'], listeners: ['127.0.0.1:2']}":                                  "6:10: warning: authorization[0].who[0]: \"uid:0\" never matches: no listener that the rule is for is a Unix socket",
		"- {who: [anonymous], listeners: ['127.0.0.1:1']}":                                "6:10: warning: authorization[0].who[0]: \"anonymous\" never matches: each listener that the rule is for has tls.client_ca",
		"- {who: ['spiffe://a/b'], listeners: ['127.0.0.1:2', 'unix:///s']}":              "6:10: warning: authorization[0].who[0]: \"spiffe://a/b\" never matches: no listener that the rule is for has tls.client_ca",
		"- {who: ['spiffe://a/b'], listeners: ['127.0.0.1:2', '127.0.0.1:1']}":            "",
		"- {who: ['spiffe://corp/ns/{ns}/sa/{sa}'], names: ['{ns}/{sa}/*', '{ns}-{sa}']}": `6:67: warning: authorization[0].names[1]: "{ns}-{sa}" is ambiguous: {ns} and {sa} meet at "-", but a value may contain it, so ns "x", sa "y-z" and ns "x-y", sa "z" both have "x-y-z"; write "/" there: no value contains it`,
		"- who: ['dns:{a}.{b}.corp']\n  claims: {node.cluster: [x, '{a}_{b}']}":           `7:30: warning: authorization[0].claims."node.cluster"[1]: "{a}_{b}" is ambiguous: `,
		"- who: ['dns:{a}.{b}.corp']\n  set: {node.metadata.TEAM: '{a}{b}'}":              `7:29: warning: authorization[0].set."node.metadata.TEAM": "{a}{b}" is ambiguous: {a} and {b} meet with nothing between them`,
		"- {who: ['uid:0'], set: {node.id: a}}\n- {who: ['uid:0'], set: {node.id: b}}":    `7:35: warning: authorization[1].set."node.id": authorization[0] sets it to "a"`,
	} {
		var got []string
		for _, w := range parsed(t, ruled+text+"\n").Warnings() {
			if strings.HasPrefix(w.Path, "authorization") {
				got = append(got, w.Error())
			}
		}
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", text, strings.Join(got, "\n"), want)
		}
	}
	tp2 := strings.Replace(ruled, "name: east,", "name: east, tp2: true,", 1)
	for text, want := range map[string]int{"[mesh]": 1, "[east]": 0, "[mesh, east]": 0, "[]": 0} {
		c := parsed(t, tp2+"- {who: ['uid:0'], claims: {parameters.env: a}, origins: "+text+"}\n")
		n := 0
		for _, w := range c.Warnings() {
			if strings.HasPrefix(w.Path, "authorization") {
				n++
			}
		}
		if n != want {
			t.Errorf("origins %s, of which east has tp2: %d warnings, want %d", text, n, want)
		}
	}
	told := strings.Replace(tp2, "tp2: true,", "tp2: true, group_by: [dynamic_parameters],", 1)
	for text, want := range map[string]string{
		"set: {parameters.env: a}":                     `authorization[0].set."parameters.env": origin "east" has dynamic_parameters in group_by`,
		"set: {parameters.env: a}, origins: [mesh]":    "",
		"claims: {parameters.env: a}, origins: [east]": "",
	} {
		_, err := Parse("weir.yaml", []byte(told+"- {who: ['uid:0'], "+text+"}\n"), nil)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
