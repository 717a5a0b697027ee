package identity

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"
)

// TestOf: the SPIFFE ID comes first, wherever it stands, then the other names, and each says what
// it is. What only looks like a SPIFFE ID is another URI.
func TestOf(t *testing.T) {
	const web = "spiffe://corp/ns/shop/sa/web"
	for _, row := range []struct{ uris, dns, common, want string }{
		{web, "web.shop", "edge", web},
		{"https://a/b " + web, "", "", web},
		{web + " spiffe://corp/second", "", "", web},
		{"spiffe://Corp.Example/ns/Shop", "", "", "spiffe://corp.example/ns/Shop"},
		{"spiffe://corp", "", "", "spiffe://corp"},
		{"https://a/b urn:x:y", "web.shop", "", "uri:https://a/b"},
		{"spiffe://", "", "", "uri:spiffe:"},
		{"spiffe://corp/", "", "", "uri:spiffe://corp/"},
		{"spiffe://corp/ns//sa", "", "", "uri:spiffe://corp/ns//sa"},
		{"spiffe://corp/ns/../sa", "", "", "uri:spiffe://corp/ns/../sa"},
		{"spiffe://corp/ns/./sa", "", "", "uri:spiffe://corp/ns/./sa"},
		{"spiffe://corp/ns/a%2Fb", "", "", "uri:spiffe://corp/ns/a%2Fb"},
		{"spiffe://corp/ns/*", "", "", "uri:spiffe://corp/ns/*"},
		{"spiffe://corp/ns/a?b", "", "", "uri:spiffe://corp/ns/a?b"},
		{"spiffe://corp/ns/a#b", "", "", "uri:spiffe://corp/ns/a#b"},
		{"spiffe://me@corp/ns", "", "", "uri:spiffe://me@corp/ns"},
		{"spiffe://corp:1/ns", "", "", "uri:spiffe://corp:1/ns"},
		{"spiffe://corp/" + strings.Repeat("a", 2048), "", "", "uri:spiffe://corp/" + strings.Repeat("a", 2048)},
		{"", "Web.Shop other.shop", "edge", "dns:web.shop"},
		{"", "*.shop", "edge", "dns:*.shop"},
		{"", "", "edge", "subject:CN=edge"},
		{"", "", "a,CN=b", `subject:CN=a\,CN=b`},
		{"", "", "", "subject:"},
	} {
		cert := &x509.Certificate{DNSNames: strings.Fields(row.dns), Subject: pkix.Name{CommonName: row.common}}
		for _, text := range strings.Fields(row.uris) {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		if got := Of(cert); got != row.want {
			t.Errorf("%q %q %q: %q, want %q", row.uris, row.dns, row.common, got, row.want)
		}
	}
	if got := OfUser(1000); got != "uid:1000" {
		t.Error(got)
	}
}
