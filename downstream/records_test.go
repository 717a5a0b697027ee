package downstream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// countingConn counts writes.
type countingConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// secured is a connection of a server after its handshake, and the client's end of it.
func secured(t *testing.T, version uint16) (ours net.Conn, counted *countingConn, theirs *tls.Conn) {
	t.Helper()
	server, client := certificates(t)
	server.NextProtos, client.NextProtos = []string{"h2"}, []string{"h2"}
	server.DynamicRecordSizingDisabled, client.MaxVersion = true, version
	l := newLive(t, relaytest.Memory(), nil)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = port.Close() }()
	raw, err := net.Dial("tcp", port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs = tls.Client(raw, client)
	accepted, err := port.Accept()
	if err != nil {
		t.Fatal(err)
	}
	counted = &countingConn{Conn: accepted}
	shaken := make(chan error, 1)
	go func() { shaken <- theirs.Handshake() }()
	ours, _, err = l.server.newHandshaker(&ListenerConfig{TLS: server}, 0).ServerHandshake(counted)
	if err = errors.Join(err, <-shaken); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	return ours, counted, theirs
}

// TestRecordsGoTogether: what grpc writes at once goes with one system call, whatever it has of
// records, and comes as it was. With crypto/tls alone a window of 64 KiB takes five.
func TestRecordsGoTogether(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ours, counted, theirs := secured(t, version)
		for _, size := range []int{1, 600, recordText, recordText + 1, 64<<10 + 36, writeBuffer, 3*recordText - 1} {
			text := bytes.Repeat([]byte{byte(size), byte(size >> 8), 7}, size/3+1)[:size]
			before, got := counted.writes.Load(), make([]byte, size)
			read := make(chan error, 1)
			go func() {
				_, err := io.ReadFull(theirs, got)
				read <- err
			}()
			n, err := ours.Write(text)
			if err := errors.Join(err, <-read); err != nil || n != size || !bytes.Equal(got, text) {
				t.Fatalf("%s: of %d bytes %d are written, %v; the same came: %v", tls.VersionName(version), size, n, err, bytes.Equal(got, text))
			}
			if made := counted.writes.Load() - before; made != 1 {
				t.Errorf("%s: %d bytes take %d writes", tls.VersionName(version), size, made)
			}
		}
	}
}

// TestCloseEndsAWriteOfRecords: Close does not wait for a client that does not read, and the write
// returns.
func TestCloseEndsAWriteOfRecords(t *testing.T) {
	ours, _, theirs := secured(t, tls.VersionTLS13)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := ours.Write(make([]byte, writeBuffer)); err != nil {
				return
			}
		}
	}()
	time.Sleep(300 * time.Millisecond) // until the buffers of both systems are full
	began := time.Now()
	_ = ours.Close() // it was writing
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("a write does not return")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Close took %v: it waited to say goodbye", took)
	}
	_, _ = io.Copy(io.Discard, theirs) // it ends
}

// TestNothingFollowsAFailedWrite: after a write whose records did not go, as at the end of the time
// for a handshake, the client sees the end of the connection. crypto/tls says goodbye all the same,
// and that the client would take for a forged record ("bad record MAC").
func TestNothingFollowsAFailedWrite(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, size := range []int{100, writeBuffer} { // one record, and several that wait for the last
			ours, counted, theirs := secured(t, version)
			if err := counted.SetWriteDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			if _, err := ours.Write(make([]byte, size)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s: a write of %d bytes too late: %v", tls.VersionName(version), size, err)
			}
			_ = ours.Close()
			if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%s: after a write of %d bytes that failed the client sees: %v", tls.VersionName(version), size, err)
			}
		}
	}
}
