//go:build linux

package downstream

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/peer"
)

// TestUserAtSocket: a client over a Unix socket is the user at the other end, through all that a
// connection is wrapped in. Its streams and groups are counted by connection, since one user may
// have all the clients of a host.
func TestUserAtSocket(t *testing.T) {
	s, err := New(Config{Table: newRig(t).table, Instance: "here"})
	if err != nil {
		t.Fatal(err)
	}
	for network, address := range map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"} {
		port, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer port.Close()
		client, err := net.Dial(network, port.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		raw, err := newCountedListener(s, port, Keepalive{}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		_, auth, err := s.newHandshaker(&ListenerConfig{}, 0).ServerHandshake(raw)
		if err != nil {
			t.Fatal(err)
		}
		c := callerOf(&peer.Peer{Addr: raw.RemoteAddr(), LocalAddr: raw.LocalAddr(), AuthInfo: auth})
		want := map[string]string{"unix": fmt.Sprintf("uid:%d", os.Getuid()), "tcp": "anonymous"}[network]
		if got := c.who(); got != want {
			t.Errorf("%s: %q, want %q", network, got, want)
		}
		if c.peer == nil || c.peer.identity != "" || (c.peer.conn != 0) != (network == "unix") {
			t.Errorf("%s: counts for %+v", network, c.peer)
		}
	}
}

// TestLinesNameTheIdentity: a line of the log about a client says who it is.
func TestLinesNameTheIdentity(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	r := newRig(t)
	st := &stream{session: newSession(r.set, true, zero, nil)}
	st.session.from.identity = "uid:7"
	l := newNackLog(zap.New(core))
	l.note(cds, Nack{At: zero, Message: "no"}, st, "web")
	newLimitLog(zap.New(core)).note(zero, "streams", "too many", st)
	for _, e := range logs.All() {
		if got := e.ContextMap()["identity"]; got != "uid:7" {
			t.Errorf("%s: %v", e.Message, got)
		}
	}
	if logs.Len() != 2 {
		t.Errorf("%d lines", logs.Len())
	}
}
