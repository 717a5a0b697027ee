package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// TestMinVersion: TLS 1.2 is spoken by choice only, on listeners and on the admin port.
func TestMinVersion(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	version := func(address string, most uint16) uint16 {
		t.Helper()
		conn, err := tls.Dial("tcp", address, &tls.Config{
			RootCAs: ca.Pool, MinVersion: tls.VersionTLS12, MaxVersion: most, NextProtos: []string{"h2", "http/1.1"},
		})
		if err != nil {
			return 0
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().Version
	}
	for extra, old := range map[string]uint16{"": 0, `, min_version: "1.3"`: 0, `, min_version: "1.2"`: tls.VersionTLS12, ", min_version: 1.2": tls.VersionTLS12} {
		w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }]\nadmin: { address: \"127.0.0.1:0\", %s }\n",
			tlsOf(ca, extra), tlsOf(ca, extra))+filesOrigin(dir))
		for _, address := range []string{w.listenAddress(), w.admin.listener.Addr().String()} {
			if got := version(address, tls.VersionTLS12); got != old {
				t.Errorf("with %q a client of TLS 1.2 speaks %x, want %x", extra, got, old)
			}
			if got := version(address, tls.VersionTLS13); got != tls.VersionTLS13 {
				t.Errorf("with %q a client of TLS 1.3 speaks %x", extra, got)
			}
		}
	}
}

// TestAdminHost: over a real connection too, the admin port goes by the Host; a kubelet's is the
// pod's address.
func TestAdminHost(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, "listeners: [{ address: \"127.0.0.1:0\" }]\n"+
		"admin: { address: \"0.0.0.0:0\", insecure: true, open: [/readyz], hosts: [weir.example.com], token_file: "+tokenFile(t, "hush")+" }\n"+filesOrigin(dir))
	_, port, err := net.SplitHostPort(w.admin.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(address, host, path string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(address, port)+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		req.Header.Set("Authorization", "Bearer hush")
		if host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	addresses := []string{"127.0.0.1"}
	if all, err := net.InterfaceAddrs(); err == nil {
		for _, a := range all {
			if p, ok := a.(*net.IPNet); ok && p.IP.To4() != nil && !p.IP.IsLoopback() {
				addresses = append(addresses, p.IP.String())
			}
		}
	}
	for _, address := range addresses {
		for host, code := range map[string]int{"": 200, "weir.example.com:1": 200, "localhost": 200, "evil.example": http.StatusMisdirectedRequest} {
			if got := ask(address, host, "/clients"); got != code {
				t.Errorf("at %s under %q: %d, want %d", address, host, got, code)
			}
		}
		if got := ask(address, "evil.example", "/readyz"); got != http.StatusOK {
			t.Errorf("what is open answers %d", got)
		}
	}
}
