package config

import (
	"strings"
	"testing"
)

// TestSeedIsChecked: replicas that could not know each other, or would know strangers, are refused
// at the line.
func TestSeedIsChecked(t *testing.T) {
	const pair = ` tls: {cert: c, key: k, ca: a}, peers_allowed: ["spiffe://corp/ns/mesh/sa/weir"]`
	for text, want := range map[string]string{
		`{}`: "",
		`{listen: "127.0.0.1:1", peers: ["127.0.0.1:2", "[::1]:3", "localhost:4"]}`:          "",
		`{listen: ":1", peers: ["dns:///weir:1"],` + pair + `}`:                              "",
		`{listen: ":1", tls: {spiffe: "unix:///run/s"}, peers_allowed: ["spiffe://corp/x"]}`: "",
		`{file: seed.weir}`:                                                         "",
		`{listen: ":1"}`:                                                            "2:9: cache.seed.tls: is missing",
		`{peers: ["10.0.0.1:1"]}`:                                                   "cache.seed.tls: is missing",
		`{peers: ["dns:///localhost:1"]}`:                                           "cache.seed.tls: is missing",
		`{listen: "x"}`:                                                             `cache.seed.listen: "x" is neither host:port`,
		`{listen: "unix:///run/x"}`:                                                 `cache.seed.listen: "unix:///run/x" is no host:port`,
		`{peers: ["unix:///run/x"]}`:                                                `cache.seed.peers[0]: "unix:///run/x" is no host:port`,
		`{peers: [":1"],` + pair + `}`:                                              `cache.seed.peers[0]: ":1" has no host`,
		`{peers: ["dns://x:1"],` + pair + `}`:                                       `cache.seed.peers[0]: "dns://x:1" is neither host:port`,
		`{listen: ":1", tls: {cert: c, key: k, ca: a}}`:                             "cache.seed.peers_allowed: is empty",
		`{listen: ":1", tls: {cert: c, key: k}, peers_allowed: ["dns:x"]}`:          "cache.seed.tls.ca: is needed",
		`{listen: ":1", tls: {cert: c, ca: a}, peers_allowed: ["dns:x"]}`:           "cache.seed.tls.key: is missing",
		`{listen: "127.0.0.1:1", peers_allowed: ["dns:x"]}`:                         "cache.seed.peers_allowed: needs tls",
		`{listen: ":1", tls: {cert: c, key: k, ca: a}, peers_allowed: [anonymous]}`: "is the identity of no certificate",
		`{listen: ":1", tls: {spiffe: "unix:///run/s", ca: a}, peers_allowed: ["spiffe://c/x"]}`: "cache.seed.tls.ca: is for files",
		`{listen: ":1", tls: {spiffe: "unix:///run/s"}, peers_allowed: ["dns:x"]}`:               "does not begin with spiffe://",
		`{file: seed.weir, timeout: 1ms}`:                                                        "cache.seed.timeout: must be at least 100ms",
		`{listen: "127.0.0.1:18080"}`:                                                            "is already listeners[0].address",
	} {
		_, err := Parse("weir.yaml", []byte("cache:\n  seed: "+text+"\n"+origin), noEnv)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`cache: {seed: {tls: {cert: c, key: k, ca: a}}}`:                   "cache.seed.tls: is not used",
		`cache: {snapshot: {key_file: k}}`:                                 "cache.snapshot.key_file: is not used",
		`cache: {snapshot: {key_file: k}, seed: {listen: "127.0.0.1:1"}}`:  "",
		`cache: {snapshot: {key_file: k}, seed: {peers: ["127.0.0.1:1"]}}`: "",
	} {
		if got := strings.Join(warnings(t, text+"\n"+origin), "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: warned of %q, want %q", text, got, want)
		}
	}
}
