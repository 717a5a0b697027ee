package admin

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/levels"
)

// TestSetLevel: a level is changed by a POST that says what it means, and by no page of another web
// site.
func TestSetLevel(t *testing.T) {
	w := newWorld(t)
	w.cfg.Levels = levels.New("info", nil)
	post := func(body string, edit ...func(*http.Request)) (code int, text string) {
		rec := w.do(http.MethodPost, "/log", append(edit, func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(body)) })...)
		return rec.Code, rec.Body.String()
	}
	for body, part := range map[string]string{
		"": "the body is not", `{"level":"debug"} x`: "follows", `{"level":"debug","time":"1m"}`: `unknown field "time"`,
		`{"level":"debug","for":"soon"}`: `for "soon"`, `{"level":"debug","for":"-1m"}`: `for "-1m"`, `{"level":"configured","for":"1m"}`: `for "1m"`,
		`{"level":"loud"}`: `level "loud"`, `{"package":"relay","level":"debug"}`: `package "relay"`,
		`{"level":"` + strings.Repeat("x", maxAsked) + `"}`: "too large",
	} {
		if code, text := post(body); code != http.StatusBadRequest || !strings.Contains(text, part) {
			t.Errorf("%.50s: %d %s, want %s", body, code, text, part)
		}
	}
	if code, _ := post(`{"level":"debug"}`, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); code != http.StatusForbidden {
		t.Errorf("another site's page: %d", code)
	}
	if s := w.cfg.Levels.Status()[0]; s.Level != "info" {
		t.Errorf("changed by what was refused: %+v", s)
	}
	if code, text := post(`{"package":"admin","level":"debug","for":"10m"}`); code != http.StatusOK || text != "admin: debug for 10m0s\n" {
		t.Errorf("%d %s", code, text)
	}
	want(t, w.get("/log"), http.StatusOK, `"package": "admin"`, `"level": "debug"`, `"configured": "info"`, `"until": "2`)
	want(t, w.get("/log?package=admin"), http.StatusBadRequest)
}
