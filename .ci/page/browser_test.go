package page

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// browser is a headless Chromium. Each tab has a profile of its own.
type browser struct{ ctx context.Context }

// newBrowser starts it. tb ends it.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1440, 900),
		chromedp.NoSandbox, // a container has neither the rights nor the need
		chromedp.CombinedOutput(io.Discard))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Chromium does not start: %v", err)
	}
	return &browser{ctx}
}

// tab is a tab with the page of one weir.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // of all addresses, without the last slash

	mu       sync.Mutex // guards all below
	faults   []string
	expected []string // parts of faults that the test wants
}

// tab opens a tab that shows nothing yet. Its faults fail t.
func (b *browser) tab(t *testing.T, addr string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx, base: "http://" + addr}
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("no tab: %v", err)
	}
	if err := chromedp.Listen(ctx, p.note); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.judge)
	return p
}

// expect has faults with the text in them not count from now on.
func (p *tab) expect(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, part)
}

// note keeps what must not be.
func (p *tab) note(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			fault += " " + x.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			fault = "console: " + string(e.Type)
			for _, arg := range e.Args {
				fault += fmt.Sprintf(" %s%s", arg.Value, arg.Description)
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelVerbose && e.Entry.Level != log.EntryLevelInfo {
			fault = fmt.Sprintf("log: %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			fault = "request failed: " + e.ErrorText + " " + string(e.BlockedReason)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			fault = fmt.Sprintf("response %d: %s", e.Response.Status, e.Response.URL)
		}
	case *cdpage.EventJavascriptDialogOpening:
		fault = "dialog: " + e.Message
	}
	if fault == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.expected {
		if strings.Contains(fault, part) {
			return
		}
	}
	p.faults = append(p.faults, fault)
}

// judge fails the test for what was noted, and for a script of a hostile name that ran.
func (p *tab) judge() {
	if pwned, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`"pwned" in window`)); err != nil {
		p.t.Errorf("the tab is gone: %v", err)
	} else if pwned {
		p.t.Error("a script in a hostile name has run")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, fault := range p.faults {
		if i == 10 {
			p.t.Errorf("and %d more", len(p.faults)-i)
			break
		}
		p.t.Error(fault)
	}
	p.faults = nil
	if p.t.Failed() {
		p.shot("failed-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
	}
}

// evaluate returns the value of an expression of JavaScript.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s\n%v", expression, err)
	}
	return v
}

// do runs steps.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// load goes to a route of the page, such as "/nacks". The page is loaded if the tab does not show it.
func (p *tab) load(route string) {
	p.t.Helper()
	if at := evaluate[string](p, `location.href`); strings.HasPrefix(at, p.base+"/#") {
		evaluate[string](p, fmt.Sprintf(`location.hash = %q`, "#"+route))
		return
	}
	p.do(chromedp.Navigate(p.base + "/#" + route))
}

// open goes to a route of the page and waits for its view.
func (p *tab) open(route, view string) {
	p.t.Helper()
	p.load(route)
	p.awaitView(view)
}

// awaitView waits for a view with its content.
func (p *tab) awaitView(view string) {
	p.t.Helper()
	p.await("the view "+view+" comes", shows(view))
}

// shows is a condition: the view is there with its content.
func shows(view string) string {
	return fmt.Sprintf(`(v => v?.dataset.view === %q && !v.querySelector('[aria-busy="true"], .loading'))(document.querySelector("#view"))`, view)
}

// await waits until a condition of JavaScript is true.
func (p *tab) await(sentence, condition string) {
	p.t.Helper()
	if !weirtest.Until(patience, func() bool { return p.is(condition) }) {
		p.t.Fatalf("%s: it does not; %s is not so. The page says:\n%s", sentence, condition, p.text("body"))
	}
}

// is evaluates a condition; false while the page is loading.
func (p *tab) is(condition string) bool {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition))
	return err == nil && yes
}

// text is the visible text of an element; empty if there is none.
func (p *tab) text(css string) string {
	p.t.Helper()
	return evaluate[string](p, fmt.Sprintf(`document.querySelector(%s)?.innerText ?? ""`, strconv.Quote(css)))
}

// count is how many elements there are.
func (p *tab) count(css string) int {
	p.t.Helper()
	return evaluate[int](p, fmt.Sprintf(`document.querySelectorAll(%s).length`, strconv.Quote(css)))
}

// click presses the mouse over the middle of an element, as a person does: it has to be visible,
// and nothing may lie over it.
func (p *tab) click(css string) {
	p.t.Helper()
	var at struct {
		X, Y float64
		Why  string
	}
	find := fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll(%s)].filter(e => e.getClientRects().length)
		if (!all.length) return {Why: "there is none that is visible"}
		all[0].scrollIntoView({block: "center", behavior: "instant"})
		const r = all[0].getClientRects()[0], X = r.x + r.width/2, Y = r.y + r.height/2
		const top = document.elementFromPoint(X, Y)
		if (!top || !(all[0].contains(top) || top.contains(all[0]))) return {X, Y, Why: "under " + (top ? top.outerHTML.slice(0, 200) : "nothing")}
		return {X, Y, Why: ""}
	})()`, strconv.Quote(css))
	if !weirtest.Until(patience, func() bool {
		at = evaluate[struct {
			X, Y float64
			Why  string
		}](p, find)
		return at.Why == ""
	}) {
		p.t.Fatalf("%s cannot be clicked: %s. The page says:\n%s", css, at.Why, p.text("body"))
	}
	p.do(chromedp.MouseClickXY(at.X, at.Y))
}

// press presses keys, one after the other. A key that the page takes for itself types nothing.
func (p *tab) press(keys string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for _, r := range keys {
		// What the driver sends for a key types it even if the page takes it: its "char" is left out.
		events := kb.Encode(r)
		down, up := events[0], events[len(events)-1]
		if len(events) == 3 {
			down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
		}
		for _, event := range []*input.DispatchKeyEventParams{down, up} {
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, *event); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// scheme is what the person prefers, light or dark.
func (p *tab) scheme(name string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// size makes the window as large as that of a device.
func (p *tab) size(width, height int64, phone bool) {
	p.t.Helper()
	options := []chromedp.EmulateViewportOption{}
	if phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	p.do(chromedp.EmulateViewport(width, height, options...))
}

// shot keeps a picture of the page, down to a depth that people still look at.
func (p *tab) shot(name string) { p.shotOf(name, 2400) }

// shotOf keeps a picture of the page down to a depth.
func (p *tab) shotOf(name string, depth int) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	var picture []byte
	size, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](fmt.Sprintf(`[innerWidth, Math.min(document.documentElement.scrollHeight, %d)]`, depth)))
	if err == nil {
		beyond := true
		var got cdpage.CaptureScreenshotResult
		got, err = chromedp.Call(ctx, cdpage.CaptureScreenshot, cdpage.CaptureScreenshotParams{
			CaptureBeyondViewport: &beyond, Clip: &cdpage.Viewport{Width: size[0], Height: size[1], Scale: 1},
		})
		picture = got.Data
	}
	if err != nil {
		p.t.Logf("no picture of %s: %v", name, err)
		return
	}
	if err := os.WriteFile(artefact(p.t, name+".png"), picture, 0o644); err != nil {
		p.t.Error(err)
	}
}

// steady waits until the page has painted twice more.
func (p *tab) steady() {
	p.t.Helper()
	evaluate[bool](p, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	time.Sleep(50 * time.Millisecond)
}
