package downstream

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// onePlace is a server where one stream at a time may be sent something long.
func onePlace(t *testing.T, compression string) *live {
	t.Helper()
	l := newLive(t, relaytest.Memory(), func(_ *Config, lc *ListenerConfig) { lc.Compression = compression })
	l.server.longSends.places = make(chan struct{}, 1)
	return l
}

var (
	someNames  = []string{"a", "b", "c", "d", "e"}
	otherNames = []string{"v", "w", "x", "y", "z"}
)

// sayLong changes all of the names, which is more than one message.
func (l *live) sayLong(version int, names []string) {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = fmt.Sprint(name, "=", version, strings.Repeat("x", 1<<20))
	}
	l.say(eds, words...)
}

// arrives is how long it takes until a client has a version of all names.
func arrives(c *relaytest.Client, version int, names []string) time.Duration {
	said := time.Now()
	c.Await(5*time.Second, func(s *relaytest.State) bool {
		for _, name := range names {
			if !strings.Contains(s.Body(eds, name), fmt.Sprint(version, "x")) {
				return false
			}
		}
		return true
	}, fmt.Sprintf("version %d of %v arrives", version, names))
	return time.Since(said)
}

// TestLongSendsTakeTurns: what is long waits for a place, for longWait at most. What follows soon, and
// what is short, does not wait.
func TestLongSendsTakeTurns(t *testing.T) {
	for _, compression := range []string{"", "gzip"} {
		t.Run("compression "+compression, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { longSendsTakeTurns(t, compression) })
		})
	}
}

func longSendsTakeTurns(t *testing.T, compression string) {
	l := onePlace(t, compression)
	c := l.open(t, relaytest.ClientConfig{})
	c.Subscribe(eds, someNames...)
	l.asked(t, len(someNames))
	l.sayLong(1, someNames)
	if d := arrives(c, 1, someNames); d != 0 {
		t.Errorf("with a free place it takes %v", d)
	}
	places := l.server.longSends.places
	if synctest.Wait(); len(places) != 0 || l.server.list()[0].backlog.messages.Load() != 0 {
		t.Fatal("the place is not free as soon as all is sent")
	}
	places <- struct{}{} // taken by another
	time.Sleep(longWait)
	for _, x := range []struct {
		what  string
		names []string
		pause time.Duration
		want  time.Duration
	}{
		{"with no free place", someNames, 0, longWait},
		{"soon after that", someNames, longWait / 2, 0},
		{"later", someNames, longWait, longWait},
		{"later, and of one message", someNames[:1], 2 * longWait, 0},
	} {
		time.Sleep(x.pause)
		version := int(time.Now().UnixMilli())
		l.sayLong(version, x.names)
		if d := arrives(c, version, x.names); d != x.want {
			t.Errorf("%s it takes %v, want %v", x.what, d, x.want)
		}
	}
	time.Sleep(2 * longWait)
	time.AfterFunc(longWait/4, func() { <-places })
	l.sayLong(2, someNames)
	if d := arrives(c, 2, someNames); d != longWait/4 {
		t.Errorf("it takes %v, and not as long as until the place is free", d)
	}
}

// TestStuckClientsHoldNoTurns: a client that does not read has a place for longHold once. While it has
// not read what it was sent then, it takes none.
func TestStuckClientsHoldNoTurns(t *testing.T) {
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} { // of two messages, of one
		t.Run(string(dialect), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stuckClientsHoldNoTurns(t, dialect) })
		})
	}
}

func stuckClientsHoldNoTurns(t *testing.T, dialect relaytest.Dialect) {
	l := onePlace(t, "")
	for range 3 {
		l.open(t, relaytest.ClientConfig{Dialect: dialect, NeverRead: true}).Subscribe(eds, someNames...)
	}
	quick := l.open(t, relaytest.ClientConfig{})
	quick.Subscribe(eds, otherNames...)
	l.asked(t, 3*len(someNames)+len(otherNames))
	writing := func() (n int) { // a second message, after one that is not read
		synctest.Wait()
		for _, st := range l.server.list() {
			if _, is := st.writingSince(); is {
				n++
			}
		}
		return n
	}
	l.sayLong(1, someNames)
	for n := range 3 {
		if dialect == relaytest.Delta && writing() != n+1 {
			t.Errorf("%d streams are sent something long after %d times longHold", writing(), n)
		}
		if n < 2 {
			time.Sleep(longHold)
		}
	}
	l.sayLong(1, otherNames)
	if d := arrives(quick, 1, otherNames); d != longHold {
		t.Errorf("a client that reads waits for %v after one that does not", d)
	}
	time.Sleep(6 * time.Second) // longer than order_hold
	l.sayLong(2, someNames)
	l.sayLong(2, otherNames)
	if d := arrives(quick, 2, otherNames); d != 0 {
		t.Errorf("a client that reads waits for %v after those that have not read for long", d)
	}
}
