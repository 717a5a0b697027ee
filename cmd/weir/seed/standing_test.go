package seed

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestStandings: each sibling says how it is doing, or has an error: one of another deployment, one
// that does not know the question, and one that says too much. The process leaves out itself.
func TestStandings(t *testing.T) {
	var peers []Peer
	names := map[string]string{}
	serve := func(name string, h http.Handler) {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		address := s.Listener.Addr().String()
		peers, names[address] = append(peers, Peer{Address: address}), name
	}
	weir := func(process, deployment, state string) http.Handler {
		return NewServer(ServerConfig{Standing: func() Standing {
			return Standing{Process: process, Deployment: deployment, State: state, Clients: 7}
		}}).Handler()
	}
	serve("well", weir("a", "prod", "good"))
	serve("a later version", weir("b", "prod", "purple"))
	serve("self", weir("me", "prod", "good"))
	serve("foreign", weir("c", "test", "good"))
	serve("older", NewServer(ServerConfig{}).Handler())
	serve("long", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"deployment": "prod", "sentence": %q}`, strings.Repeat("x", maxStanding))
	}))
	s := New(Config{Process: "me", Deployment: "prod", Peers: peers, Log: zap.NewNop()})
	got := map[string]string{}
	for _, a := range s.Standings(context.Background()) {
		if a.Err != nil {
			got[names[a.Address]] = a.Err.Error()
			continue
		}
		got[names[a.Address]] = fmt.Sprint(a.Standing.State, a.Standing.Clients)
	}
	want := map[string]string{
		"well": "good7", "a later version": "bad7", "foreign": `it is of the deployment "test"`,
		"older": "it runs an earlier version of weir: that reports no state", "long": "its answer has more than 16384 bytes",
	}
	for name := range names {
		if name = names[name]; got[name] != want[name] {
			t.Errorf("%s: %q, want %q", name, got[name], want[name])
		}
	}
}
