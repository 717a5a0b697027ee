package admin

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay/inspect"
)

// pageRows bounds each table of the page; the JSON lists have the rest.
const pageRows = 200

// pageBook bounds what is shown of the book of rejections: for each it is counted who has that.
const pageBook = 50

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"ago":   ago,
	"bytes": bytesText,
}).Parse(pageText))

// pageData are the values in page.html.
type pageData struct {
	Name, Version string
	Now           time.Time
	Up            time.Duration
	Ready         Readiness
	Origins       []Origin
	Groups        rows[group]
	Clients       rows[client]
	NACKs         rows[clientNACK]
	Book          []rejection
	BookLeftOut   int
	OriginNACKs   []originNACK
	Authz         *decisions
	Snapshot      *Snapshot // nil: there is none
	Config        ConfigState
	Pprof         bool
	SignedIn      bool
}

// rows are the first rows of a table, and their total number.
type rows[T any] struct {
	Shown []T
	Total int
}

func (r *rows[T]) add(item T) {
	if r.Total++; r.Total <= pageRows {
		r.Shown = append(r.Shown, item)
	}
}

func (a *Admin) page(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	_, err := r.Cookie(a.sessions.name(r.TLS != nil))
	d := pageData{
		Name: a.cfg.Name, Version: a.cfg.Version, Now: now, Up: now.Sub(a.cfg.Started).Truncate(time.Second),
		Ready: a.cfg.Readiness(), Origins: a.cfg.Origins(), OriginNACKs: a.originNACKs(),
		Snapshot: a.snapshot(), Pprof: a.cfg.Pprof, SignedIn: err == nil && a.cfg.TokenFile != "",
	}
	for _, o := range a.cfg.Table.Origins() {
		groups := inspect.Status(o)
		for i := range groups {
			d.Groups.add(groupOf(&groups[i], false))
		}
	}
	_, d.Config = a.cfg.Effective()
	for _, c := range a.worst(&clientFilter{}) {
		d.Clients.add(clientOf(c, false))
	}
	d.Book, d.BookLeftOut = a.book("", "", pageBook)
	d.Authz = a.decided(&denialFilter{}, pageRows)
	for _, n := range a.clientNACKs() {
		d.NACKs.add(n)
	}
	var text bytes.Buffer // so that a failure is a status code, not half a page
	if err := pageTemplate.Execute(&text, d); err != nil {
		a.cfg.Log.Error("the admin page failed", zap.Error(err))
		http.Error(w, "the page failed; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	writeText(w, text.String())
}

// ago returns how long before now a time is.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds ago", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh %dm ago", d/time.Hour, d%time.Hour/time.Minute)
}

func bytesText(n int) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
