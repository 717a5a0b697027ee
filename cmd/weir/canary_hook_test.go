package main

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// serveCheck serves a check until the test ends, and returns its URL.
func serveCheck(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// TestCheckAnswers: what a server answers, and what is made of it.
func TestCheckAnswers(t *testing.T) {
	vector := func(values ...string) string {
		var all []string
		for _, v := range values {
			all = append(all, `{"metric":{"cluster":"a"},"value":[1700000000.1,"`+v+`"]}`)
		}
		return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(all, ",") + `]}}`
	}
	for story, c := range map[string]struct {
		http    bool
		code    int
		body    string
		objects bool
		why     string // or the error, which begins with !
	}{
		"below the threshold":        {false, 200, vector("0.05", "0.01"), false, "the query's value is 0.05"},
		"at the threshold":           {false, 200, vector("0.1"), false, "0.1"},
		"one value is above":         {false, 200, vector("0", "0.2", "0.1"), true, "the query's value 0.2 is above 0.1"},
		"infinite":                   {false, 200, vector("+Inf"), true, "+Inf is above"},
		"a scalar":                   {false, 200, `{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}`, true, "7 is above"},
		"no value":                   {false, 200, vector(), false, "!has no value"},
		"no number":                  {false, 200, vector("0.2", "NaN"), false, "!is NaN"},
		"a matrix":                   {false, 200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, false, "!is a matrix; it has to be"},
		"a query that is refused":    {false, 400, `{"status":"error","errorType":"bad_data","error":"parse error"}`, false, "!the query fails: parse error"},
		"no Prometheus":              {false, 502, "<html>bad gateway", false, "!502 Bad Gateway, and its answer is not that of Prometheus: <html>bad gateway"},
		"an endless answer":          {false, 200, strings.Repeat(" ", maxAnswer) + "{}", false, "!is larger than 1048576 bytes"},
		"a status of 204":            {true, 204, "", false, ""},
		"the first line":             {true, 503, "errors\x1b[31m: 5 %\nmore", true, "errors[31m: 5 %"},
		"no line":                    {true, 404, "", true, "404 Not Found"},
		"a redirect is an objection": {true, 302, "", true, "302 Found"},
	} {
		t.Run(story, func(t *testing.T) {
			var asked *http.Request
			server := serveCheck(t, func(w http.ResponseWriter, r *http.Request) {
				asked = r
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			check := &config.CanaryCheck{Prometheus: &config.PrometheusCheck{URL: server + "/prefix/", Query: `max(x{a="b"})`, Threshold: 0.1}}
			if c.http {
				check = &config.CanaryCheck{HTTP: &config.HTTPCheck{URL: server + "/ok?secret=1", Headers: map[string]string{"X-Team": "mesh"}}}
			}
			objects, why, err := checkOf(check).Ask(t.Context())
			if err != nil {
				why = "!" + err.Error()
				if !strings.HasPrefix(why, "!canary.check: "+server+": ") {
					t.Errorf("the error does not name the server: %v", err)
				}
			}
			if objects != c.objects || !strings.Contains(why, strings.TrimPrefix(c.why, "!")) || strings.HasPrefix(why, "!") != strings.HasPrefix(c.why, "!") {
				t.Errorf("objects %v, %q; want %v, %q", objects, why, c.objects, c.why)
			}
			if !c.http && (asked.URL.Path != "/prefix/api/v1/query" || asked.URL.Query().Get("query") != `max(x{a="b"})`) {
				t.Errorf("it was asked %s", asked.URL)
			}
			if c.http && asked.Header.Get("X-Team") != "mesh" {
				t.Error("it was not sent the header")
			}
		})
	}
}

// TestCheckWithoutAnswer: servers that cannot be asked, and errors that say why, but not the URL.
func TestCheckWithoutAnswer(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got string
	secured := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer secured.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(c config.HTTPCheck) error {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, _, err := checkOf(&config.CanaryCheck{HTTP: &c}).Ask(ctx)
		return err
	}
	slow := serveCheck(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for story, c := range map[string]struct {
		check config.HTTPCheck
		want  string
	}{
		"nobody listens":       {config.HTTPCheck{URL: "http://127.0.0.1:1/?key=secret"}, "refused"},
		"it does not answer":   {config.HTTPCheck{URL: slow + "/?key=secret"}, "deadline"},
		"another authority":    {config.HTTPCheck{URL: secured.URL + "/?key=secret"}, "certificate"},
		"no file of the token": {config.HTTPCheck{URL: secured.URL, TokenFile: token + "x"}, "token_file: "},
		"no file of the roots": {config.HTTPCheck{URL: secured.URL, TLS: config.CheckTLS{CA: token}}, "tls.ca: "},
	} {
		err := ask(c.check)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", story, err, c.want)
		}
	}
	if err := ask(config.HTTPCheck{URL: secured.URL, TokenFile: token, TLS: config.CheckTLS{CA: ca, ServerName: "example.com"}}); err != nil || got != "Bearer secret-token" {
		t.Errorf("over TLS: %v, with the header %q", err, got)
	}
}
