package page

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// testLegend: the map says what its colours are and how long its bars, and bars of all origins have
// one scale.
func testLegend(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/", "overview")
	legend := p.text(".map-legend")
	for _, word := range []string{"in sync", "behind", "rejecting", "origin away"} {
		if !strings.Contains(legend, word) {
			t.Errorf("the legend has no %q: %q", word, legend)
		}
	}
	got := evaluate[struct {
		Ends []string
		Off  float64
	}](p, `(() => {
		const ends = [...document.querySelectorAll(".scale .axis")], end = ends[0].getBoundingClientRect(), bar = document.querySelector(".group .bar").getBoundingClientRect()
		return {Ends: ends.map((e) => e.innerText.replace(/\s+/g, " ")), Off: Math.abs(end.left - bar.left) + Math.abs(end.right - bar.right)}
	})()`)
	if len(got.Ends) != len(originNames) || got.Off > 2 {
		t.Errorf("the scales are %q, and off by %v pixels", got.Ends, got.Off)
	}
	for _, end := range got.Ends {
		if end != fmt.Sprintf("0 50 %d clients", totalClients/totalGroups) {
			t.Errorf("a scale is %q", end)
		}
	}
}

// testConfig: it shows what differs from the default, and all on request. The drain is apart, and
// says what it does.
func testConfig(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.open("/config", "config")
	p.await("what was configured is there", `/streams_per_connection/.test(document.querySelector("pre.yaml")?.innerText)`)
	few := p.text("pre.yaml")
	if strings.Contains(few, "linger") {
		t.Errorf("what is as by default is shown:\n%s", few)
	}
	p.json()
	p.click(`input[name="changed"]`)
	p.await("all of it is there", `/linger: 1m0s/.test(document.querySelector("pre.yaml")?.innerText)`)
	if n := p.count(`[data-drain] form[data-action="drain"]`); n != 1 || p.count(`form[data-action="drain"]`) != 1 {
		t.Errorf("the drain is not in a panel of its own")
	}
	if said := p.text("[data-drain]"); !strings.Contains(said, "timing.drain") || !strings.Contains(said, "/readyz") {
		t.Errorf("it is not said what a drain does: %s", said)
	}
	p.open("/config?all=1", "config")
	p.await("the address has it", `!document.querySelector('input[name="changed"]').checked`)
}

// testPhone: on a phone what is wrong comes before the line for curl, and the bar says that it
// scrolls. It shows the item of the view.
func testPhone(t *testing.T, s *stage) {
	p := s.browser.tab(t, s.weir.Admin)
	p.size(390, 844, true)
	p.open("/", "overview")
	p.steady()
	top := func(css string) float64 {
		return evaluate[float64](p, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().top`, css))
	}
	if alarm, curl := top("#headline"), top("code.curl"); alarm > curl || alarm > 300 {
		t.Errorf("the headline is at %v, the line for curl at %v", alarm, curl)
	}
	cue := func() string {
		return evaluate[string](p, `(n => n.dataset.before + " " + n.dataset.after + " " + (getComputedStyle(n).maskImage !== "none"))(document.querySelector("nav"))`)
	}
	if got := cue(); got != "false true true" {
		t.Errorf("at its start the bar says %s of more before, more after, and a sign", got)
	}
	p.open("/config", "config")
	p.steady()
	if got := cue(); got != "true false true" {
		t.Errorf("at its end the bar says %s of more before, more after, and a sign", got)
	}
	if !p.is(`(a => a.left >= 0 && a.right <= innerWidth)(document.querySelector("nav a[aria-current]").getBoundingClientRect())`) {
		t.Error("the item of the view is not in sight")
	}
	p.open("/groups", "groups")
	p.steady()
	if !p.is(`document.querySelector("select[name=sort]").getClientRects().length === 1`) {
		t.Error("rows cannot be sorted on a phone")
	}
}

var stamp = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ`)

// aged: the headline has ages, and the times in UTC in their titles.
func (p *tab) aged() {
	p.t.Helper()
	if text := p.text(".headline"); stamp.MatchString(text) || !regexp.MustCompile(`for \d+(s|m \d+s)`).MatchString(text) {
		p.t.Errorf("the headline has times and no ages: %s", text)
	}
	if title := evaluate[string](p, `document.querySelector("#headline time")?.title ?? ""`); !stamp.MatchString(title) {
		p.t.Errorf("the age says of its time %q", title)
	}
}
