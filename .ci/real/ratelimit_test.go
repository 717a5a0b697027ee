package real

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// limits is a world of RateLimitConfigs: requests a minute by domain.
func limits(perMinute map[string]uint32) world {
	w := world{}
	for domain, n := range perMinute {
		w.put(relaytest.Body(&ratelimit.RateLimitConfig{
			Name: domain, Domain: domain,
			Descriptors: []*ratelimit.RateLimitDescriptor{{
				Key:       "who",
				RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_MINUTE, RequestsPerUnit: n},
			}},
		}))
	}
	return w
}

// limiter is a ratelimit service that runs. It asks for all RateLimitConfigs in SotW on ADS.
type limiter struct {
	tb    testing.TB
	debug string
}

func startLimiter(tb testing.TB, server string) *limiter {
	tb.Helper()
	cmd := exec.Command(installed(tb, "ratelimit-"+pinned("RATELIMIT")))
	cmd.Dir = tb.TempDir()
	cmd.Env = []string{
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_ID=ratelimit", "CONFIG_GRPC_XDS_SERVER_URL=" + server,
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=100ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=1s",
		// no request is made that needs it
		"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=127.0.0.1:1",
		"USE_STATSD=false", "LOG_LEVEL=info",
	}
	l := &limiter{tb: tb}
	for _, listener := range []string{"", "GRPC_", "DEBUG_"} {
		free := loopback(tb)
		l.debug = free.Addr().String() // of the last
		_, port, err := net.SplitHostPort(l.debug)
		if err == nil {
			err = free.Close()
		}
		if err != nil {
			tb.Fatal(err)
		}
		cmd.Env = append(cmd.Env, listener+"HOST=127.0.0.1", listener+"PORT="+port)
	}
	start(tb, cmd)
	return l
}

// Await waits until the service has exactly these limits.
func (l *limiter) Await(sentence string, perMinute map[string]uint32) {
	l.tb.Helper()
	var has string
	same := func() bool {
		resp, err := http.Get("http://" + l.debug + "/rlconfig")
		if err != nil {
			has = err.Error()
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		has = string(body)
		if err != nil || strings.Count(has, "who") != len(perMinute) {
			return false
		}
		for domain, n := range perMinute {
			if !strings.Contains(has, fmt.Sprintf("%s.who: unit=MINUTE requests_per_unit=%d,", domain, n)) {
				return false
			}
		}
		return true
	}
	if !weirtest.Until(patience, func() bool { return same() || !pause() }) {
		l.tb.Fatalf("%s: the ratelimit service has %s, want %v", sentence, has, perMinute)
	}
}

// TestRateLimit: the ratelimit service has the descriptors that the control plane has, also when
// one is deleted (RELAY-11), while the control plane is dead and after weir's restart.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	for _, o := range []origin{snapshotSotW, snapshotDelta} {
		t.Run(o.name, func(t *testing.T) {
			now := map[string]uint32{"a": 1, "b": 1}
			p := newPlane(t, o, limits(now))
			disk, f := filepath.Join(t.TempDir(), "snapshot"), newFront(t, "")
			weir := weirtest.Start(t, weirConfig(p, disk))
			f.To(weir.Addr)
			l := startLimiter(t, f.Addr())
			l.Await("the start", now)
			for i := range times(5) {
				now["a"] = uint32(i + 2)
				p.Publish(limits(now))
				l.Await("a limit changes", now)
			}
			delete(now, "b")
			p.Publish(limits(now))
			l.Await("a domain is deleted", now)
			p.Stop()
			weir.Stop()
			weir = weirtest.Start(t, weirConfig(p, disk))
			f.To(weir.Addr)
			startLimiter(t, f.Addr()).Await("a service comes to a restored weir while the control plane is dead", now)
			now = map[string]uint32{"a": 100, "c": 1}
			p.Start(limits(now))
			l.Await("the control plane is back with something else", now)
		})
	}
}
