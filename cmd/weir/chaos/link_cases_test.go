package chaos

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// caller is a connection through a link.
type caller struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, l *link) caller {
	t.Helper()
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return caller{t, c}
}

// say writes, which always succeeds while the connection seems to be there.
func (c caller) say(s string) {
	c.t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// hear reads what must come within 5 s.
func (c caller) hear(want, sentence string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		c.t.Fatalf("%s: read %q and %v, want %q", sentence, got, err, want)
	}
}

// silent fails if anything comes, the end included.
func (c caller) silent(sentence string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	if timeout, ok := err.(net.Error); n != 0 || !ok || !timeout.Timeout() { //nolint:errorlint // net never wraps it
		c.t.Fatalf("%s: read %d bytes and %v, want nothing", sentence, n, err)
	}
}

// ended waits for the end.
func (c caller) ended(sentence string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err := io.Copy(io.Discard, c)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // net never wraps it
		c.t.Fatalf("%s: it is still open", sentence)
	}
}

func TestLinkHolds(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	c.say("a")
	c.hear("a", "in fair weather bytes pass")
	for _, d := range []way{up, down} {
		l.one(d, weather{hold: true})
		c.say("b")
		c.silent("held bytes wait")
		l.heal()
		c.hear("b", "after healing they arrive")
	}
}

func TestLinkLoses(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	c.say("a")
	c.hear("a", "it works")
	l.both(weather{lose: true})
	c.say("b")
	c.silent("what is lost is not answered, nor is the loss told")
	l.heal()
	c.ended("a connection that lost bytes cannot go on")
	dial(t, l).say("c")
}

// TestLinkHalfOpen: an end is not told while bytes are held.
func TestLinkHalfOpen(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	l := newLink(t, server.Addr().String())
	c := dial(t, l)
	accepted, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	l.both(weather{hold: true})
	_ = c.Close()
	s := caller{t, accepted}
	s.silent("the server does not learn that its peer has gone")
	l.heal()
	s.ended("until the network is whole again")
}

func TestLinkCutsInTheMiddle(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	l.one(down, weather{cut: 3})
	c.say("abcdef")
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	got, err := io.ReadAll(c)
	if err == nil || len(got) > 3 {
		t.Errorf("read %q and %v, want a reset after at most 3 bytes", got, err)
	}
	d := dial(t, l)
	d.say("g")
	d.hear("g", "the next connection is whole")
}

func TestLinkIsSlow(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	l.one(up, weather{delay: 100 * time.Millisecond})
	begin := time.Now()
	c.say("a")
	c.hear("a", "delayed bytes arrive")
	if d := time.Since(begin); d < 100*time.Millisecond {
		t.Errorf("they took %v, want at least 100 ms", d)
	}
	l.one(up, weather{rate: 10_000})
	begin = time.Now()
	long := string(bytes.Repeat([]byte("x"), 3000))
	c.say(long)
	c.hear(long, "throttled bytes arrive")
	if d := time.Since(begin); d < 250*time.Millisecond {
		t.Errorf("3,000 bytes at 10,000 a second took %v", d)
	}
}

func TestLinkRefuses(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	c.say("a")
	c.hear("a", "it works")
	l.refuse()
	c.ended("connections are cut")
	if other, err := net.Dial("tcp", l.addr); err == nil {
		_ = other.Close()
		t.Error("a connection was accepted")
	}
	l.heal()
	d := dial(t, l)
	d.say("b")
	d.hear("b", "it accepts again on the same address")
	other := echo(t)
	l.aim(other)
	e := dial(t, l)
	e.say("c")
	e.hear("c", "it can lead elsewhere")
	if got := d.RemoteAddr().String(); got != l.addr {
		t.Errorf("%v is dialled at %s", l, got)
	}
}
