package stories

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// queriesOf are those of the chart's dashboard, by panel.
func queriesOf(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(root + "/deploy/helm/weir/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	type panel struct {
		Title   string
		Targets []struct{ Expr string }
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], target.Expr)
		}
	}
	if len(all) < 30 {
		t.Fatalf("the dashboard has %d panels with queries", len(all))
	}
	return all
}

// TestDashboardQueries: Prometheus takes each query of the dashboard, and has numbers for it of a
// weir to which all that happened of which there is a panel.
func TestDashboardQueries(t *testing.T) {
	authority := weirtest.NewAuthority(t, "corp")
	authority.IssueUntil("weir", 2, time.Now().Add(30*24*time.Hour))
	f := newFleet(t, func(c weirtest.Config) {
		c.Listener().Set("tls", map[string]any{"cert": authority.Path("weir.pem"), "key": authority.Path("weir.key")})
		c.Set("cache.snapshot", map[string]any{"path": filepath.Join(t.TempDir(), "snapshot"), "interval": "1s"})
		c.Set("limits.memory", 1<<30)
	})
	f.dial = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(authority.Pool, ""))}
	f.crowd(3)
	f.calm()
	f.client("rejects", "web", relaytest.ClientConfig{Reject: func(*relaytest.Response) string { return "no" }})
	f.client("stuck", "web", relaytest.ClientConfig{ManualACK: true})
	if c, err := net.Dial("tcp", f.weir.Addr); err == nil { // a handshake that fails
		_, _ = c.Write([]byte("this is no TLS"))
		_ = c.Close()
	}
	f.change("second")
	f.origin.Refuse(status.Error(codes.Unavailable, "restarting"))
	f.origin.CloseConns()
	time.Sleep(3 * time.Second)
	f.origin.Refuse(nil)

	panels := queriesOf(t)
	variables := strings.NewReplacer("$job", f.job, "$instance", ".*")
	weirtest.Until(patience, func() bool {
		for title, queries := range panels {
			for _, q := range queries {
				q = variables.Replace(q)
				if len(query(t, "("+q+") == ("+q+")")) == 0 { // what is no number is not equal to itself
					return false
				}
			}
			delete(panels, title)
		}
		return true
	})
	for title, queries := range panels {
		t.Errorf("%s has nothing of %q", title, queries)
	}
}
