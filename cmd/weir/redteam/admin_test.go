package redteam

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
)

// refusal is a long text that is another one each time.
func refusal() *spb.Status {
	return &spb.Status{Code: 3, Message: fmt.Sprintf("%x", noise(2000))}
}

// web is a client of the admin address, from the attacker's address.
func (a *attacker) web() *http.Client {
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, to string) (net.Conn, error) {
				return dialFrom(a.From)(ctx, to)
			},
			MaxIdleConnsPerHost: 8,
		},
	}
}

// ask sends requests one after another, and counts the answers by their status.
func (a *attacker) ask(ctx context.Context, n int, path func() (method, path string), edit func(*http.Request)) error {
	client := a.web()
	defer client.CloseIdleConnections()
	return a.each(ctx, n, func(int) {
		method, path := path()
		req, err := http.NewRequestWithContext(ctx, method, "http://"+a.Admin+path, strings.NewReader(""))
		if err != nil {
			a.add("requests that cannot be made", 1)
			return
		}
		edit(req)
		resp, err := client.Do(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // the status is what counts
		_ = resp.Body.Close()
		a.add("answered "+resp.Status, 1)
	})
}

// adminTokens tries one token after another.
func adminTokens(ctx context.Context, a *attacker) error {
	return a.ask(ctx, 8, func() (string, string) { return http.MethodPost, "/drain" }, func(r *http.Request) {
		r.Header.Set("Authorization", fmt.Sprintf("Bearer %x", noise(16)))
	})
}

// adminHosts is a page of somebody else whose name now leads to loopback.
func adminHosts(ctx context.Context, a *attacker) error {
	paths := []string{"/clients", "/config", "/resources", "/debug/pprof/heap"}
	n := 0
	return a.ask(ctx, 1, func() (string, string) { n++; return http.MethodGet, paths[n%len(paths)] }, func(r *http.Request) {
		r.Host = "evil.example"
	})
}

// adminSlow has many connections that ask a byte at a time.
func adminSlow(ctx context.Context, a *attacker) error {
	return a.each(ctx, 500, func(int) {
		conn, err := dialFrom(a.From)(ctx, a.Admin)
		if err != nil {
			a.add("connections refused", 1)
			pause(ctx, 10*time.Millisecond)
			return
		}
		defer func() { _ = conn.Close() }()
		a.add("connections", 1)
		for _, b := range []byte("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("a", 1<<20)) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			pause(ctx, 50*time.Millisecond)
			if ctx.Err() != nil {
				return
			}
		}
	})
}
