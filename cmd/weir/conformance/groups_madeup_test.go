package conformance

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// madeUpGroups: nodes that a client makes up one after the other refuse no client its group, the
// origin sees no more new streams than it is to, and nothing is left of them when the client is
// gone.
func madeUpGroups(t *testing.T) {
	const rate, most, atOnce, all = 40, 800, 40, 1200
	w := start(t, setup{
		config: func(c weirtest.Config) { c.Origin().Set("group_by", []any{"cluster"}) },
		edge:   func(c weirtest.Config) { c.Set("limits.groups", most).Set("limits.new_groups_per_second", rate) },
	})
	w.origin.Put(cds, cdsAt("a", 1))
	conn, begin := weirtest.Connect(t, w.weir.Addr), time.Now()
	var open []*relaytest.Client
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for i := range all {
		<-pace.C
		c := newClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.Delta, ManualACK: true})
		c.Open(relaytest.Node("made-up", fmt.Sprint("made-up-", i)))
		c.Subscribe(cds, "*")
		if open = append(open, c); len(open) == atOnce {
			open[0].Cancel()
			open = open[1:]
		}
		if i%300 == 299 {
			one := w.as(relaytest.Delta, relaytest.Node("i", fmt.Sprint("real-", i)))
			one.AwaitNames(cds, "a client is served meanwhile", "a")
		}
	}
	for _, c := range open {
		c.Cancel()
	}
	w.weir.AwaitMetric(all/300, "only the groups of the others are left", "weir_groups")
	if n, span := len(w.origin.Streams()), time.Since(begin); float64(n) > rate*(span.Seconds()+1) {
		t.Errorf("%d streams at the origin in %v, want %d a second at most", n, span, rate)
	}
	if n, _ := w.weir.Metric("weir_limit_rejections_total", `limit="groups"`); n != 0 {
		t.Errorf("%v clients were refused a group", n)
	}
}

// groupsPerPeer: whoever makes up more groups than a peer may have is refused by that limit's name,
// and no other peer is.
func groupsPerPeer(t *testing.T) {
	const most = 5
	w := start(t, setup{
		config: func(c weirtest.Config) { c.Origin().Set("group_by", []any{"cluster"}) },
		edge:   func(c weirtest.Config) { c.Set("limits.groups_per_peer", most).Set("limits.groups", 20) },
	})
	w.origin.Put(cds, cdsAt("a", 1))
	conn, refused := weirtest.Connect(t, w.weir.Addr), 0
	for i := range 60 {
		c := newClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.SotW})
		c.Open(relaytest.Node("made-up", fmt.Sprint("made-up-", i)))
		c.Subscribe(cds, "*")
		if i < most {
			c.AwaitNames(cds, "so many are served", "a")
			continue
		}
		c.AwaitEnd("one too many")
		if status.Code(c.Err()) == codes.ResourceExhausted && strings.Contains(c.Err().Error(), "limits.groups_per_peer 5 is reached") {
			refused++
		}
	}
	if refused != 60-most {
		t.Errorf("%d are refused by that name, want %d", refused, 60-most)
	}
	other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	away := weirtest.Connect(t, w.weir.Addr, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return other.DialContext(ctx, "tcp", addr)
	}))
	for _, cluster := range []string{"real", "made-up-0"} {
		c := newClient(t, away, relaytest.ClientConfig{Dialect: relaytest.Delta})
		c.Open(relaytest.Node("i", cluster))
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "another peer is served", "a")
	}
	w.as(relaytest.SotW, relaytest.Node("i", "real")).AwaitNames(cds, "and the first where a group is there", "a")
	if n := len(w.origin.Streams()); n != most+1 {
		t.Errorf("%d streams at the origin, want %d", n, most+1)
	}
	w.weir.AwaitMetric(float64(60-most), "refusals are counted", "weir_limit_rejections_total", `limit="groups_per_peer"`)
}
