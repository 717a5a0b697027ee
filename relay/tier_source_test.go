package relay

import "testing"

// TestSourceOf: people see addresses, and nothing of what tells versions apart.
func TestSourceOf(t *testing.T) {
	for server, want := range map[string]string{
		"cp.example:18000 sotw=false":            "cp.example:18000",
		"unix:///var/run/a b/xds.sock sotw=true": "unix:///var/run/a b/xds.sock",
		AllServers + " sotw=true":                "",
		TierServer:                               "",
		"":                                       "",
		"/etc/weir/a b.yaml":                     "/etc/weir/a b.yaml",
	} {
		if got := SourceOf(server); got != want {
			t.Errorf("%q is shown as %q, want %q", server, got, want)
		}
	}
}
