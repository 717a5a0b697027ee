package page

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// testTwoClicks: from the overview, two clicks lead to a client that rejects something, and its
// reason is read there.
func testTwoClicks(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/", "overview")
	evaluate[bool](p, `(window.clicks = 0, addEventListener("click", () => window.clicks++, true), true)`)
	p.click(`a[href="#/nacks"]:not(nav a)`)
	p.awaitView("nacks")
	p.await("the book has the rejection", fmt.Sprintf(`[...document.querySelectorAll("[data-rejection]")].some(e => e.innerText.includes(%q))`, refusedListener))
	// The client's link in the entry.
	id := evaluate[string](p, fmt.Sprintf(`(() => {
		const entry = [...document.querySelectorAll("[data-rejection]")].find(e => e.innerText.includes(%q))
		const link = [...entry.querySelectorAll('a[href^="#/clients/"]')].find(a => a.getClientRects().length)
		if (!link) return ""
		link.id = "test-example"
		return decodeURIComponent(link.hash.slice("#/clients/".length))
	})()`, refusedListener))
	if id == "" {
		t.Fatalf("the book's entry leads to no client. It says:\n%s", p.text("[data-rejection]"))
	}
	p.click("#test-example")
	p.awaitView("client")
	if n := evaluate[int](p, `window.clicks`); n != 2 {
		t.Errorf("it took %d clicks", n)
	}
	if !s.refuses(id) {
		t.Errorf("the client that is found is %s, and it refuses nothing", id)
	}
	reason := "route config 0x"
	p.await("the client's reason is to be read", fmt.Sprintf(`(t => t.includes(%q) && t.includes(%q))(document.querySelector("#view").innerText)`, id, reason))
	p.shot("nacking-client")
}

// testSearch: one key leads to the search, which finds clients by node id and resources by name.
func testSearch(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	for _, want := range []struct{ text, view, shown string }{
		{"payments-042", "client", "payments-042"},
		{clusterName(17), "resource", clusterName(17)},
		{refusedListener, "resource", refusedListener},
	} {
		p.open("/", "overview")
		p.press("/")
		p.await("the search has the focus", `document.activeElement?.id === "search"`)
		p.press(want.text)
		if got := evaluate[string](p, `document.querySelector("#search").value`); got != want.text {
			t.Fatalf("the search has %q", got)
		}
		p.await("it is found", fmt.Sprintf(`document.querySelector("#results a, #results [role=option]")?.innerText.includes(%q)`, want.text))
		if want.text == refusedListener {
			p.shot("search")
		}
		p.press(kb.Enter)
		p.awaitView(want.view)
		p.await("it is shown", fmt.Sprintf(`document.querySelector("#view").innerText.includes(%q)`, want.shown))
	}
	p.open("/", "overview")
	p.press("/no-such-thing-anywhere")
	p.await("the search says that there is nothing", `document.querySelectorAll('#results a, #results [role=option] a').length === 0`)
}

// testKeyboard: all is reached without a mouse, and one sees where one is.
func testKeyboard(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/", "overview")
	p.press("?")
	p.await("? opens the help of the keys", `!!document.querySelector("dialog[open], [role=dialog]:not([hidden])")`)
	p.shot("help")
	p.press(kb.Escape)
	p.await("Esc closes it", `!document.querySelector("dialog[open], [role=dialog]:not([hidden])")`)
	p.press("/")
	p.press("cluster")
	p.press(kb.Escape)
	p.await("Esc leaves the search", `document.activeElement?.id !== "search"`)
	p.press("/")
	p.press("x?/")
	if got := evaluate[string](p, `document.querySelector("#search").value`); !strings.HasSuffix(got, "x?/") {
		t.Errorf("keys that are typed into the search act: it has %q", got)
	}
	p.press(kb.Escape)

	p.open("/", "overview")
	seen := map[string]bool{}
	for range 60 {
		p.press(kb.Tab)
		at := evaluate[struct {
			Href    string
			Visible bool
		}](p, `(e => {
			const s = getComputedStyle(e)
			return {Href: e.getAttribute("href") ?? e.id ?? e.tagName,
				Visible: e === document.body || (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0) || s.boxShadow !== "none"}
		})(document.activeElement)`)
		if !at.Visible {
			t.Errorf("one does not see that %s has the focus", at.Href)
		}
		seen[at.Href] = true
	}
	for _, want := range []string{"#/nacks", "#/clients", "#/resources", "#/origins/" + originNames[0]} {
		if !seen[want] {
			t.Errorf("the tab key does not lead to %s, but to %v", want, seen)
		}
	}
	evaluate[bool](p, `(document.querySelector('a[href="#/nacks"]').focus(), true)`)
	p.press(kb.Enter)
	p.awaitView("nacks")
}

