package stories

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

const root = "../.."

// patience is how long an alert may take: the longest needs a minute of lag and five seconds.
const patience = 2 * time.Minute

// prometheus is that of all stories.
var prometheus struct{ url, targets string }

func TestMain(m *testing.M) {
	weirtest.Binary = os.Getenv("WEIR_BINARY")
	stop, err := startPrometheus()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	stop()
	os.Exit(code)
}

// startPrometheus runs it with the chart's rules, hours and minutes of which are seconds.
func startPrometheus() (stop func(), err error) {
	dir, err := os.MkdirTemp("", "stories")
	if err != nil {
		return nil, err
	}
	rules, err := os.ReadFile(root + "/deploy/helm/weir/files/rules.yaml")
	if err != nil {
		return nil, err
	}
	rules = regexp.MustCompile(`(for: |\[)(\d+)[hm]\b`).ReplaceAll(rules, []byte("${1}${2}s"))
	prometheus.targets = dir + "/targets"
	config := fmt.Sprintf("global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }\n"+
		"rule_files: [%s/rules.yaml]\nscrape_configs:\n  - job_name: none\n    file_sd_configs: [{ files: ['%s/*.json'], refresh_interval: 1s }]\n", dir, prometheus.targets)
	if err := os.Mkdir(prometheus.targets, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(dir+"/rules.yaml", rules, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(dir+"/prometheus.yaml", []byte(config), 0o600); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close() // Prometheus takes the port
	prometheus.url = "http://" + address
	log, err := os.Create(dir + "/log")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("prometheus", "--config.file="+dir+"/prometheus.yaml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("prometheus does not start; apt-get install prometheus: %w", err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	if !weirtest.Until(weirtest.Patience, func() bool { _, err := weirtest.Fetch(prometheus.url + "/-/ready"); return err == nil }) {
		stop()
		return nil, fmt.Errorf("prometheus does not become ready")
	}
	return stop, nil
}

// fleet is a weir with its origin and its clients.
type fleet struct {
	t       *testing.T
	job     string
	origin  *relaytest.Origin
	link    *link
	config  weirtest.Config
	weir    *weirtest.Process
	clients []*relaytest.Client
	dial    []grpc.DialOption // of clients
	// from when on there is a fault, and when its alert fired
	fault, fired time.Time
}

// newFleet has an origin with twenty clusters, before a weir to which nobody has come.
func newFleet(t *testing.T, edit func(weirtest.Config)) *fleet {
	t.Helper()
	t.Parallel()
	f := &fleet{t: t, job: t.Name()}
	f.origin = relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	f.change("first")
	f.link = newLink(t, f.origin.Net().Addr())
	f.config = weirtest.NewConfig(f.link.Addr().String(), relaytest.Delta)
	f.config.Origin().Set("group_by", []any{"cluster"})
	if edit != nil {
		edit(f.config)
	}
	f.weir = weirtest.Start(t, f.config)
	file := filepath.Join(prometheus.targets, f.job+".json")
	text := fmt.Sprintf(`[{"targets":[%q],"labels":{"job":%q}}]`, f.weir.Admin, f.job)
	if err := os.WriteFile(file+".next", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".next", file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	return f
}

func cluster(i int) string { return fmt.Sprintf("cluster-%02d", i) }

// change has the origin serve another content of all clusters.
func (f *fleet) change(word string) {
	f.origin.Batch(func() {
		for i := range 20 {
			f.origin.Set(relaytest.ClusterType, cluster(i), word, relaytest.Cluster(cluster(i), time.Duration(len(word))*time.Second))
		}
	})
}

// client subscribes to all clusters.
func (f *fleet) client(id, group string, cfg relaytest.ClientConfig, names ...string) *relaytest.Client {
	f.t.Helper()
	cfg.Dialect = relaytest.Delta
	c := relaytest.NewClient(f.t, weirtest.Connect(f.t, f.weir.Addr, f.dial...), cfg)
	f.clients = append(f.clients, c)
	c.Open(relaytest.Node(id, group))
	if len(names) == 0 {
		names = []string{"*"}
	}
	c.Subscribe(relaytest.ClusterType, names...)
	return c
}

// crowd is that many good clients, which have everything when it returns, and no alert.
func (f *fleet) crowd(n int) {
	f.t.Helper()
	for i := range n {
		f.client(fmt.Sprintf("good-%02d", i), "web", relaytest.ClientConfig{})
	}
	for _, c := range f.clients {
		c.Await(patience, func(s *relaytest.State) bool { return s.Count(relaytest.ClusterType) == 20 }, "a client has all clusters")
	}
}

// calm waits until Prometheus has seen the fleet for some seconds, and no alert of it.
func (f *fleet) calm() {
	f.t.Helper()
	seen := fmt.Sprintf(`count_over_time(weir_build_info{job=%q}[1h]) > 4`, f.job)
	if !weirtest.Until(patience, func() bool { return len(query(f.t, seen)) > 0 }) {
		f.t.Fatal("Prometheus does not scrape the weir")
	}
	if got := f.alerts(); len(got) > 0 {
		f.t.Fatalf("before the fault there are %v", got)
	}
	f.fault = time.Now()
}

type series struct{ Metric map[string]string }

func query(t *testing.T, expr string) []series {
	t.Helper()
	resp, err := http.Get(prometheus.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result []series }
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s: %v, %s", expr, err, b)
	}
	return answer.Data.Result
}

// alerts are those that have fired for the fleet, by name.
func (f *fleet) alerts() (names []string) {
	f.t.Helper()
	for _, s := range query(f.t, fmt.Sprintf(`count by (alertname) (max_over_time(ALERTS{job=%q, alertstate="firing"}[1h]))`, f.job)) {
		names = append(names, s.Metric["alertname"])
	}
	slices.Sort(names)
	return names
}

// tells is what somebody on call sees of a fault.
type tells struct {
	alert    string
	may      []string // alerts of what the fault causes
	headline string   // a regular expression, as the two below
	status   string
	node     string // a client that is concerned; empty: none is
	name     string // of the type; empty: the type as a whole
	explain  string
}

// alerted waits for the alert.
func (f *fleet) alerted(name string) {
	f.t.Helper()
	if !weirtest.Until(patience, func() bool { return slices.Contains(f.alerts(), name) }) {
		f.t.Errorf("%s does not fire; these do: %v", name, f.alerts())
	}
	if f.fired.IsZero() {
		f.fired = time.Now()
	}
}

// check waits for the alert, and holds the views against the cause. No other alert may have fired.
func (f *fleet) check(w tells) {
	f.t.Helper()
	f.alerted(w.alert)
	for _, got := range f.alerts() {
		if got != w.alert && !slices.Contains(w.may, got) {
			f.t.Errorf("%s fires as well, which has nothing to do with it", got)
		}
	}
	var overview struct{ Sentence string }
	f.get("/overview", &overview)
	f.matches("the headline", w.headline, overview.Sentence)
	out, err := exec.Command(weirtest.Binary, "status", "--admin", f.weir.Admin).CombinedOutput()
	if err != nil {
		f.t.Errorf("weir status: %v", err)
	}
	f.matches("weir status", w.status, string(out))
	f.t.Logf("alerts %v, after %.0f s; headline: %s", f.alerts(), f.fired.Sub(f.fault).Seconds(), overview.Sentence)
	if w.node == "" {
		return
	}
	args := []string{"explain", w.node, "cds"}
	if w.name != "" {
		args = append(args, w.name)
	}
	out, err = exec.Command(weirtest.Binary, append(args, "--admin", f.weir.Admin)...).CombinedOutput()
	if err != nil {
		f.t.Errorf("weir explain: %v", err)
	}
	f.matches("weir explain", w.explain, string(out))
}

func (f *fleet) matches(what, pattern, text string) {
	f.t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		f.t.Errorf("%s does not say %q:\n%s", what, pattern, text)
	}
}

func (f *fleet) get(path string, into any) {
	f.t.Helper()
	body, err := weirtest.Fetch("http://" + f.weir.Admin + path)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		f.t.Fatal(err)
	}
}

