package rest

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/relay"

	"github.com/weir-xds/weir/relay/xds"
)

// over makes an Origin for one URL, without a table's wants, and asks it once.
func over(t *testing.T, url string, edit func(*Config)) (*answer, error) {
	t.Helper()
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "rest", SotW: true, PerType: true}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Name: "rest", URLs: []string{url}, MaxMessage: 10_000}
	if edit != nil {
		edit(&cfg)
	}
	o, err := New(cfg, table.Origin("rest"))
	if err != nil {
		t.Fatal(err)
	}
	defer o.client.CloseIdleConnections()
	return o.ask(t.Context(), o.servers.all[0], cds, nil, &discoveryv3.DiscoveryRequest{})
}

func serve(t *testing.T, start func(http.Handler) *httptest.Server, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := start(f)
	t.Cleanup(s.Close)
	return s
}

// Over TLS the server is verified, certificates are asked for at each connection, HTTP/2 is spoken,
// and the token is read for each poll.
func TestTLS(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen *http.Request
	start := func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = true
		s.StartTLS()
		return s
	}
	s := serve(t, start, func(w http.ResponseWriter, r *http.Request) {
		seen = r
		_, _ = w.Write([]byte("{}"))
	})
	pool, asked := x509.NewCertPool(), 0
	pool.AddCert(s.Certificate())
	secured := func(c *Config) {
		c.TLS = func() *tls.Config { asked++; return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12} }
		c.TokenFile = token
		c.Headers = map[string]string{"x-tenant": "t"}
	}
	a, err := over(t, s.URL+"/base/", secured)
	if err != nil || string(a.body) != "{}" {
		t.Fatalf("%v, %v", a, err)
	}
	if asked != 1 || seen.ProtoMajor != 2 || seen.URL.Path != "/base/v3/discovery:clusters" ||
		seen.Header.Get("Authorization") != "Bearer hush" || seen.Header.Get("X-Tenant") != "t" || seen.Header.Get("User-Agent") != "weir/dev" {
		t.Errorf("asked for TLS %d times; the request was %v", asked, seen)
	}
	if _, err := over(t, s.URL, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that is not verified is not asked: %v", err)
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	if _, err := over(t, s.URL, secured); err == nil || !strings.Contains(err.Error(), "token_file") {
		t.Errorf("without its token nothing is asked: %v", err)
	}
}

// TestRequestAsEnvoyWritesIt: a poll is written with the names of the proto, which is all that some
// servers look for (REST-1).
func TestRequestAsEnvoyWritesIt(t *testing.T) {
	m := &discoveryv3.DiscoveryRequest{
		VersionInfo: "1", ResponseNonce: "n", ResourceNames: []string{"a"}, TypeUrl: cds,
		ErrorDetail: &status.Status{Code: 3, Message: "no"},
		Node: &corev3.Node{
			Id: "i", Cluster: "edge", UserAgentName: "envoy", Locality: &corev3.Locality{SubZone: "z"},
			Metadata:       &structpb.Struct{Fields: map[string]*structpb.Value{"aKey": structpb.NewNumberValue(1)}},
			ClientFeatures: []string{"f"},
			UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
				Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40},
			}},
		},
	}
	const want = `{"version_info": "1", "response_nonce": "n", "resource_names": ["a"], "type_url": "` + cds + `",
		"error_detail": {"code": 3, "message": "no"},
		"node": {"id": "i", "cluster": "edge", "user_agent_name": "envoy", "locality": {"sub_zone": "z"}, "metadata": {"aKey": 1},
			"client_features": ["f"], "user_agent_build_version": {"version": {"major_number": 1, "minor_number": 40}}}}`
	var seen []byte
	s := serve(t, httptest.NewServer, func(w http.ResponseWriter, r *http.Request) {
		seen, _ = io.ReadAll(r.Body)
		_, _ = w.Write([]byte("{}"))
	})
	o := alone(t, s.URL)
	defer o.client.CloseIdleConnections()
	if _, err := o.ask(t.Context(), o.servers.all[0], cds, nil, m); err != nil {
		t.Fatal(err)
	}
	var got, as any
	if json.Unmarshal(seen, &got) != nil || json.Unmarshal([]byte(want), &as) != nil || !reflect.DeepEqual(got, as) {
		t.Errorf("the poll is %s, want %s", seen, want)
	}
}

