package redteam

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// longest is how long an attack on a pod lasts at most, unless weir takes longer to answer it.
const longest = 500 * time.Millisecond

// siege is an attack on a pod.
type siege struct {
	name string
	play func(*pod) string // and what there is to say of it
	// of what is expected to end weir itself, in order
	ends bool
	// played with every plain go test
	always bool
}

// camps are the sieges by the kind of pod that they are on. Those of one camp follow one another on
// one weir, unless it dies, and it drains in the end.
var camps = []struct {
	name   string
	kind   func(*pod)
	sieges []siege
}{
	{"requests", nil, slices.Concat(bombSieges(), pollSieges, pageSieges, fileSieges)},
	{"encodings", nil, encodedSieges()},
	{"mixed", nil, slices.Concat(drawnSieges, mixedSieges)},
	{"few files", fewFiles, idleSieges},
	{"a token", withToken, tokenSieges},
	{"a hostile origin", withEvil, slices.Concat(originSieges, oddSieges(), mixedEvilSieges)},
	{"a hostile origin, snapshots", withSnapshot, nestedSieges()},
	{"a hostile origin that is polled", withWeb, webSieges()},
	{"drain in polls", nil, drainSieges},
	{"a hostile origin of state of the world", withEvilSotW, oddSotWSieges()},
	{"drain in answers", withWeb, webDrainSieges},
}

// TestRedTeamMemory plays each siege on a weir that has the memory of a pod.
func TestRedTeamMemory(t *testing.T) {
	length, some := short, true
	if text := os.Getenv("WEIR_REDTEAM_FOR"); text != "" {
		most, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		length, some = min(most, longest), false
	}
	only := os.Getenv("WEIR_REDTEAM_ONLY")
	for _, camp := range camps {
		mine := slices.DeleteFunc(slices.Clone(camp.sieges), func(s siege) bool {
			return some && !s.always || !strings.Contains(s.name, only)
		})
		if len(mine) == 0 {
			continue
		}
		t.Run(camp.name, func(t *testing.T) {
			var p *pod
			for _, s := range mine {
				t.Run(s.name, func(sub *testing.T) {
					if p == nil || p.weir.Ended() {
						p = newPod(t, length, camp.kind)
					}
					p.T = sub
					p.play(s)
					if sub.Failed() {
						p.weir.Kill() // the next one has a new weir, as if nothing had been
					}
				})
			}
			if p == nil || p.weir.Ended() {
				return // -test.run has picked none of them, or the last one has ended weir
			}
			t.Run("drain", func(sub *testing.T) {
				p.T = sub
				took := p.drain()
				fmt.Printf("redteam: %s drain after %s: %.1f s of %v\n", p.verdict(), camp.name, took.Seconds(), podDrain)
			})
		})
	}
}

func (p *pod) verdict() string {
	if p.Failed() {
		return "FAILED"
	}
	return "passed"
}

// play is one siege, judged.
func (p *pod) play(s siege) {
	p.Helper()
	kills, stop := p.kills(), p.watch()
	said := ""
	during := p.measure(func() { said = s.play(p) })
	rest := ""
	if !s.ends && !p.weir.Ended() {
		rest = p.aftermath(during)
	}
	used := stop()
	if n := p.kills() - kills; n > 0 || used.killed {
		rest = "; KILLED for its memory"
		p.Error("weir was killed for its memory")
	} else if p.weir.Ended() && !s.ends {
		rest = "; ENDED: " + lastWords(p.weir.Output())
		p.Error("weir has ended")
	}
	if used.peak > podMemory {
		p.Errorf("weir used %d MiB, and may use %d", used.peak>>20, podMemory>>20)
	}
	fmt.Printf("redteam: %s %s: peak %d of %d MiB (%s), %.1f s of processors in %.1f s%s; %s\n", p.verdict(), s.name,
		used.peak>>20, podMemory>>20, p.how(), used.used.Seconds(), during.length().Seconds(), rest, said)
}

// aftermath judges what everybody has once the attack is over.
func (p *pod) aftermath(during span) string {
	p.Helper()
	served := p.newClient("127.0.2.1", "elsewhere", during.to)
	his := p.newClient(podAttacker, "the attacker's address", during.to)
	p.poll()
	p.converge("after the attack")
	if body, err := weirtest.Fetch("http://" + p.probes() + "/readyz"); err != nil {
		p.Errorf("weir is not ready: %v\n%s", err, body)
	}
	lags, missing := p.lags(during)
	slowest := time.Duration(0)
	if len(lags) > 0 {
		slowest = lags[len(lags)-1]
	}
	if slowest > late || missing > 0 {
		p.Errorf("a change took %v to reach a good client, and %d never came", slowest, missing)
	}
	return fmt.Sprintf("; slowest change %.0f ms; a new client served after %.0f ms, from the attacker's address %.0f ms",
		slowest.Seconds()*1000, served.Seconds()*1000, his.Seconds()*1000)
}

// probes is the address that kubelets ask.
func (p *pod) probes() string { return p.weir.Probes }

// lastWords are of a weir that has ended: the first line of a panic, if there is one.
func lastWords(log string) string {
	for line := range strings.Lines(log) {
		for _, begin := range []string{"panic:", "fatal error:", "runtime:"} {
			if strings.HasPrefix(line, begin) {
				return strings.TrimSpace(line)
			}
		}
	}
	return "it does not say why"
}

// podAttacker is where the attackers of pods come from.
const podAttacker = attackers + "200"

// by has a process attack weir for a while; edit changes whom it attacks.
func by(name string, edit ...func(*pod, *target)) func(*pod) string {
	return func(p *pod) string {
		who := target{
			Attack: name, Addr: p.address(openPort), Strangers: p.address(strangerPort), Admin: p.weir.Admin,
			PollsAt: p.address(pollPort), From: podAttacker, For: p.length,
		}
		for _, e := range edit {
			e(p, &who)
		}
		return attack(p.T, who)
	}
}
