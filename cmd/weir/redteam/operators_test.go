package redteam

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	csds "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/metadata"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

func init() {
	attacks["page: foreign"] = func(ctx context.Context, a *attacker) error {
		paths := []string{"/resources?bodies=1", "/clients", "/overview", "/metrics", "/history", "/groups"}
		var mu sync.Mutex
		n := 0
		next := func() (string, string) {
			mu.Lock()
			defer mu.Unlock()
			n++
			return http.MethodGet, paths[n%len(paths)]
		}
		return a.ask(ctx, 6, next, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
			r.Header.Set("Sec-Fetch-Dest", "image")
		})
	}
}

// pageSieges are by a web page of somebody else, and by who asks an operator's questions in JSON.
var pageSieges = []siege{
	{name: "page: foreign", play: foreign},
	{name: "admin: 300,000 node matchers", play: asked(`{"node_matchers":[` + strings.Repeat(`{},`, 300_000) + `{}]}`)},
	{name: "admin: numbers in a node", play: asked(metadataOf("[" + strings.Repeat("0,", 500_000) + "0]"))},
	{name: "admin: lists in lists of a node", play: asked(metadataOf(strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)))},
}

// asked has CSDS asked with a body, several times at once.
func asked(body string) func(*pod) string {
	return func(p *pod) string {
		begin := time.Now()
		statuses := make([]string, 8)
		var all sync.WaitGroup
		for i := range statuses {
			all.Go(func() {
				statuses[i], _ = request(http.MethodPost, "http://"+p.weir.Admin+"/v3/discovery:client_status", body)
			})
		}
		all.Wait()
		if took := time.Since(begin); took > late {
			p.Errorf("CSDS takes %v", took)
		}
		slices.Sort(statuses)
		return fmt.Sprintf("%v after %.1f s", slices.Compact(statuses), time.Since(begin).Seconds())
	}
}

// foreign has a foreign page ask for everything that is costly.
func foreign(p *pod) string {
	said := by("page: foreign")(p)
	if strings.Contains(said, "answered 200") {
		p.Error("a foreign page is answered")
	}
	return said
}

// foreignPages is foreign with many bodies.
func (p *pod) foreignPages() string {
	p.Helper()
	said := p.say(relaytest.ListenerType, func(version string) []byte { return named(version, 0, 5_000, 4<<10) })
	return said + "; " + foreign(p)
}

// withToken is a pod whose admin address needs one.
func withToken(p *pod) {
	p.token = p.put("token", "the first token")
	p.file.Set("admin.token_file", p.token)
}

// tokenSieges are by an operator who is none any more.
var tokenSieges = []siege{{name: "admin: streams of a token that was replaced", play: func(p *pod) string {
	ctx, cancel := context.WithTimeout(p.Context(), 2*late)
	defer cancel()
	ready, ended := make(chan struct{}, 2), make(chan error, 2)
	go func() { ended <- p.follow(ctx, ready) }()
	go func() { ended <- p.askStatus(ctx, ready) }()
	for range 2 {
		select {
		case <-ready:
		case err := <-ended:
			p.Fatalf("with the token: %v", err)
		}
	}
	p.put("token", "the second token")
	changed := time.Now()
	for range 2 {
		if err := <-ended; err != nil {
			p.Error(err)
		}
	}
	return fmt.Sprintf("both were over after %.1f s", time.Since(changed).Seconds())
}}}

// follow is a stream of what happens to a good client, until weir ends it.
func (p *pod) follow(ctx context.Context, ready chan<- struct{}) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.weir.Admin+"/explain/follow?node=good-0", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer the first token")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for first := true; lines.Scan(); first = false {
		if first {
			ready <- struct{}{}
		}
	}
	if ctx.Err() != nil {
		return errors.New("/explain/follow goes on with a token that was replaced")
	}
	return nil
}

// askStatus asks on a stream of CSDS again and again, until weir ends it.
func (p *pod) askStatus(ctx context.Context, ready chan<- struct{}) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer the first token")
	s, err := csds.NewClientStatusDiscoveryServiceClient(weirtest.Connect(p.T, p.weir.Admin)).StreamClientStatus(ctx)
	for first := true; err == nil; first = false {
		if err = s.Send(&csds.ClientStatusRequest{ExcludeResourceContents: true}); err == nil {
			_, err = s.Recv()
		}
		switch {
		case first && err == nil:
			ready <- struct{}{}
		case first:
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	if ctx.Err() != nil {
		return errors.New("a stream of CSDS goes on with a token that was replaced")
	}
	return nil
}

// openFiles is what a weir of fewFiles may have open.
const openFiles = 1024

// fewFiles is a pod that may open few files.
func fewFiles(p *pod) {
	limit := []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, openFiles), "sh"}
	p.launch.Under = append(limit, p.launch.Under...)
}

