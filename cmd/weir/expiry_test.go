package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestStreamOfAnOldCertificate: a stream ends with the certificate that opened it, and says so. The
// client comes back by itself with its next certificate, and is served.
func TestStreamOfAnOldCertificate(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }]\nadmin: { address: \"127.0.0.1:0\" }\n",
		tlsOf(ca, fmt.Sprintf(", client_ca: %q", ca.Path("ca.pem"))))+filesOrigin(dir))
	begin := time.Now()
	ca.IssueUntil("client", 2, begin.Add(12*time.Second)) // its life is 72 s, of which the last tenth begins in 4.8
	conn := dial(t, w.listenAddress(), withTLS(&tls.Config{
		RootCAs: ca.Pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair := ca.Pair("client")
			return &pair, nil
		},
	}))
	c := openClient(t, conn, relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "served with the first certificate", "a")
	ca.Issue("client", 3)
	if code := c.AwaitEnd("the first certificate ends"); code != codes.Unavailable || !strings.Contains(c.Err().Error(), "the certificate that opened") {
		t.Errorf("ended with %v", c.Err())
	}
	if at := time.Since(begin); at < 4*time.Second {
		t.Errorf("ended after %v", at)
	}
	await(t, "a line of the log says why", func() bool { // the client is told first
		return w.logs.FilterField(zap.String("reason", "certificate")).FilterField(zap.String("identity", "subject:CN=client")).Len() == 1
	})
	if _, body := w.get("/metrics"); !strings.Contains(body, `weir_streams_ended_total{reason="certificate"} 1`) {
		t.Error("it is not counted")
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if !conn.WaitForStateChange(soon, connectivity.Ready) {
		t.Fatal("the connection stays")
	}
	c.Open(relaytest.Node("client-delta", "edge"))
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "served with the next certificate", "a")
	c.CheckClean()
}
