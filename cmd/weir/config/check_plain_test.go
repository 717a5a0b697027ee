package config

import (
	"slices"
	"strings"
	"testing"
)

// warnings are those of a file that is accepted, as printed.
func warnings(t *testing.T, text string) (out []string) {
	t.Helper()
	c, err := Parse("weir.yaml", []byte(text), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Warnings() {
		out = append(out, w.Error())
	}
	return out
}

// TestOpenPortsAreWarnedOf: a port that others reach in plain text, or without showing who they
// are, is told of at its line.
func TestOpenPortsAreWarnedOf(t *testing.T) {
	const (
		plain    = `other hosts can reach it without tls`
		anybody  = `without client_ca no client needs a certificate`
		pair     = `, tls: {cert: c, key: k}`
		withCA   = `, tls: {cert: c, key: k, client_ca: a}`
		readable = `the token can be read on the network`
		nobody   = `only the paths in admin.open will be served`
	)
	for text, want := range map[string]string{
		`listeners: [{address: "127.0.0.1:1"}]`:                                             "",
		`listeners: [{address: "[::1]:1"}]`:                                                 "",
		`listeners: [{address: "localhost:1"}]`:                                             "",
		`listeners: [{address: "unix:///run/x"}]`:                                           "",
		`listeners: [{address: "0.0.0.0:1"}]`:                                               "1:23: warning: listeners[0].address: \"0.0.0.0:1\": " + plain,
		`listeners: [{address: ":1"}]`:                                                      plain,
		`listeners: [{address: "10.0.0.1:1"}, {address: "x.example:1"}]`:                    plain + "|" + plain,
		`listeners: [{address: "0.0.0.0:1"` + pair + `}]`:                                   "1:41: warning: listeners[0].tls: " + anybody,
		`listeners: [{address: "127.0.0.1:1"` + pair + `}]`:                                 "",
		`listeners: [{address: "0.0.0.0:1"` + withCA + `}]`:                                 "",
		`admin: {address: "0.0.0.0:1", insecure: true, token_file: t}`:                      readable,
		`admin: {address: "0.0.0.0:1", insecure: true}`:                                     nobody,
		`admin: {address: "0.0.0.0:1"` + pair + `}`:                                         nobody,
		`admin: {address: "0.0.0.0:1", token_file: t` + pair + `}`:                          "",
		`admin: {address: "0.0.0.0:1"` + withCA + `}`:                                       "",
		`admin: {address: "127.0.0.1:1", token_file: t, tls: {cert: c, key: k}}`:            "",
		`admin: {address: "unix:///run/x", insecure: true, token_file: t, open: [/readyz]}`: "",
	} {
		var parts []string
		if want != "" {
			parts = strings.Split(want, "|")
		}
		got := warnings(t, text+"\n"+origin)
		if len(got) != len(parts) {
			t.Errorf("%s: warned of %q, want %q", text, got, parts)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], parts[i]) {
				t.Errorf("%s: warned of %q, want %q", text, got[i], parts[i])
			}
		}
	}
}

// TestCredentialsNeedTLS: headers that look like credentials are no more sent in plain text than
// token_file is.
func TestCredentialsNeedTLS(t *testing.T) {
	file := func(address, name, rest string) string {
		return "origins: [{name: a, grpc: {addresses: ['" + address + "'], headers: {x-tenant: t, " + name + ": \"Bearer hush\"}" + rest + "}}]\n"
	}
	for _, name := range []string{
		"authorization", "Authorization", "proxy-authorization", "cookie", "x-auth-token", "x-vault-token", "private_token", "token", "x-api-key",
		"api-key", "apikey", "x-apikey", "x-goog-api-key", "x-client-secret", "x-password", "x-access-key", "x-amz-security-token", "x-auth",
		"x-jwt", "x-credential",
	} {
		got := messages(t, file("cp:1", name, ""))
		if len(got) != 1 || !strings.Contains(got[0], "origins[0].grpc.headers."+name+`: looks like a credential and is sent over TLS only, but "cp:1"`) ||
			strings.Contains(got[0], "hush") {
			t.Errorf("%s to another host in plain text: %q", name, got)
		}
		for _, fine := range []string{file("cp:1", name, ", tls: {}"), file("127.0.0.1:1", name, ""), file("unix:///run/cp", name, "")} {
			if got := messages(t, fine); got != nil {
				t.Errorf("%s: %q", fine, got)
			}
		}
		if got := messages(t, file("127.0.0.1:1', '10.0.0.1:1", name, "")); len(got) != 1 || !strings.Contains(got[0], "10.0.0.1:1") {
			t.Errorf("%s to the second address: %q", name, got)
		}
	}
	for _, name := range []string{"x-token-count-limit", "authority-name", "x-tenant-id", "x-author", "cookies-allowed", "x-keyspace", "x-key"} {
		if got := messages(t, file("cp:1", name, "")); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	var names []string
	for _, p := range Problems(parseError(file("cp:1", "cookie", ", token_file: t"))) {
		names = append(names, p.Path)
	}
	if want := []string{"origins[0].grpc.headers.cookie", "origins[0].grpc.token_file"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func parseError(text string) error {
	_, err := Parse("weir.yaml", []byte(text), noEnv)
	return err
}