// testHostileNames: names that others choose are text wherever they are shown.
func testHostileNames(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	last := totalGroups - 1
	key := url.PathEscape(s.groupKey(t, last))
	origin := originNames[s.groups[last].origin]
	p.open("/groups/"+origin+"/"+key, "group")
	p.await("the group is named", fmt.Sprintf(`document.querySelector("#view").innerText.includes(%q)`, hostileCluster))
	p.steady()
	p.fits()
	p.shot("hostile-group")
	for i, id := range hostileIDs {
		p.open("/clients/"+url.PathEscape(id), "client")
		p.await("the client is named", fmt.Sprintf(`document.querySelector("#view").innerText.replace(/\s+/g, " ").includes(%q)`, beginning(id)))
		p.steady()
		p.fits()
		if i == 2 || i == 3 {
			p.shot(fmt.Sprintf("hostile-client-%d", i))
		}
	}
	p.open("/nacks", "nacks")
	p.await("the reason is text", `[...document.querySelectorAll("[data-rejection]")].some(e => e.innerText.includes("<img src=x onerror="))`)
	p.steady()
	p.fits()
	for i, name := range hostileNames {
		q := url.Values{"origin": {origin}, "group": {s.groupKey(t, last)}, "type": {relaytest.ClusterType}, "name": {name}}
		p.open("/resource?"+strings.ReplaceAll(q.Encode(), "+", "%20"), "resource")
		p.await("the resource is named", fmt.Sprintf(`document.querySelector("#view").innerText.includes(%q)`, beginning(name)))
		p.steady()
		p.fits()
		if i < 2 {
			p.shot(fmt.Sprintf("hostile-resource-%d", i))
		}
	}
	p.size(390, 844, true)
	for _, route := range []struct{ view, route string }{
		{"group", "/groups/" + origin + "/" + key}, {"nacks", "/nacks"}, {"overview", "/"}, {"client", "/clients/" + url.PathEscape(hostileIDs[3])},
	} {
		p.open(route.route, route.view)
		p.steady()
		p.fits()
		p.shot("hostile-" + route.view + "-phone")
	}
	// What is searched for, and not found, is text, too.
	p.size(1440, 900, false)
	p.open("/", "overview")
	for _, text := range []string{hostileIDs[0], hostileNames[0]} {
		evaluate[bool](p, `(document.querySelector("#search").value = "", true)`)
		p.press("/")
		p.press(text)
		p.await("the search finds it", fmt.Sprintf(`document.querySelector("#results")?.innerText.includes(%q)`, text))
		p.press(kb.Escape)
	}
	if n := p.count("#view script, #results script, #view img[src=x]"); n > 0 {
		t.Errorf("%d elements were made of names", n)
	}
}

// beginning is what the page shows of a name, as far as it is looked for: what is hidden in it is
// shown.
func beginning(name string) string {
	shown := strings.Join(strings.Fields(strings.ReplaceAll(visible.Lines(name), "\t", `\t`)), " ")
	return shown[:min(len(shown), 60)]
}

// testDiff: what the origin changes is a version more of the resource, and the difference is shown.
func testDiff(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	name := clusterName(3)
	q := url.Values{"origin": {originNames[1]}, "group": {s.groupKey(t, 1)}, "type": {relaytest.ClusterType}, "name": {name}}
	p.open("/resource?"+strings.ReplaceAll(q.Encode(), "+", "%20"), "resource")
	s.origins[1].Set(relaytest.ClusterType, name, "2", plainCluster(name, 7*time.Second))
	p.open("/resource?"+strings.ReplaceAll(q.Encode(), "+", "%20"), "resource")
	p.await("the difference is shown", `(t => !!t && /^-.*5s/m.test(t) && /^\+.*7s/m.test(t))(document.querySelector("pre.diff")?.innerText)`)
	p.steady()
	p.fits()
	p.shot("diff-light")
	p.scheme("dark")
	p.shot("diff-dark")
	p.open("/history", "history")
	p.await("the change is in the list", fmt.Sprintf(`document.querySelector("#view").innerText.includes(%q)`, name))
	p.shot("history-change")
	const flaps = "flaps"
	rows := fmt.Sprintf(`[...document.querySelectorAll("#view tr[data-change]")].filter((r) => r.innerText.includes(%q))`, flaps)
	for i := range 2 { // equal changes of one group are rows of their own, and not other groups
		s.origins[1].Set(relaytest.ClusterType, flaps, "1", plainCluster(flaps, time.Second))
		p.await("it comes", fmt.Sprintf(`%s.length === %d`, rows, 2*i+1))
		s.origins[1].Remove(relaytest.ClusterType, flaps)
		p.await("it goes", fmt.Sprintf(`%s.length === %d`, rows, 2*i+2))
	}
	if !p.is(`new Set(` + rows + `.map((r) => r.innerText.match(/and (\d+) others/)?.[1])).size === 1`) {
		t.Error("a change that comes again in a group is counted as another group")
	}
}

// testOriginDown: an origin that goes down shows within 3 s, on a page that is open, and so does
// its return.
func testOriginDown(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/", "overview")
	p.await("the stream of events is open", `document.documentElement.dataset.live === "open"`)
	const down = 1
	name := originNames[down]
	p.await("the origin is well", originUp(name))
	s.origins[down].Stop()
	within(t, 3*time.Second, "an origin that went down is shown", func() bool { return p.is(originIs(name, "bad")) })
	p.await("the tab says so", `document.title.startsWith("Problem · ") && document.querySelector("link[rel=icon]").href.endsWith("/icon-bad.svg")`)
	p.await("the headline is bad", `document.querySelector("#headline").dataset.state === "bad" && document.querySelector("#headline").innerText.includes("`+name+`")`)
	t.Logf("headline: %s", p.text("#headline"))
	p.aged()
	p.shot("origin-down-light")
	for i, other := range originNames {
		if i != down && !p.is(originUp(other)) {
			t.Errorf("origin %s is shown as if it were down, too", other)
		}
	}
	s.origins[down].Start()
	within(t, 10*time.Second, "its return is shown", func() bool { return p.is(originUp(name)) })
	if !weirtest.Until(patience, func() bool { return s.clients(t).Unsynced <= refusing+len(hostileIDs) }) {
		t.Errorf("not all clients have come back to what they had: %+v", s.clients(t))
	}
}