// run is a weir command against the fleet.
func (f *fleet) run(args ...string) {
	f.t.Helper()
	if out, err := exec.Command(weirtest.Binary, append(args, "--admin", f.weir.Admin)...).CombinedOutput(); err != nil {
		f.t.Fatalf("weir %v: %v\n%s", args, err, out)
	}
}

// file is the configuration file of the process, as its arguments have it.
func (f *fleet) file() string {
	f.t.Helper()
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", f.weir.PID()))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Split(string(args), "\x00")[3]
}

// link is the way between weir and the origin, which may be slow towards weir.
type link struct {
	net.Listener
	delay atomic.Int64
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go k.copy(out, in, false)
			go k.copy(in, out, true)
		}
	}()
	return k
}

// copy passes on what comes, late if it is from the origin.
func (k *link) copy(to, from net.Conn, late bool) {
	type piece struct {
		b  []byte
		at time.Time
	}
	pieces := make(chan piece, 1<<16)
	go func() {
		defer func() { _ = to.Close() }()
		for p := range pieces {
			time.Sleep(time.Until(p.at))
			if _, err := to.Write(p.b); err != nil {
				_ = from.Close()
			}
		}
	}()
	defer close(pieces)
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p := piece{b: b[:n], at: time.Now()}
		if late {
			p.at = p.at.Add(time.Duration(k.delay.Load()))
		}
		pieces <- p
	}
}
