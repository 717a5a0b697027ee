package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// envoyProgram is the newest one of those that .ci/real/install fetched.
func envoyProgram() (string, error) {
	pins, err := os.ReadFile(root + "/.ci/real/versions")
	if err != nil {
		return "", err
	}
	pinned := regexp.MustCompile(`(?m)^ENVOY_NEWEST=(.*)$`).FindSubmatch(pins)
	if pinned == nil {
		return "", fmt.Errorf("the file versions does not pin Envoy")
	}
	path := filepath.Join(program("WEIR_REAL_CACHE", "bin/real"), "envoy-"+string(pinned[1]))
	_, err = os.Stat(path)
	return path, err
}

// linked are the libraries of a program, at their paths.
func linked(program string) (map[string]string, error) {
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", program, err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		for _, field := range strings.Fields(line) {
			if filepath.IsAbs(field) {
				files[field] = field
			}
		}
	}
	return files, nil
}

// envoy is a real one on a machine of its own, with requests through it all the time.
type envoy struct {
	name    string
	machine *machine
	stop    chan struct{}
	done    chan struct{}

	mu       sync.Mutex // guards all below
	answered int
	failed   []error
}

// adminPort is that of an Envoy's admin page.
const adminPort = 9901

// startEnvoy has its control plane at an address; secret is its certificate, nil for plain text.
func startEnvoy(t *testing.T, name, address string, secret map[string][]byte) *envoy {
	t.Helper()
	program, err := envoyProgram()
	if err != nil {
		t.Fatal(err)
	}
	machine, err := cluster.newMachine(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text, err := json.MarshalIndent(bootstrap(name, address, secret), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bootstrap.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", "bootstrap.json", "--concurrency", "1", "--disable-hot-restart", "--log-level", "info")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := machine.start(cmd); err != nil {
		t.Fatal(err)
	}
	e := &envoy{name: name, machine: machine, stop: make(chan struct{}), done: make(chan struct{})}
	go e.request()
	t.Cleanup(func() {
		close(e.stop)
		<-e.done
		machine.close()
		_ = log.Close()
		if t.Failed() {
			said, _ := os.ReadFile(log.Name()) // as much as there is
			t.Logf("%s wrote:\n%s", name, said[max(0, len(said)-10_000):])
		}
	})
	return e
}

// bootstrap is Envoy's configuration.
func bootstrap(name, address string, secret map[string][]byte) map[string]any {
	type object = map[string]any
	const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	const tls = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
	socket := func(host string, port any) object {
		return object{"socket_address": object{"address": host, "port_value": port}}
	}
	host, port, _ := net.SplitHostPort(address)
	var number int
	_, _ = fmt.Sscan(port, &number) // of an address that was made of numbers
	weir := object{
		"name": "weir", "type": "STATIC", "connect_timeout": "5s",
		"typed_extension_protocol_options": object{options: object{
			"@type": "type.googleapis.com/" + options, "explicit_http_config": object{"http2_protocol_options": object{}},
		}},
		"load_assignment": object{"cluster_name": "weir", "endpoints": []any{object{
			"lb_endpoints": []any{object{"endpoint": object{"address": socket(host, number)}}},
		}}},
	}
	if secret != nil {
		inline := func(key string) object { return object{"inline_string": string(secret[key])} }
		weir["transport_socket"] = object{"name": "tls", "typed_config": object{
			"@type": "type.googleapis.com/" + tls,
			"common_tls_context": object{
				"tls_params":         object{"tls_maximum_protocol_version": "TLSv1_3"},
				"tls_certificates":   []any{object{"certificate_chain": inline("tls.crt"), "private_key": inline("tls.key")}},
				"validation_context": object{"trusted_ca": inline("ca.crt")},
			},
		}}
	}
	source := object{"resource_api_version": "V3", "ads": object{}}
	return object{
		"node":  object{"id": name, "cluster": "edge"},
		"admin": object{"address": socket("0.0.0.0", adminPort)},
		"dynamic_resources": object{
			"ads_config": object{
				"api_type": "DELTA_GRPC", "transport_api_version": "V3",
				"grpc_services": []any{object{"envoy_grpc": object{"cluster_name": "weir"}}},
			},
			"cds_config": source, "lds_config": source,
		},
		"static_resources": object{"clusters": []any{weir}},
	}
}

// request asks through the Envoy all the time. Until its listener is there nobody can ask; what
// comes after that counts.
func (e *envoy) request() {
	defer close(e.done)
	listens := false
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-e.stop:
			tick.Stop()
			return
		case <-tick.C:
		}
		word, err := e.answer()
		e.mu.Lock()
		switch {
		case err == nil:
			listens = true
			e.answered++
		case listens:
			e.failed = append(e.failed, fmt.Errorf("it answers %q: %w", word, err))
		}
		e.mu.Unlock()
	}
}

// asker has a connection for each request.
var asker = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func fetch(url string) (string, error) {
	response, err := asker.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// connected is the gauge that Envoy has for its stream.
var connected = regexp.MustCompile(`(?m)^control_plane\.connected_state: (\d+)`)

// answer is what a request to the Envoy gets: the word of its routes.
func (e *envoy) answer() (string, error) {
	return fetch(fmt.Sprintf("http://%s:%d/", e.machine.address, envoyPort))
}

// says has no error if that is a word.
func (e *envoy) says(want string) error {
	word, err := e.answer()
	if err == nil && word != want {
		err = fmt.Errorf("%s answers %q", e.name, word)
	}
	return err
}

// whole has no error if the Envoy answers requests and has a stream and all clusters.
func (e *envoy) whole() error {
	if err := e.says("first"); err != nil {
		return err
	}
	stats, err := fetch(fmt.Sprintf("http://%s:%d/stats", e.machine.address, adminPort))
	if err != nil {
		return err
	}
	if m := connected.FindStringSubmatch(stats); m == nil || m[1] != "1" {
		return fmt.Errorf("%s has no stream: %v", e.name, m)
	}
	for _, want := range []string{fmt.Sprintf("cluster_manager.active_clusters: %d", clusters+1), "listener_manager.total_listeners_active: 1"} {
		if !strings.Contains(stats, want+"\n") {
			return fmt.Errorf("%s has not %s", e.name, want)
		}
	}
	return nil
}

// lost has no error if no request ever failed.
func (e *envoy) lost() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.failed) > 0 {
		return fmt.Errorf("%s: %d requests answered, %d failed, the first: %w", e.name, e.answered, len(e.failed), e.failed[0])
	}
	if e.answered == 0 {
		return fmt.Errorf("%s answered no request", e.name)
	}
	return nil
}
