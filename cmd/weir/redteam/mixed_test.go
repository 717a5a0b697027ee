package redteam

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// mixedSieges are of two attackers at once, and what an operator does in the middle of an attack.
var mixedSieges = []siege{
	{name: "mixed: bombs and polls", play: together(by("bomb: locators of sotw"), by("poll: many numbers in metadata"))},
	{name: "mixed: bombs of two fields", play: together(by("bomb: names subscribed"), by("bomb: node.extensions"))},
	{name: "mixed: short ones and load reports", play: together(by("request: 100 short ones at once"), by("bomb: cluster stats"))},
	{name: "mixed: nested polls and foreign pages", play: together(besidePoller(by("poll: any in any in error_detail, compressed")), by("page: foreign"))},
	{name: "mixed: many names and bombs", play: together(by("many names"), by("bomb: error details"))},
	{name: "mixed: bombs while the file is read again", play: together(by("bomb: node.client_features"), reloads)},
	{name: "mixed: bombs while good clients come", play: together(by("bomb: initial versions of names"), newcomers)},
	{name: "drain during bomb: locators", ends: true, play: drained("bomb: locators")},
}

// mixedEvilSieges have a hostile origin and its clients act together.
var mixedEvilSieges = []siege{
	{name: "mixed: an origin with many resources, and bombs", play: together(by("bomb: locators"), func(p *pod) string {
		return p.say(relaytest.ListenerType, func(version string) []byte { return named(version, 0, 100_000, 0) })
	})},
	{name: "mixed: an origin with long resources, and clients that read nothing", play: together(by("never reads", atEvil), func(p *pod) string {
		return p.say(relaytest.ListenerType, func(version string) []byte { return named(version, 0, 5_000, 4<<10) })
	})},
	{name: "drain during origin: 6M resources of two bytes", ends: true, play: func(p *pod) string {
		var all sync.WaitGroup
		said := ""
		all.Go(func() { said = p.say(relaytest.ListenerType, emptyElements("resources")) })
		time.Sleep(min(500*time.Millisecond, p.length))
		took := p.drain()
		all.Wait()
		return fmt.Sprintf("drained in %.1f s of %v; %s", took.Seconds(), podDrain, said)
	}},
}

// atEvil makes an attacker a client of the hostile origin.
func atEvil(p *pod, who *target) { who.Addr = p.address(evilPort) }

// together plays several at once.
func together(plays ...func(*pod) string) func(*pod) string {
	return func(p *pod) string {
		said := make([]string, len(plays))
		var all sync.WaitGroup
		for i, play := range plays {
			all.Go(func() { said[i] = play(p) })
		}
		all.Wait()
		return strings.Join(said, "; ")
	}
}

// reloads has an operator tell weir to read its file again, and again.
func reloads(p *pod) string {
	n := 0
	for begin := time.Now(); time.Since(begin) < p.length && !p.weir.Ended(); n++ {
		p.weir.Replace(p.weir.Text())
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Sprintf("the file was read again %d times", n)
}

// newcomers has good clients come one after another.
func newcomers(p *pod) string {
	n, slowest := 0, time.Duration(0)
	for begin := time.Now(); time.Since(begin) < p.length && !p.weir.Ended(); n++ {
		slowest = max(slowest, p.newClient("127.0.2.4", "elsewhere, meanwhile", time.Now()))
	}
	return fmt.Sprintf("%d new clients meanwhile, the slowest served after %.0f ms", n, slowest.Seconds()*1000)
}
