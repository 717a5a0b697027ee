package page

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

const token = "correct horse battery staple"

// TestSignIn: actions are behind the sign-in. Who has signed in freezes an origin by a button, and
// lets it go by another.
func TestSignIn(t *testing.T) {
	browser := newBrowser(t)
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	fill(o)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	config := weirtest.NewConfig(o.Net().Addr(), relaytest.Delta).Set("admin.token_file", file)
	weir := weirtest.Start(t, config)
	p := browser.tab(t, weir.Admin)

	p.expect("401") // what is asked without a session
	p.load("/")
	p.await("the page asks for the token", `!!document.querySelector('input[type="password"]')`)
	p.shot("sign-in")
	if n := p.count(`form[data-action]`); n > 0 {
		t.Errorf("%d actions are offered without a sign-in", n)
	}
	for _, path := range []string{"/origins/plane/freeze", "/origins/plane/unfreeze", "/guard/release?origin=plane", "/drain"} {
		r, err := http.Post("http://"+weir.Admin+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusUnauthorized {
			t.Errorf("POST %s without a sign-in is answered with %s", path, r.Status)
		}
	}
	p.click(`input[type="password"]`)
	p.press("wrong")
	p.press("\r")
	p.await("a wrong token is refused", `!!document.querySelector('input[type="password"]') && /not the token/.test(document.body.innerText)`)
	p.click(`input[type="password"]`)
	p.press(token)
	p.press("\r")
	p.awaitView("overview")
	p.await("the origin is shown", `!!document.querySelector('[data-origin="plane"]')`)
	p.await("the stream of events is open", `document.documentElement.dataset.live === "open"`)

	p.act("plane", "freeze")
	p.await("the origin is shown as frozen", `/frozen/i.test(document.querySelector("#view").innerText)`)
	if !frozen(t, weir) {
		t.Error("the page says that the origin is frozen, and weir does not")
	}
	p.open("/", "overview")
	p.await("the headline says that it is frozen", `/frozen/i.test(document.querySelector("#headline").innerText)`)
	p.shot("frozen")
	p.act("plane", "unfreeze")
	p.await("the origin can be frozen again", `!!document.querySelector('form[data-action="freeze"]')`)
	if frozen(t, weir) {
		t.Error("the page says that the origin is not frozen, and weir does")
	}
}

// act goes to an origin and presses the button of an action there. The page asks once more.
func (p *tab) act(origin, action string) {
	p.t.Helper()
	p.open("/origins/"+origin, "origin")
	form := fmt.Sprintf(`form[data-action=%q]`, action)
	p.click(form + " button")
	p.await("the page asks once more", fmt.Sprintf(`/^yes/i.test(document.querySelector('%s button')?.innerText)`, form))
	p.shot("asks-" + action)
	p.click(form + " button")
	p.await("the action is done", fmt.Sprintf(`!document.querySelector('%s')`, form))
}

// frozen is what weir says of its origin.
func frozen(t *testing.T, weir *weirtest.Process) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+weir.Admin+"/origins", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("/origins: %s, %v", answer.Status, err)
	}
	return strings.Contains(string(text), `"frozen"`)
}
