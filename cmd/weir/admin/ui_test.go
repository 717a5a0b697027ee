package admin

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

// uiText is a file of the page.
func uiText(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(uiFiles, "ui/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ownFiles are the page's files without the libraries, by name.
func ownFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := fs.ReadDir(uiFiles, "ui")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			all[e.Name()] = uiText(t, e.Name())
		}
	}
	return all
}

// TestVendored: the libraries are what npm has, and each has its licence.
func TestVendored(t *testing.T) {
	listed := map[string]bool{"VENDORED": true}
	lines := bufio.NewScanner(strings.NewReader(uiText(t, "vendor/VENDORED")))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 5 || f[0] == "#" {
			continue
		}
		listed[f[0]] = true
		if sum := sha256.Sum256([]byte(uiText(t, "vendor/"+f[0]))); hex.EncodeToString(sum[:]) != f[4] {
			t.Errorf("%s is not %s of %s %s: its sum is %x", f[0], f[3], f[1], f[2], sum)
		}
		if !strings.Contains(uiText(t, "vendor/"+f[1]+".LICENSE.txt"), "License") {
			t.Errorf("%s has no licence", f[1])
		}
	}
	entries, err := fs.ReadDir(uiFiles, "ui/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			t.Errorf("%s is not in VENDORED", e.Name())
		}
	}
}

// TestFilesOfThePage: each has its type; under its hash a browser keeps it, and otherwise asks
// whether it has changed.
func TestFilesOfThePage(t *testing.T) {
	w := newWorld(t)
	rec := w.get("/")
	root := regexp.MustCompile(`/ui/[0-9a-f]{16}`).FindString(rec.Body.String())
	if root == "" || rec.Header().Get("Cache-Control") != "no-store" || !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("%v\n%s", rec.Header(), rec.Body)
	}
	for name, kind := range map[string]string{
		"app.js": "text/javascript", "vendor/preact.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml", "vendor/htm.LICENSE.txt": "text/plain",
	} {
		for _, at := range []string{root, "/ui"} {
			rec := w.get(at + "/" + name)
			etag := rec.Header().Get("Etag")
			if rec.Code != http.StatusOK || !strings.HasPrefix(rec.Header().Get("Content-Type"), kind) || etag == "" ||
				strings.Contains(rec.Header().Get("Cache-Control"), "immutable") != (at == root) {
				t.Errorf("%s/%s: %d %v", at, name, rec.Code, rec.Header())
			}
			if rec := w.get(at+"/"+name, header("If-None-Match", etag)); rec.Code != http.StatusNotModified || rec.Body.Len() > 0 {
				t.Errorf("%s/%s: %d, though it has not changed", at, name, rec.Code)
			}
		}
	}
	for _, path := range []string{"/ui/", "/ui/vendor", "/ui/index.html", "/ui/vendor/VENDORED", "/ui/0123456789abcdef/app.js", "/ui/..%2fadmin.go", "/sign-in.css"} {
		want(t, w.get(path), http.StatusNotFound)
	}
}

// TestSignInStyle: who is not signed in has the form in its style, and nothing else of the page.
func TestSignInStyle(t *testing.T) {
	w := newWorld(t)
	w.cfg.TokenFile, w.cfg.Reachable = tokenFile(t, "hush"), true
	rec := w.get("/", header("Accept", "text/html"))
	want(t, rec, http.StatusUnauthorized, `href="/sign-in.css"`)
	want(t, w.get("/sign-in.css"), http.StatusOK, ".sign-in")
	for _, path := range []string{"/ui/app.js", "/ui/style.css", "/events", "/overview", "/series"} {
		want(t, w.get(path), http.StatusUnauthorized)
	}
}