// idleSieges hold connections to the ports that are not for clients.
var idleSieges = []siege{
	{name: "idle: probes", play: func(p *pod) string { return p.idle(p.weir.Probes) }},
	{name: "idle: admin", play: func(p *pod) string { return p.idle(p.weir.Admin) }},
	{name: "idle: a request begun, probes", play: func(p *pod) string { return p.idle(p.weir.Probes, "GET /readyz HTTP/1.1\r\n") }},
	{name: "idle: a request begun, admin", play: func(p *pod) string { return p.idle(p.weir.Admin, "GET /readyz HTTP/1.1\r\n") }},
}

// idle opens more connections than weir may have files, and says what each has to say. Meanwhile
// new clients come, a kubelet probes and an operator reloads.
func (p *pod) idle(address string, say ...string) string {
	p.Helper()
	refused := 0
	for range openFiles + 76 {
		conn, err := dialFrom(podAttacker)(p.Context(), address)
		if err != nil {
			refused++
			continue
		}
		defer func(conn net.Conn) { _ = conn.Close() }(conn)
		for _, words := range say {
			_, _ = conn.Write([]byte(words)) // or weir has closed it
		}
	}
	begin := time.Now()
	served := p.newClient("127.0.2.3", "elsewhere, beside idle connections", begin)
	if status, err := request(http.MethodGet, "http://"+p.weir.Probes+"/readyz", ""); err != nil || !strings.HasPrefix(status, "200") {
		p.Errorf("/readyz: %s %v", status, err)
	}
	probed := time.Since(begin) - served
	if probed > late {
		p.Errorf("/readyz is answered after %v", probed)
	}
	log := len(p.weir.Output())
	p.weir.Replace(p.weir.Text())
	if !weirtest.Until(late, func() bool { return strings.Contains(p.weir.Output()[log:], "read the configuration again") }) {
		p.Errorf("the file is not read again")
	}
	return fmt.Sprintf("%d connections, %d refused; beside them a new client was served after %.0f ms, and /readyz after %.0f ms",
		openFiles+76-refused, refused, served.Seconds()*1000, probed.Seconds()*1000)
}

// aliasBombs are YAML files that are small, and large once their aliases are resolved.
func aliasBombs() []string {
	const base = "listeners: [{ address: '127.0.0.1:0' }]\norigins: [{ name: plane, grpc: { addresses: ['127.0.0.1:1'] } }]\n"
	times := func(n int, text string) string { return strings.Repeat(text+", ", n-1) + text }
	rules := func(element string) string {
		return base + "authorization: [&r { who: [anonymous], names: [" + times(3_000, element) + "] }, " + times(30_000, "*r") + "]\n"
	}
	tower := base + "x0: &x0 [" + times(10, "a") + "]\n"
	for i := 1; i < 9; i++ {
		tower += fmt.Sprintf("x%d: &x%d [%s]\n", i, i, times(10, fmt.Sprintf("*x%d", i-1)))
	}
	return []string{tower, rules("a"), rules("{}"), tower + "limits: *x8\ncache: *x8\n"}
}

// fileSieges are by what is in weir's file.
var fileSieges = []siege{
	{name: "file: aliases at a reload", play: func(p *pod) string {
		for _, text := range aliasBombs() {
			log, begin := len(p.weir.Output()), time.Now()
			p.weir.Replace([]byte(text))
			said := weirtest.Until(late, func() bool { return strings.Contains(p.weir.Output()[log:], "refused") || p.weir.Ended() })
			if !said {
				p.Errorf("the file is not refused after %v", time.Since(begin))
			}
			if p.weir.Ended() {
				return "while it read its file"
			}
		}
		p.weir.Replace(p.weir.Text())
		return "refused"
	}},
	{name: "file: aliases for weir validate", play: func(p *pod) string {
		args := append(p.launch.Under, weirtest.Binary, "validate", "-c", p.put("bomb.yaml", aliasBombs()[1]))
		ctx, cancel := context.WithTimeout(p.Context(), 4*late)
		defer cancel()
		begin := time.Now()
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(cmd.Environ(), p.launch.Env...)
		out, err := cmd.CombinedOutput()
		took := time.Since(begin)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signaled() || took > late {
			p.Errorf("weir validate: %v after %v\n%.1000s", err, took, out)
		}
		return fmt.Sprintf("weir validate ended with %v after %.1f s, with %d bytes of text", err, took.Seconds(), len(out))
	}},
}
