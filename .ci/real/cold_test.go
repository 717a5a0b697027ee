package real

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// coldClusters is how many clusters the world of TestCold has, each with endpoints of its own.
const coldClusters = 2000

// TestCold starts an Envoy straight at a control plane, at a weir that nobody has asked anything,
// and at one that has it all. Each time Envoy must become ready with every cluster warm. How long
// that took is logged, as medians over WEIR_REAL_ROUNDS rounds that take turns, and not judged.
// Without that variable it runs once, beside the other tests, and its figures say nothing.
func TestCold(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("WEIR_REAL_ROUNDS"))
	alone := err == nil
	for _, o := range []origin{snapshotDelta, snapshotSotW, linearDelta} {
		t.Run(o.name, func(t *testing.T) {
			if !alone {
				t.Parallel()
			}
			coldStarts(t, o, max(rounds, 1))
		})
	}
}

func coldStarts(t *testing.T, o origin, rounds int) {
	e := envoy{pinned("ENVOY_NEWEST"), o.dialect, true}
	p := newPlane(t, o, manyClusters(e))
	warmed := weirtest.Start(t, weirConfig(p, ""))
	startup(t, e, warmed.Addr, warmed)
	starts := map[string][]started{}
	for range rounds {
		starts["direct"] = append(starts["direct"], startup(t, e, p.Addr(), nil))
		fresh := weirtest.Start(t, weirConfig(p, ""))
		starts["cold"] = append(starts["cold"], startup(t, e, fresh.Addr, fresh))
		fresh.Stop()
		starts["warm"] = append(starts["warm"], startup(t, e, warmed.Addr, warmed))
	}
	direct := median(starts["direct"], func(s started) time.Duration { return s.took })
	for _, way := range []string{"direct", "cold", "warm"} {
		took := median(starts[way], func(s started) time.Duration { return s.took })
		t.Logf("NOTE %s, %d clusters, %d rounds: %6s %v, %.2f of direct; CPU of Envoy %v, weir %v, control plane %v; %d, %d responses",
			t.Name(), coldClusters, rounds, way, took, float64(took)/float64(direct),
			median(starts[way], func(s started) time.Duration { return s.envoy }),
			median(starts[way], func(s started) time.Duration { return s.weir }),
			median(starts[way], func(s started) time.Duration { return s.plane }),
			starts[way][0].clusters, starts[way][0].endpoints)
	}
}

func median(all []started, of func(started) time.Duration) time.Duration {
	var list []time.Duration
	for _, s := range all {
		list = append(list, of(s))
	}
	slices.Sort(list)
	return list[len(list)/2].Round(time.Millisecond)
}

// started is one start: how long it took, the CPU time that went into it, and in how many responses
// clusters and endpoints came.
type started struct {
	took, envoy, weir, plane time.Duration
	clusters, endpoints      int
}

// manyClusters is a world of coldClusters clusters and their endpoints, and a listener whose routes
// go to all of them.
func manyClusters(e envoy) world {
	w := world{}
	host := &route.VirtualHost{Name: "all", Domains: []string{"*"}}
	for i := range coldClusters {
		name := fmt.Sprintf("cluster-%04d", i)
		host.Routes = append(host.Routes, routeTo("/"+name+"/", name))
		load := &endpoint.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpoint.LocalityLbEndpoints{{}}}
		for j := range 4 {
			load.Endpoints[0].LbEndpoints = append(load.Endpoints[0].LbEndpoints, &endpoint.LbEndpoint{
				HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{
					Address: address(fmt.Sprintf("10.%d.%d.%d:80", i/250, i%250, j+1)),
				}},
			})
		}
		w.put(relaytest.Body(load), relaytest.Body(&cluster.Cluster{
			Name: name, ConnectTimeout: durationpb.New(time.Second),
			ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
			EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: e.Source()},
		}))
	}
	return w.put(e.Listener(routes), relaytest.Body(&route.RouteConfiguration{
		Name: routes, VirtualHosts: []*route.VirtualHost{host},
	}))
}

// startup is how long an Envoy takes from its start until it is ready. By then it has to have all
// clusters, with endpoints, and the listener.
func startup(t *testing.T, e envoy, server string, weir *weirtest.Process) (s started) {
	t.Helper()
	dir, err := os.MkdirTemp("", "envoy-") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config, err := json.Marshal(e.bootstrap("client", server))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bootstrap.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(installed(t, "envoy-"+e.version), "-c", "bootstrap.json", "--concurrency", "1", "--disable-hot-restart",
		"--log-level", "warn")
	cmd.Dir = dir
	admin := over(filepath.Join(dir, "admin.sock"))
	began, plane, before := time.Now(), cpu(t, os.Getpid()), cpuOf(t, weir)
	envoy := start(t, cmd)
	defer envoy.Stop()
	ready := func() bool { _, err := get(admin, "/ready"); return err == nil }
	if !weirtest.Until(patience, func() bool { return ready() || envoy.ended() }) || envoy.ended() {
		t.Fatal("Envoy does not become ready")
	}
	s.took, s.envoy, s.plane, s.weir = time.Since(began), cpu(t, cmd.Process.Pid), cpu(t, os.Getpid())-plane, cpuOf(t, weir)-before
	s.clusters, s.endpoints = complete(t, admin)
	return s
}

// complete fails unless Envoy has every cluster, warm and with its endpoints, and the listener with
// its routes.
func complete(t *testing.T, admin *http.Client) (clusters, endpoints int) {
	t.Helper()
	stats, err := get(admin, "/stats?filter=(cluster_manager|listener_manager|membership_total|config_reload$|update_success$)")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	full := 0
	count := func(value string) int { n, _ := strconv.Atoi(value); return n }
	for line := range strings.Lines(stats) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got[name] = value
		if strings.HasPrefix(name, "cluster.cluster-") && strings.HasSuffix(name, "membership_total") && value == "4" {
			full++
		}
		if strings.HasPrefix(name, "cluster.cluster-") && strings.HasSuffix(name, "update_success") {
			endpoints = max(endpoints, count(value))
		}
	}
	want := map[string]string{
		"cluster_manager.active_clusters": fmt.Sprint(coldClusters + 1), "cluster_manager.warming_clusters": "0",
		"listener_manager.total_listeners_active": "1", "listener_manager.total_listeners_warming": "0",
		"http." + "in" + ".rds." + routes + ".config_reload": "1",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("Envoy is ready with %s: %s, want %s", name, got[name], value)
		}
	}
	if full != coldClusters {
		t.Errorf("Envoy is ready with endpoints of %d clusters, want all %d", full, coldClusters)
	}
	return count(got["cluster_manager.cds.update_success"]), endpoints
}

// cpu is the CPU time of a process so far.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks time.Duration
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, _ := strconv.Atoi(f)
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}

func cpuOf(t *testing.T, weir *weirtest.Process) time.Duration {
	if weir == nil {
		return 0
	}
	return cpu(t, weir.PID())
}
