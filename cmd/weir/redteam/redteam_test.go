package redteam

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// What is asserted of times is five times what is promised: machines are busy. What was measured is
// in each line.
const (
	late = 5 * time.Second // for a change to reach a good client
	// promised: a new client is served so long after an attacker is gone
	serveAfter = 2 * time.Second
	quiet      = time.Second // before each attack, to compare with
	attackers  = "127.0.66." // the addresses they come from
	short      = 250 * time.Millisecond
)

// order is that of the attacks, which sink each is compared with, who comes from the address of a
// good client, and which are played with every plain go test. Those on polls are on the listener
// with REST-JSON.
var order = []struct {
	name              string
	sink              sinkKind
	neighbour, always bool
}{
	{"long headers", bytesSink, false, false},
	{"headers that stay", bytesSink, false, false},
	{"idle connections", bytesSink, false, false},
	{"open and reset", bytesSink, false, true},
	{"open and reset", bytesSink, true, false},
	{"reconnect loop", refusingSink, false, false},
	{"made-up groups", refusingSink, false, true},
	{"gzip bombs", refusingSink, false, false},
	{"malformed messages", bytesSink, false, true},
	{"slow connections", bytesSink, false, false},
	{"frame floods", bytesSink, false, false},
	{"never reads", patientSink, false, false},
	{"many names", patientSink, false, false},
	{"refuses everything", patientSink, false, false},
	{"garbage", bytesSink, false, false},
	{"polls: long headers", bytesSink, false, false},
	{"polls: open and reset", bytesSink, false, false},
	{"polls: frame floods", bytesSink, false, true},
	{"polls: one by one", webSink, false, false},
	{"polls: slow", webSink, false, false},
	{"admin: wrong tokens", webSink, false, false},
	{"admin: foreign hosts", webSink, false, false},
	{"admin: slow and large", webSink, false, false},
}

// TestRedTeam plays each attack beside the good clients.
func TestRedTeam(t *testing.T) {
	length, some := short, true
	if text := os.Getenv("WEIR_REDTEAM_FOR"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		some = false
	}
	only := os.Getenv("WEIR_REDTEAM_ONLY")
	var b *bed
	for i, row := range order {
		if some && !row.always || !strings.Contains(row.name, only) {
			continue
		}
		if b == nil {
			b = newBed(t)
		}
		name, from := row.name, fmt.Sprint(attackers, i+1)
		if row.neighbour {
			name, from = name+", from the address of a good client", goodAddress(0)
		}
		t.Run(name, func(t *testing.T) {
			b.T = t
			who := target{Attack: row.name, Addr: b.weir.Addr, Admin: b.weir.Admin, From: from, For: length}
			if strings.HasPrefix(row.name, "polls: ") {
				who.Addr, who.Admin, who.Polls = b.polls(), b.polls(), true
			}
			b.play(name, row.sink, who)
		})
	}
}

// play is one attack, judged, with the time before it and the same attack on a sink to compare
// with.
func (b *bed) play(name string, at sinkKind, who target) {
	b.Helper()
	calm := b.measure(func() { time.Sleep(min(quiet, who.For)) })
	floor := calm // with a plain go test, which measures nothing
	if who.For != short {
		floor = b.measure(func() { b.sunk(at, who) })
	}
	streams := b.streams()
	peak := b.watchMemory()
	said := ""
	during := b.measure(func() { said = attack(b.T, who) })
	memory := peak()
	opened := b.streams() - streams

	served := b.newClient("127.0.2.1", "elsewhere", during.to)
	his := b.newClient(who.From, "the attacker's address", during.to)
	b.poll()
	b.converge("after the attack")
	if body, err := weirtest.Fetch("http://" + b.weir.Admin + "/readyz"); err != nil {
		b.Errorf("weir is not ready: %v\n%s", err, body)
	}
	before, _ := b.lags(calm)
	beside, _ := b.lags(floor)
	lags, missing := b.lags(during)
	if len(before) == 0 || len(beside) == 0 || len(lags) == 0 {
		b.Fatalf("%d changes were measured before, %d beside the sink, and %d while it lasted", len(before), len(beside), len(lags))
	}
	if worst := lags[len(lags)-1]; worst > late || missing > 0 {
		b.Errorf("a change took %v to reach a good client, and %d never came", worst, missing)
	}
	if memory > memoryLimit+programSize {
		b.Errorf("weir used %d MiB, and may use %d", memory>>20, (memoryLimit+programSize)>>20)
	}
	if most := int(during.length().Seconds()*newGroups) + 2*newGroups; opened > most {
		b.Errorf("the origin saw %d new streams in %v, want at most %d", opened, during.length(), most)
	}
	verdict := "passed"
	if b.Failed() {
		verdict = "FAILED"
	}
	p := func(lags []time.Duration) float64 { return lags[len(lags)*99/100].Seconds() * 1000 }
	fmt.Printf("redteam: %s %s: p99 calm %.1f ms, floor %.1f, attack %.1f (%.2f of calm, %.2f of floor); slowest %.0f ms; "+
		"processors of weir %.2f, at the floor %.2f and the sink %.2f, attack %.2f; %d MiB; %d new streams at the origin; "+
		"a new client served after %.0f ms, from the attacker's address %.0f ms; attacker: %s\n",
		verdict, name, p(before), p(beside), p(lags), p(lags)/p(before), p(lags)/p(beside), lags[len(lags)-1].Seconds()*1000,
		calm.weir, floor.weir, floor.sink, during.weir, memory>>20, opened, served.Seconds()*1000, his.Seconds()*1000, said)
}

// poll has a poll answered.
func (b *bed) poll() {
	b.Helper()
	answered := func() bool {
		resp, err := http.Post("http://"+b.polls()+pollPath, "application/json", strings.NewReader(`{"node": {"id": "poller", "cluster": "good"}}`))
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	if !weirtest.Until(5*serveAfter, func() bool { return b.weir.Ended() || answered() }) {
		b.Error("a poll is not answered")
	}
}

// sunk is the attack on a sink instead.
func (b *bed) sunk(at sinkKind, who target) {
	b.Helper()
	who.Addr, who.Admin, who.For = b.sink.addresses[at], b.sink.addresses[at], min(quiet, who.For)
	b.Logf("at the sink: %s", attack(b.T, who))
}

// watchMemory measures weir's resident memory until it is asked for the most there was.
func (b *bed) watchMemory() func() int {
	stop, most := make(chan struct{}), make(chan int, 1)
	go func() {
		peak := 0
		defer func() { most <- peak }() // also when weir has ended
		for {
			peak = max(peak, b.weir.RSS())
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() int { close(stop); return <-most }
}

// newClient is how long after the attacker's end a new client is served everything.
func (b *bed) newClient(from, where string, gone time.Time) time.Duration {
	b.Helper()
	var g *good
	refused := 0
	served := func() bool {
		switch {
		case g == nil:
			g = open(b.T, b.weir.Addr, from, "new", relaytest.Delta)
		case g.hasEnded(): // refused: it comes again
			if refused++; refused == 1 {
				b.Logf("the stream of a new client from %s: %v", where, g.err)
			}
			time.Sleep(100 * time.Millisecond)
			g = open(b.T, b.weir.Addr, from, "new", relaytest.Delta)
		}
		return g.count() == clusters
	}
	if !weirtest.Until(5*serveAfter, func() bool { return b.weir.Ended() || served() }) || g == nil {
		b.Errorf("a new client from %s is not served, and was refused %d times", where, refused)
	}
	if g != nil {
		g.close()
	}
	return time.Since(gone)
}