// A redirect is not followed: it would take the credentials to somebody else.
func TestRedirect(t *testing.T) {
	s := serve(t, httptest.NewServer, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	_, err := over(t, s.URL, nil)
	if f := (*failure)(nil); !errors.As(err, &f) || f.fault != ownFault || !strings.Contains(err.Error(), "307") {
		t.Errorf("%v", err)
	}
}

// Compressed bodies are taken, and max_message bounds what comes out of them.
func TestCompression(t *testing.T) {
	for _, row := range []struct {
		bytes int
		fits  bool
	}{{10_000, true}, {10_001, false}, {2_000_000, false}} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(make([]byte, row.bytes))
		_ = z.Close()
		s := serve(t, httptest.NewServer, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		})
		a, err := over(t, s.URL, nil)
		if row.fits && (err != nil || len(a.body) != row.bytes) || !row.fits && (err == nil || !strings.Contains(err.Error(), "max_message")) {
			t.Errorf("%d bytes: %v", row.bytes, err)
		}
	}
}

// Whose fault a failure is: of a server that cannot be reached, of one that fails, of what is
// asked.
func TestFaults(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err := over(t, gone.URL, nil)
	if f := (*failure)(nil); !errors.As(err, &f) || f.fault != unreachable {
		t.Errorf("nobody listens: %v", err)
	}
	for code, want := range map[int]fault{
		http.StatusInternalServerError: unclear, http.StatusServiceUnavailable: unclear,
		http.StatusNotFound: ownFault, http.StatusUnauthorized: ownFault, http.StatusNoContent: ownFault,
	} {
		s := serve(t, httptest.NewServer, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		_, err := over(t, s.URL, nil)
		if f := (*failure)(nil); !errors.As(err, &f) || f.fault != want {
			t.Errorf("%d: %v, %v", code, f, err)
		}
	}
	s := serve(t, httptest.NewServer, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err = over(t, s.URL, nil)
	if f := (*failure)(nil); !errors.As(err, &f) || f.fault != unclear {
		t.Errorf("cut off: %v", err)
	}
}

// What is wrong with a config is told all at once.
func TestConfig(t *testing.T) {
	for url, want := range map[string]string{
		"ftp://x": "begins with neither", "http://u:p@x": "holds a name", "http://x?a": "must have only", "http:///p": "names no host",
		"%": "is no URL", "http://x": "",
	} {
		if why := BadURL(url); !strings.HasPrefix(why, want) || want == "" && why != "" || strings.Contains(why, "u:p") {
			t.Errorf("%s %s, and not %q", url, why, want)
		}
	}
	if ValidHeader("Host", "x") || !ValidHeader("Authorization", "y") {
		t.Error("headers that polls need may be configured, or others may not")
	}
	if _, err := New(Config{Name: "a", URLs: make([]string, maxURLs+1)}, nil); err == nil || !strings.Contains(err.Error(), "urls: ") {
		t.Errorf("%v should be about urls", err)
	}
	if _, err := New(Config{Name: "a", URLs: []string{"http://x"}}, nil); err == nil {
		t.Error("there is no such origin")
	}
}

// FuzzResponse: whatever a server answers, it is understood or refused, and what is understood can
// be judged.
func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"versionInfo":"1","resources":[` + cluster("x") + `,` + assignment("y") + `,7]}`))
	f.Add([]byte(`{"version_info":"1","resources":[{"@type":"` + xds.ResourceType + `","name":"x","ttl":"1s","resource":` + cluster("x") + `}]}`))
	f.Add([]byte(`{"typeUrl":"` + cds + `","resources":[{"@type":"a/b"},{"@type":"` + cds + `","name":null}],"controlPlane":{"identifier":"i"}}`))
	f.Add([]byte(`{"resources":null}`))
	f.Add([]byte(`<html>`))
	o := &Origin{}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := o.parse(t.Context(), cds, data)
		if (r == nil) == (err == nil) {
			t.Fatalf("%v, and %v", r, err)
		}
		if err != nil {
			if strings.Contains(err.Error(), "panicked") {
				t.Error(err)
			}
			return
		}
		u, reject, err := o.update(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if (reject != nil) != u.Bad || len(r.refused) > 0 && !u.Bad {
			t.Errorf("%v, and bad is %v, of %d that were refused", reject, u.Bad, len(r.refused))
		}
	})
}
