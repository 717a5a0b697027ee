package page

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// stage is what the tests of TestPage share.
type stage struct {
	*bed
	browser *browser
}

// TestPage walks the page of a weir with three origins, 20 groups and 2,000 clients. Its parts
// share them, and leave them as they were.
func TestPage(t *testing.T) {
	s := &stage{browser: newBrowser(t)}
	s.bed = newBed(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *stage)
	}{
		{"Overview", testOverview},
		{"Map", testMap},
		{"Nav", testNav},
		{"Lists", testLists},
		{"Sort", testSort},
		{"Holders", testHolders},
		{"Legend", testLegend},
		{"Config", testConfig},
		{"Phone", testPhone},
		{"Views", testViews},
		{"TwoClicks", testTwoClicks},
		{"Search", testSearch},
		{"Keyboard", testKeyboard},
		{"HostileNames", testHostileNames},
		{"Diff", testDiff},
		{"OriginDown", testOriginDown},
		{"StreamCut", testStreamCut},
		{"ViewTime", testViewTime},
		{"Cost", testCost},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, s) })
	}
}

// view is one view of the page: where it is, and an element that it has only with its content.
type view struct{ name, route, content string }

// views are all of them.
func (s *stage) views(t *testing.T) []view {
	t.Helper()
	key := s.groupKey(t, refusingGroup)
	resource := url.Values{
		"origin": {originNames[0]}, "group": {key}, "type": {relaytest.ClusterType}, "name": {clusterName(0)},
	}
	return []view{
		{"overview", "/", `[data-origin]`},
		{"origins", "/origins", `#view table [data-origin]`},
		{"groups", "/groups", `#view table [data-group]`},
		{"origin", "/origins/" + originNames[0], `#view a[href*="#/groups/"]`},
		{"group", "/groups/" + originNames[0] + "/" + url.PathEscape(key), `[data-node]`},
		{"clients", "/clients", `[data-node]`},
		{"client", "/clients/" + url.PathEscape(s.groups[refusingGroup].clients[0].node.Id), `#view table, #view dl`},
		{"resources", "/resources", `#view a[href*="#/resource?"]`},
		{"resource", "/resource?" + strings.ReplaceAll(resource.Encode(), "+", "%20"), `#view a, #view dl`},
		{"nacks", "/nacks", `[data-rejection]`},
		{"history", "/history", `#view`},
		{"charts", "/charts", `#view canvas, #view svg`},
		{"config", "/config", `#view pre`},
	}
}

// groupKey is the key that weir gives a group of the fleet.
func (s *stage) groupKey(t *testing.T, n int) string {
	t.Helper()
	var all struct {
		Groups []struct {
			Origin, Key string
			Cluster     string `json:"node_cluster"`
		}
	}
	s.get(t, "/groups", &all)
	for _, g := range all.Groups {
		if g.Origin == originNames[s.groups[n].origin] && g.Cluster == s.groups[n].cluster {
			return g.Key
		}
	}
	t.Fatalf("/groups has no group %q at %s: %+v", s.groups[n].cluster, originNames[s.groups[n].origin], all)
	return ""
}

// testOverview: the first page says how many there are of all, and the headline what is wrong.
func testOverview(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/", "overview")
	p.await("every origin is there", fmt.Sprintf(`document.querySelectorAll("[data-origin]").length === %d`, len(originNames)))
	for n, name := range originNames {
		state := "good"
		if n == s.groups[refusingGroup].origin || n == s.groups[totalGroups-1].origin {
			state = "warn" // its clients reject something
		}
		p.await("origin "+name+" is "+state, originIs(name, state))
	}
	text := `document.querySelector("#view").innerText.replace(/[\s\u202f]+/g, " ")`
	p.await("the clients are counted", text+`.match(/\b2[, .']?000\b/) !== null`)
	p.await("the groups are counted", text+`.match(/\b20\b/) !== null`)
	headline := p.text("#headline")
	t.Logf("headline: %s", headline)
	if state := evaluate[string](p, `document.querySelector("#headline").dataset.state`); state == "good" {
		t.Errorf("clients reject what they are sent, and yet the headline is good: %s", headline)
	}
	if want := fmt.Sprintf("%d clients reject lds %s of %s", refusing, refusedListener, originNames[0]); !strings.Contains(headline, want) {
		t.Errorf("the headline does not say that %s: %s", want, headline)
	}
	p.await("the stream of events is open", `document.documentElement.dataset.live === "open"`)
	if refreshing := p.count(`meta[http-equiv="refresh"]`); refreshing > 0 {
		t.Error("the page reloads itself")
	}
}

// originUp is the condition that an origin is not shown as down.
func originUp(name string) string {
	return fmt.Sprintf(`["good", "warn"].includes(document.querySelector('[data-origin=%q]')?.dataset.state)`, name)
}

// originIs is a condition on the state in which an origin is shown.
func originIs(name, state string) string {
	return fmt.Sprintf(`document.querySelector('[data-origin=%q]')?.dataset.state === %q`, name, state)
}

