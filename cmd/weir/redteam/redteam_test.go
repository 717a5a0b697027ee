package redteam

import (
	"fmt"
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
	late       = 5 * time.Second // for a change to reach a good client
	serveAfter = 2 * time.Second // promised: a new client is served so long after an attacker is gone
	quiet      = 2 * time.Second // before each attack, to compare with
	attackers  = "127.0.66."     // the addresses they come from
	short      = 250 * time.Millisecond
)

// order is that of the attacks, who comes from the address of a good client, and which are played
// with every plain go test.
var order = []struct {
	name              string
	neighbour, always bool
}{
	{"long headers", false, false},
	{"headers that stay", false, false},
	{"idle connections", false, false},
	{"open and reset", false, true},
	{"open and reset", true, false},
	{"reconnect loop", false, false},
	{"made-up groups", false, true},
	{"gzip bombs", false, false},
	{"malformed messages", false, true},
	{"slow connections", false, false},
	{"frame floods", false, false},
	{"never reads", false, false},
	{"many names", false, false},
	{"refuses everything", false, false},
	{"garbage", false, false},
	{"admin: wrong tokens", false, false},
	{"admin: foreign hosts", false, false},
	{"admin: slow and large", false, false},
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
	b := newBed(t)
	for i, row := range order {
		if some && !row.always || !strings.Contains(row.name, only) {
			continue
		}
		name, from := row.name, fmt.Sprint(attackers, i+1)
		if row.neighbour {
			name, from = name+", from the address of a good client", goodAddress(0)
		}
		t.Run(name, func(t *testing.T) {
			b.T = t
			b.play(name, target{Attack: row.name, Addr: b.weir.Addr, Admin: b.weir.Admin, From: from, For: length})
		})
	}
}

// play is one attack, judged.
func (b *bed) play(name string, who target) {
	b.Helper()
	calm := min(quiet, who.For)
	begin := time.Now()
	time.Sleep(calm)
	between := time.Now()
	streams := b.streams()
	peak := b.watchMemory()
	said := attack(b.T, who)
	gone := time.Now()
	memory := peak()
	opened := b.streams() - streams

	served := b.newClient("127.0.2.1", "elsewhere", gone)
	his := b.newClient(who.From, "the attacker's address", gone)
	b.converge("after the attack")
	if body, err := weirtest.Fetch("http://" + b.weir.Admin + "/readyz"); err != nil {
		b.Errorf("weir is not ready: %v\n%s", err, body)
	}
	before, _ := b.lags(begin, between)
	during, missing := b.lags(between, gone)
	if len(before) == 0 || len(during) == 0 {
		b.Fatalf("%d changes were measured before, and %d while it lasted", len(before), len(during))
	}
	if worst := during[len(during)-1]; worst > late || missing > 0 {
		b.Errorf("a change took %v to reach a good client, and %d never came", worst, missing)
	}
	if memory > memoryLimit+programSize {
		b.Errorf("weir used %d MiB, and may use %d", memory>>20, (memoryLimit+programSize)>>20)
	}
	if most := int(gone.Sub(between).Seconds()*newGroups) + 2*newGroups; opened > most {
		b.Errorf("the origin saw %d new streams in %v, want at most %d", opened, gone.Sub(between), most)
	}
	verdict := "passed"
	if b.Failed() {
		verdict = "FAILED"
	}
	p := func(lags []time.Duration) float64 { return lags[len(lags)*99/100].Seconds() * 1000 }
	fmt.Printf("redteam: %s %s: p99 %.1f ms, before %.1f (%.2f); slowest %.0f ms; %d MiB; %d new streams at the origin; "+
		"a new client served after %.0f ms, from the attacker's address %.0f ms; attacker: %s\n",
		verdict, name, p(during), p(before), p(during)/p(before), during[len(during)-1].Seconds()*1000, memory>>20, opened,
		served.Seconds()*1000, his.Seconds()*1000, said)
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
	served := func() bool {
		switch {
		case g == nil:
			g = open(b.T, b.weir.Addr, from, "new", relaytest.Delta)
		case g.hasEnded(): // refused: it comes again
			b.Logf("the stream of a new client from %s: %v", where, g.err)
			time.Sleep(100 * time.Millisecond)
			g = open(b.T, b.weir.Addr, from, "new", relaytest.Delta)
		}
		return g.count() == clusters
	}
	if !weirtest.Until(5*serveAfter, served) {
		b.Errorf("a new client from %s is not served", where)
	}
	g.close()
	return time.Since(gone)
}