// TestNoMarkupFromText: no own file makes markup, or code, of a text, has a script or style in it,
// or names another host.
func TestNoMarkupFromText(t *testing.T) {
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|srcdoc|javascript:`)
	inline := regexp.MustCompile(`<style|<script(>| [^>]*[^"/]>[^<])|\son[a-z]+="|\sstyle="`)
	host := regexp.MustCompile(`(https?:)?//[a-z0-9-]+\.[a-z]`)
	for name, text := range ownFiles(t) {
		for _, bad := range []*regexp.Regexp{never, host} {
			if found := bad.FindString(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "")); found != "" {
				t.Errorf("%s has %q", name, found)
			}
		}
		if found := inline.FindString(text); found != "" && path.Ext(name) == ".html" {
			t.Errorf("%s has %q", name, found)
		}
	}
	if found := inline.FindString(signInText); found != "" {
		t.Errorf("the form for the token has %q", found)
	}
}

// TestModules: each import of the page's modules is a file that is served.
func TestModules(t *testing.T) {
	imports := regexp.MustCompile(`(?m)(?:from |import\()'(\./[^']+)'`)
	u := newUI()
	for name, text := range ownFiles(t) {
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			if _, ok := u.files[path.Clean(m[1])]; !ok {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
		}
		if n := strings.Count(text, "\n"); n > 320 && name != "style.css" && name != "views.css" {
			t.Errorf("%s has %d lines", name, n)
		}
	}
}

// TestPageShowsFacts: what is wrong, and what an operator has to know, is read by the page. Each is
// a field of the JSON of a path.
func TestPageShowsFacts(t *testing.T) {
	var all bytes.Buffer
	for name, text := range ownFiles(t) {
		if path.Ext(name) == ".js" {
			all.WriteString(text)
		}
	}
	for _, field := range []string{
		"sentence", "findings", "in_sync_percent", "worst_lag_seconds", "stale_seconds", "held", "nacking", "unsynced", "rejected", // /overview
		"connected", "reached", "since", "last_proof", "last_update", "streams", "resources", "stale", "error", "error_at", "files", "failures", // origins
		"frozen_by", "frozen", "frozen_changes", "held_removals", "held_until", "quarantined", "slow", "differing_groups", "fallback.serving", "f.ready", "nacks", "parameter_sets",
		"refused", "accepted", "problems", "saved_at", "restored", "lost", "left_out", "left_out_groups", "too_large", "certificates", "memory", "why", "state", // the process
		"members_differ", "identity", "node_cluster", "dedicated", "revision", "waiting", "settled", "wildcard", // groups
		"peer", "dialect", "sent_version", "acked_version", "refused_names", "waits", "unsynced_since", "in_flight_since", // clients
		"constraints", "shadowed", "absent", "secret", "origin_version", "source", // resources
		"have_it", "clients", "count", "first", "last", "examples", "message", "left_out", // the book
		"in_force", "allowed", "denied", "ended", "denials", // authorization
		"rollback", "to", "by", "whole", "of", "waiting", "groups_left_out", "present", "good", "added", "changed", "removed", "types", // rollback
		"canary", "canary_phases", "phase", "candidate", "canaries", "acked", "needed", "bakes", "check", "check_said", "undecided", "promoted", // canaries
		"headline", "steps", "versions", "unified", "truncated", "next",
	} {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(field) + `\b`).Match(all.Bytes()) {
			t.Errorf("the page does not read %q", field)
		}
	}
}

// TestPageShowsWhatIsHidden: all nodes are made by the one function that shows what is hidden in
// text, and nothing else writes text.
func TestPageShowsWhatIsHidden(t *testing.T) {
	around := regexp.MustCompile(`vendor/preact|htm\.bind|createElement|textContent|innerText\s*=|document\.title|createTextNode`)
	for name, text := range ownFiles(t) {
		if found := around.FindString(text); found != "" && path.Ext(name) == ".js" && name != "lib.js" {
			t.Errorf("%s has %q", name, found)
		}
		if name == "lib.js" && (strings.Count(text, "htm.bind(") != 1 || !strings.Contains(text, "htm.bind(element)") || !strings.Contains(text, "h(type, a, ...children.map(shown))")) {
			t.Error("nodes are made of text as it is")
		}
	}
	answer := httptest.NewRecorder()
	writeJSON(answer, http.StatusOK, map[string]string{"name": "\u202e\x7f"})
	var got map[string]string
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got["name"] != "\u202e\x7f" || !strings.Contains(answer.Body.String(), `\u202e\u007f`) {
		t.Errorf("%v: %s", err, answer.Body)
	}
}
