package page

import (
	"fmt"
	"net"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestReplicas: the page of one replica shows all of them, what is wrong with each, and leads to
// their pages. One that has ended is there too, and said not to answer.
func TestReplicas(t *testing.T) {
	browser := newBrowser(t)
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Options: lenient})
	fill(o)
	var ports []any
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().String())
		_ = l.Close()
	}
	var weirs []*weirtest.Process
	for i, port := range ports {
		config := weirtest.NewConfig(o.Net().Addr(), relaytest.Delta).Set("instance", fmt.Sprintf("weir-%d", i))
		config.Set("cache.seed.listen", port).Set("cache.seed.peers", ports).Set("cache.seed.timeout", "500ms")
		weirs = append(weirs, weirtest.Start(t, config))
	}
	for i, w := range weirs { // the origin is not asked before
		c := relaytest.NewClient(t, weirtest.Connect(t, w.Addr), relaytest.ClientConfig{Dialect: relaytest.Delta})
		c.Open(relaytest.Node(fmt.Sprintf("web-%d", i), "web"))
		c.Subscribe(relaytest.ClusterType, "*")
	}

	p := browser.tab(t, weirs[0].Admin)
	p.open("/", "overview")
	p.await("all are there", `document.querySelectorAll("nav.replicas [data-replica]").length === 3`)
	p.await("the page says which it shows", `document.querySelector("nav.replicas [aria-current]").innerText === "weir-0"`)
	p.await("each is well", `[...document.querySelectorAll("nav.replicas [data-replica]")].every((r) => r.dataset.state === "good")`)
	p.looks("replicas-strip")
	p.click(`#nav a[href="#/replicas"]`)
	p.awaitView("replicas")
	p.await("a replica is shown with its clients", `/OK.*The only client has the newest/s.test(document.querySelector('[data-replica="weir-1"]')?.innerText)`)
	p.json()
	weirs[2].Stop()
	p.await("one that has ended is shown", `[...document.querySelectorAll("tr[data-replica]")].some((r) => r.dataset.state === "bad" && /no answer/.test(r.innerText))`)
	p.await("its error is one sentence", `[...document.querySelectorAll("tr[data-replica]")].every((r) => !r.innerText.includes("Get "))`)
	p.looks("replicas")
	p.click(`[data-replica="weir-1"] a`)
	p.await("its link leads to its page", fmt.Sprintf(`location.host === %q`, weirs[1].Admin))
	p.base = "http://" + weirs[1].Admin
	p.awaitView("overview")
	p.await("it is the page of that one", `document.querySelector("nav.replicas [aria-current]")?.innerText === "weir-1"`)
}
