package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"go.uber.org/zap"
)

// The page for people is files in ui: HTML, a style sheet and ES modules, without a build step. It
// reads the JSON of the other paths.

//go:embed ui
var uiFiles embed.FS

// uiTypes are the content types of the files by extension. A file of another kind is not served.
var uiTypes = map[string]string{
	".js":  "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

const (
	uiPath = "/ui/"
	// signInStyle is the style sheet for whoever is not signed in.
	signInStyle = signInPath + ".css"
)

// ui has the files of the page. It never changes.
type ui struct {
	// hash is of all files. It is in the paths of those that the page asks for, so that browsers
	// keep them, and ask for others once a file has changed.
	hash  string
	files map[string]uiFile // by path in ui
	page  *template.Template
}

type uiFile struct {
	body              []byte
	contentType, etag string
}

// newUI reads the files that are built in.
func newUI() *ui {
	u := &ui{files: map[string]uiFile{}, page: template.Must(template.ParseFS(uiFiles, "ui/index.html"))}
	all := sha256.New()
	err := fs.WalkDir(uiFiles, "ui", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(uiFiles, name)
		sum := sha256.Sum256(body)
		_, _ = all.Write(append([]byte(name), sum[:]...)) // a hash never fails
		if kind := uiTypes[path.Ext(name)]; kind != "" {
			u.files[strings.TrimPrefix(name, "ui/")] = uiFile{body, kind, `"` + hex.EncodeToString(sum[:16]) + `"`}
		}
		return err
	})
	if err != nil {
		panic(err) // cannot happen: the files are in the program
	}
	u.hash = hex.EncodeToString(all.Sum(nil)[:8])
	return u
}

// pageHead are the values in index.html.
type pageHead struct {
	Name, Version, Files string
	Pprof, SignedIn      bool
	Replicas             bool // some are known
}

// page serves the page, which is the same for every view.
func (a *Admin) page(w http.ResponseWriter, r *http.Request) {
	_, err := r.Cookie(a.sessions.name(r.TLS != nil))
	head := pageHead{a.cfg.Name, a.cfg.Version, uiPath + a.ui.hash, a.cfg.Pprof, err == nil && a.cfg.TokenFile != "", a.cfg.Replicas != nil}
	var text bytes.Buffer // so that a failure is a status code, not half a page
	if err := a.ui.page.Execute(&text, head); err != nil {
		a.cfg.Log.Error("the admin page failed", zap.Error(err))
		http.Error(w, "the page failed; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	writeText(w, text.String())
}

// uiFile serves a file of the page. With the hash in its path it stays as it is for ever.
func (a *Admin) uiFile(w http.ResponseWriter, r *http.Request) {
	name, forever := strings.CutPrefix(r.PathValue("file"), a.ui.hash+"/")
	a.serveFile(w, r, name, forever)
}

func (a *Admin) serveFile(w http.ResponseWriter, r *http.Request, name string, forever bool) {
	f, ok := a.ui.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Etag", f.etag)
	h.Set("Cache-Control", "private, no-cache")
	if forever {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(f.body) // an error means that the client has left
}

// style serves the style sheet of the form for the token.
func (a *Admin) style(w http.ResponseWriter, r *http.Request) { a.serveFile(w, r, "style.css", false) }
