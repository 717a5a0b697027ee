package page

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// testNav: the bar leads to all views, and its items stay where they are, whichever is shown.
func testNav(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/", "overview")
	places := func() []float64 {
		return evaluate[[]float64](p, `[...document.querySelectorAll("nav a")].map((a) => a.getBoundingClientRect().x)`)
	}
	before := places()
	for _, view := range []string{"origins", "groups", "clients", "resources", "nacks", "history", "charts", "config"} {
		p.click(fmt.Sprintf(`nav a[href="#/%s"]`, view))
		p.awaitView(view)
		if now := places(); !slices.Equal(now, before) {
			t.Errorf("in the view %s the items of the bar are at %v, before at %v", view, now, before)
		}
		if at := p.text("nav a[aria-current]"); !strings.HasPrefix(strings.ToLower(at), view) {
			t.Errorf("in the view %s the bar marks %q", view, at)
		}
	}
	for keys, view := range map[string]string{"gu": "origins", "gg": "groups", "gf": "config"} {
		p.press(keys)
		p.awaitView(view)
	}
}

// testLists: the lists of origins and groups have all of them, and lead to each. Wherever a group
// is named it is a link, and a peer stays on one line.
func testLists(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/origins", "origins")
	if n := p.count("#view table [data-origin]"); n != len(originNames) {
		t.Errorf("%d origins are listed", n)
	}
	p.click(fmt.Sprintf(`#view td a[href="#/groups?origin=%s"]`, originNames[0]))
	p.awaitView("groups")
	p.await("the groups of the origin are listed", `document.querySelectorAll("#view table [data-group]").length === 7`)
	p.open("/groups", "groups")
	p.await("all groups are listed", fmt.Sprintf(`document.querySelectorAll("#view table [data-group]").length === %d`, totalGroups))
	for _, seconds := range []time.Duration{9, 5} { // so that there is history
		s.origins[0].Set(relaytest.ClusterType, clusterName(29), fmt.Sprint(seconds), plainCluster(clusterName(29), seconds*time.Second))
	}
	key := s.groupKey(t, refusingGroup)
	p.await("a group with trouble is marked", fmt.Sprintf(`document.querySelector('[data-group=%q]').dataset.state === "bad"`, key))
	const links = `#view tbody td[data-head="Group"] a[href^="#/groups/mesh/"], #view dd a[href^="#/groups/mesh/"], #view td:first-child a[href^="#/groups/mesh/"]`
	for _, v := range []view{
		{"groups", "/groups", ""}, {"clients", "/clients?origin=" + originNames[0], ""}, {"history", "/history?origin=" + originNames[0], ""},
		{"resources", "/resources?limit=1000&origin=" + originNames[0], ""},
		{"client", "/clients/" + s.groups[refusingGroup].clients[0].node.Id, ""},
	} {
		p.open(v.route, v.name)
		p.await("the view "+v.name+" leads to groups", fmt.Sprintf(`!!document.querySelector('%s')`, links))
	}
	p.open("/clients", "clients")
	high := evaluate[[]float64](p, `[...document.querySelectorAll("#view td .peer")].map((e) => e.getClientRects().length)`)
	if len(high) == 0 || slices.Max(high) > 1 {
		t.Errorf("peers are on so many lines: %v", high)
	}
}

// testSort: a head sorts its column by the mouse and by the keyboard, and says so to a screen
// reader. A list that is longer than a page is sorted beyond it.
func testSort(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/groups", "groups")
	names := `[...document.querySelectorAll("#view tbody td:first-child")].map((e) => e.innerText)`
	head := func(name, order string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("#view th")].find((h) => h.innerText.startsWith(%q))?.ariaSort === %q`, name, order)
	}
	asked := evaluate[[]string](p, names)
	p.click("#view th:first-child button")
	p.await("the column says that it ascends", head("Group", "ascending"))
	up := evaluate[[]string](p, names)
	if !slices.IsSortedFunc(up, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		t.Errorf("the groups are not sorted by name: %q", up)
	}
	evaluate[bool](p, `(document.querySelector("#view th:first-child button").focus(), true)`)
	p.press(kb.Enter)
	p.await("Enter turns it", head("Group", "descending"))
	down := evaluate[[]string](p, names)
	slices.Reverse(down)
	if !slices.Equal(up, down) {
		t.Errorf("it does not turn: %q, and back %q", up, down)
	}
	p.press(" ")
	p.await("space ends it", head("Group", "none"))
	if again := evaluate[[]string](p, names); !slices.Equal(again, asked) {
		t.Errorf("the rows do not come back to their order: %q, before %q", again, asked)
	}
	for _, v := range s.views(t) {
		p.open(v.route, v.name)
		p.await("its content is there", fmt.Sprintf(`document.querySelectorAll(%q).length > 0`, v.content))
		if n := evaluate[int](p, `[...document.querySelectorAll("#view table")].filter((t) => !t.querySelector("th[aria-sort]")).length`); n > 0 {
			t.Errorf("in the view %s %d tables cannot be sorted", v.name, n)
		}
	}
	p.open("/clients", "clients")
	p.click("#view th:first-child button")
	// In their order the first fifty are those with trouble.
	p.await("the list is sorted beyond its first page", `document.querySelectorAll("[data-node]").length > 500`)
	p.await("it says how far", `/first 1,000 of 2,000/.test(document.querySelector(".paging").innerText)`)
}

// testHolders: the clients that hold a cluster are in sync, whatever they do to listeners.
func testHolders(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	for typeURL, want := range map[string]struct{ name, state string }{
		relaytest.ClusterType: {clusterName(0), "good"}, relaytest.ListenerType: {refusedListener, "bad"},
	} {
		q := url.Values{"origin": {originNames[0]}, "group": {s.groupKey(t, refusingGroup)}, "type": {typeURL}, "name": {want.name}}
		p.open("/resource?"+strings.ReplaceAll(q.Encode(), "+", "%20"), "resource")
		p.await("its holders are there", `document.querySelectorAll("[data-node]").length >= 25`)
		states := evaluate[[]string](p, `[...document.querySelectorAll("[data-node]")].map((e) => e.dataset.state)`)
		for i := range refusing {
			if states[i] != want.state {
				t.Errorf("of %s holder %d is %s, want %s", want.name, i, states[i], want.state)
				break
			}
		}
	}
}
