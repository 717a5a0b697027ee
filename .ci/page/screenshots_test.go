package page

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// Screenshots have this size, and are taken this long after a start, so that charts have lines.
const (
	pictureWidth, pictureHeight = 1280, 860
	pictureAfter                = 32 * time.Second
)

// TestScreenshots makes the pictures of the documentation: the page as people meet it.
func TestScreenshots(t *testing.T) {
	browser := newBrowser(t)
	t.Run("Demo", func(t *testing.T) { pictureDemo(t, browser) })
	t.Run("Fleet", func(t *testing.T) { pictureFleet(t, browser) })
	t.Run("CanaryStopped", func(t *testing.T) { pictureCanary(t, browser) })
}

// programLog is what a program says.
type programLog struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *programLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *programLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// pictureDemo is the second weir of weir demo.
func pictureDemo(t *testing.T, browser *browser) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := &programLog{}
	demo := exec.CommandContext(ctx, weirtest.Binary, "demo")
	demo.Stdout, demo.Stderr = said, said
	demo.Cancel = func() error { return demo.Process.Signal(syscall.SIGINT) }
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = demo.Wait() }()
	page := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/`)
	var found [][]string
	if !weirtest.Until(patience, func() bool {
		found = page.FindAllStringSubmatch(said.String(), -1)
		return len(found) >= 2
	}) {
		t.Fatalf("the demo names no page:\n%s", said)
	}
	p := browser.tab(t, found[1][1])
	p.size(pictureWidth, pictureHeight, false)
	p.open("/", "overview")
	p.await("its clients are there", `/All 5 clients|of 5 clients/.test(document.querySelector("#headline")?.innerText)`)
	time.Sleep(pictureAfter)
	p.await("all is well", `document.querySelector("#headline").dataset.state === "good"`)
	p.keep("demo")
}

// pictureFleet is a weir with 2,000 clients, of which some reject a listener; then an origin is
// down.
func pictureFleet(t *testing.T, browser *browser) {
	groups := fleet()
	last := &groups[totalGroups-1]
	last.cluster = originNames[last.origin] + "-returns"
	for i, c := range last.clients {
		c.node.Id, c.node.Cluster, c.refuses = fmt.Sprintf("returns-%03d", i), last.cluster, ""
	}
	b := newBedOf(t, groups, false)
	begin := time.Now()
	for i := 0; time.Since(begin) < pictureAfter; i++ { // so that something happens
		for n, o := range b.origins {
			name := clusterName(i + n)
			o.Set(relaytest.EndpointType, name, fmt.Sprint(i+2), relaytest.Endpoints(name, fmt.Sprintf("10.0.%d.%d:8080", n, i+1)))
		}
		time.Sleep(2 * time.Second)
	}
	p := browser.tab(t, b.weir.Admin)
	p.size(pictureWidth, pictureHeight, false)
	p.open("/", "overview")
	p.await("the lines of the tiles are there", `document.querySelectorAll(".spark").length >= 3`)
	p.keep("clients-2000")
	p.scheme("dark")
	p.keep("dark")
	p.scheme("light")
	p.open("/nacks", "nacks")
	p.await("the book has the rejection", `document.querySelectorAll("[data-rejection]").length > 0`)
	p.keep("nacks")
	p.size(390, 844, true)
	p.open("/", "overview")
	p.keep("phone")
	p.size(pictureWidth, pictureHeight, false)
	const down = 1
	b.origins[down].Stop()
	p.await("the origin is down", originIs(originNames[down], "bad"))
	time.Sleep(3 * time.Second)
	p.keep("origin-down")
}

// pictureCanary is a candidate that a canary has rejected.
func pictureCanary(t *testing.T, browser *browser) {
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Options: lenient})
	set := func(seconds int) {
		o.Set(relaytest.ClusterType, "checkout", fmt.Sprint(seconds), relaytest.Cluster("checkout", time.Duration(seconds)*time.Second))
	}
	o.Batch(func() { fill(o); set(1) })
	config := weirtest.NewConfig(o.Net().Addr(), relaytest.Delta)
	config.Origin().Set("group_by", []any{})
	config.Origin().Set("canary", map[string]any{"match": map[string]any{"cluster": "canary"}, "bake": "1s"})
	weir := weirtest.Start(t, config)
	var strict atomic.Bool
	for i := range 12 {
		cluster, name := "web", fmt.Sprintf("web-%d", i)
		if i < 2 {
			cluster, name = "canary", fmt.Sprintf("canary-%d", i)
		}
		c := relaytest.NewClient(t, weirtest.Connect(t, weir.Addr), relaytest.ClientConfig{Dialect: relaytest.Delta, Reject: func(*relaytest.Response) string {
			if cluster == "canary" && strict.Load() {
				return "Error adding/updating cluster(s) checkout: unknown load balancing policy"
			}
			return ""
		}})
		c.Open(relaytest.Node(name, cluster))
		c.Subscribe(relaytest.ClusterType, "*")
	}
	p := browser.tab(t, weir.Admin)
	p.size(pictureWidth, pictureHeight, false)
	p.open("/origins/plane", "origin")
	p.await("the first state is with all", `/12 ?clients/i.test(document.querySelector("#view").innerText.replace(/\s+/g, " ")) || /Clients 12/.test(document.querySelector("#view").innerText.replace(/\s+/g, " "))`)
	time.Sleep(3 * time.Second) // it bakes
	strict.Store(true)
	set(2)
	p.await("the candidate is stopped", `document.querySelector("[data-gate]")?.dataset.phase === "stopped"`)
	time.Sleep(3 * time.Second)
	p.keep("canary-stopped")
}