// testMap: the map leads from an origin to its groups, and from a group to its clients.
func testMap(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/", "overview")
	p.click(fmt.Sprintf(`a[href="#/origins/%s"]`, originNames[0]))
	p.awaitView("origin")
	of := 0
	for _, g := range s.groups {
		if g.origin == 0 {
			of++
		}
	}
	groups := `new Set([...document.querySelectorAll('#view a[href*="#/groups/"]')].map(a => a.hash)).size`
	p.await("all groups of the origin are there", fmt.Sprintf(`%s === %d`, groups, of))
	p.click(fmt.Sprintf(`#view a[href=%q]`, "#/groups/"+originNames[0]+"/"+url.PathEscape(s.groupKey(t, refusingGroup))))
	p.awaitView("group")
	// The worst come first.
	p.await("its clients are there", `document.querySelectorAll("[data-node]").length >= 10`)
	first := evaluate[string](p, `document.querySelector("[data-node]").dataset.node`)
	if !s.refuses(first) {
		t.Errorf("the first client of the group is %s, and it refuses nothing", first)
	}
	p.click(fmt.Sprintf(`[data-node=%q] a`, first))
	p.awaitView("client")
	if text := p.text("#view"); !strings.Contains(text, first) {
		t.Errorf("the view of %s does not name it:\n%s", first, text)
	}
}

// refuses reports whether a client is one of those that refuse the listener.
func (s *stage) refuses(id string) bool {
	for _, c := range s.groups[refusingGroup].clients {
		if c.node.Id == id {
			return c.refuses != ""
		}
	}
	return false
}

// testViews: each view has its JSON and its curl line, fits a screen and a phone, and is kept as a
// picture.
func testViews(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	in := func(v view, sentence string) {
		p.open(v.route, v.name)
		p.await(sentence, fmt.Sprintf(`document.querySelectorAll(%q).length > 0`, v.content))
		p.steady()
		p.fits()
	}
	whole := p.t
	defer func() { p.t = whole }()
	views := s.views(t)
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			p.t = t
			defer p.judge()
			in(v, "its content is there")
			p.shot(v.name + "-light")
			p.json()
			p.scheme("dark")
			defer p.scheme("light")
			p.steady()
			p.dark()
			p.shot(v.name + "-dark")
		})
	}
	p.t = whole
	p.size(390, 844, true)
	for _, v := range views {
		t.Run(v.name+"/phone", func(t *testing.T) {
			p.t = t
			defer p.judge()
			in(v, "its content is there on a phone")
			p.shot(v.name + "-phone")
		})
	}
}

// json: the view's link leads to what weir answers, and its curl line asks for the same.
func (p *tab) json() {
	p.t.Helper()
	got := evaluate[struct {
		Status int
		Body   string
	}](p, `(async () => {
		const r = await fetch(document.querySelector("a.json").href)
		return {Status: r.status, Body: (await r.text()).slice(0, 100)}
	})()`)
	if got.Status != 200 || strings.TrimSpace(got.Body) == "" || strings.HasPrefix(got.Body, "<") {
		p.t.Errorf("the JSON of the view is %d: %s", got.Status, got.Body)
	}
	path := evaluate[string](p, `(u => u.pathname + u.search)(new URL(document.querySelector("a.json").href))`)
	if curl := p.text("code.curl"); !strings.HasPrefix(curl, "curl ") || !strings.Contains(curl, p.base+path) {
		p.t.Errorf("the curl line does not ask for %s: %s", path, curl)
	}
}

// fits: nothing is wider than the window, but what scrolls in a box of its own, and no text is
// cut off without a sign.
func (p *tab) fits() {
	p.t.Helper()
	wide := evaluate[[]string](p, `(() => {
		const root = document.documentElement, width = root.clientWidth, bad = []
		if (root.scrollWidth > width) bad.push("the page is " + root.scrollWidth + " wide, the window " + width)
		const scrolls = e => e && e !== document.body && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement))
		for (const e of document.querySelectorAll("body *")) {
			const r = e.getBoundingClientRect()
			if (r.width && r.right > width + 1 && r.left < 10000 && !scrolls(e.parentElement) && !e.closest("svg")) {
				bad.push("beyond the window by " + Math.round(r.right - width) + ": " + e.outerHTML.slice(0, 120))
			}
		}
		return bad.slice(0, 5)
	})()`)
	for _, what := range wide {
		p.t.Error(what)
	}
}

// dark: the page is dark when the person prefers that.
func (p *tab) dark() {
	p.t.Helper()
	back := evaluate[[]float64](p, `(() => {
		for (const e of [document.body, document.documentElement]) {
			const c = getComputedStyle(e).backgroundColor.match(/[\d.]+/g).map(Number)
			if (c.length < 4 || c[3] > 0) return c
		}
		return getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [0, 0, 0] : [255, 255, 255]
	})()`)
	if sum := back[0] + back[1] + back[2]; sum > 200 {
		p.t.Errorf("the page is not dark: its background is %v", back)
	}
}
