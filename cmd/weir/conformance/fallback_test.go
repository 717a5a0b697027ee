package conformance

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// fallbackCases are about several servers of one origin.
var fallbackCases = []testCase{
	{"FED-6", "a relay that has nothing falls back at once, and returns when the first server answers", perDialect(coldFallback)},
	{"FED-6 RELAY-2", "a relay that misses nothing falls back after cold_wait, and returns", perDialect(fullFallback)},
	{"FED-6", "a server that accepts streams and answers nothing does not take over", silentServer},
	{"FED-7", "versions of one server are not presented to another, and equal ones hide nothing", versionsOfServers},
	{"FED-7", "virtual: they are if the servers are said to give the same versions", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestSameVersionsArePresented")
	}},
	{"FED-8", "over a switch to another server and back nothing goes that the new one has", perDialect(wholeSwitch)},
	{"FED-6 FED-8", "virtual: the stream in use is left once the better server has answered; many lanes, flapping, silence", func(t *testing.T) {
		for _, name := range []string{
			"TestTakeover", "TestTakeoverWhileInterestChanges", "TestSilentServerNeverTakesOver", "TestFlappingServer",
			"TestManyLanesMoveTogether", "TestGroupFailsBackTogether", "TestServersInOrder",
		} {
			virtual(t, "../../../upstream", name)
		}
	}},
}

// pair is a world whose origin has a second server.
type pair struct {
	*world
	second *relaytest.Origin
}

// startPair starts it. The world's own origin is the first server.
func startPair(t *testing.T, s setup) *pair {
	t.Helper()
	p := &pair{second: servingOrigin(t)}
	configure, first := s.config, true
	s.config = func(c weirtest.Config) {
		if first {
			grpc := c.Origin()["grpc"].(map[string]any)
			grpc["addresses"] = append(grpc["addresses"].([]any), p.second.Net().Addr())
		}
		first = false
		if configure != nil {
			configure(c)
		}
	}
	p.world = start(t, s)
	return p
}

func coldFallback(t *testing.T, d relaytest.Dialect) {
	p := startPair(t, setup{stopped: true, config: func(c weirtest.Config) { c.Set("timing.cold_wait", "14s") }})
	setAny(p.second, cds, "2", "a", "b")
	setAny(p.origin, cds, "1", "a", "b", "c")
	c := p.client(d)
	begin := time.Now()
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the second server's clusters", "a", "b")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("they came after %v", took)
	}
	p.origin.Start()
	c.AwaitNames(cds, "the first server's, once it is back", "a", "b", "c")
	p.second.Await(0, func() bool { return len(p.second.Open()) == 0 }, "and the second is left")
	c.CheckClean()
}

func fullFallback(t *testing.T, d relaytest.Dialect) {
	const wait = 2 * time.Second
	p := startPair(t, setup{config: func(c weirtest.Config) { quickSettle(c.Set("timing.cold_wait", wait.String())) }})
	setAny(p.origin, cds, "1", "a", "b")
	setAny(p.second, cds, "2", "a", "b", "new")
	c := p.client(d)
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the first server's clusters", "a", "b")
	list := p.client(relaytest.SotW)
	list.Subscribe(cds, "*")
	list.AwaitNames(cds, "and that they are all (RELAY-7)", "a", "b")
	lost := time.Now()
	p.origin.Stop()
	fresh := p.client(d)
	fresh.Subscribe(cds, "*")
	fresh.AwaitNames(cds, "are served meanwhile to who comes", "a", "b")
	c.AwaitNames(cds, "and after a while the second's", "a", "b", "new")
	if took := time.Since(lost); took < wait {
		t.Errorf("they came after %v, want cold_wait", took)
	}
	if n := len(p.second.Streams()); n != 1 {
		t.Errorf("the second server saw %d streams", n)
	}
	setAny(p.origin, cds, "3", "back")
	p.origin.Start()
	c.Await(0, func(s *relaytest.State) bool { return s.Held(cds)["back"] != "" }, "the first takes over when it is back")
	c.AwaitNames(cds, "with what it has", "a", "b", "back")
	c.CheckClean()
	fresh.CheckClean()
}

func silentServer(t *testing.T) {
	p := startPair(t, setup{stopped: true})
	setAny(p.second, cds, "2", "a")
	c := p.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the second server serves", "a")
	p.origin.Behave(func(b *relaytest.Behaviour) { b.Mute = map[string]bool{cds: true} })
	p.origin.Start()
	p.origin.ExpectType(cds, "the first server is asked")
	setAny(p.second, cds, "3", "a", "b")
	c.AwaitNames(cds, "the second is in use", "a", "b")
	p.origin.Behave(func(b *relaytest.Behaviour) { b.Mute = nil })
	setAny(p.origin, cds, "4", "a", "c")
	c.Await(0, func(s *relaytest.State) bool { return s.Held(cds)["c"] != "" }, "until the first answers")
	p.second.Await(0, func() bool { return len(p.second.Open()) == 0 }, "then it is left")
	c.CheckClean()
}

func versionsOfServers(t *testing.T) {
	p := startPair(t, setup{config: func(c weirtest.Config) { quickSettle(c.Set("timing.cold_wait", "500ms")) }})
	p.origin.Set(cds, "a", "1", bodyOf(cds, "a", "1"))
	p.origin.Set(cds, "gone", "1", bodyOf(cds, "gone", "1"))
	p.second.Set(cds, "a", "1", bodyOf(cds, "a", "2"))
	c := p.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the first server's clusters", "a", "gone")
	is := func(text string) func(*relaytest.State) bool {
		return func(s *relaytest.State) bool { return s.Body(cds, "a") == string(bodyOf(cds, "a", text).Value) }
	}
	p.origin.Stop()
	if r := p.second.ExpectType(cds, "the second server is asked"); len(r.Delta.GetInitialResourceVersions()) > 0 {
		t.Errorf("%v presents versions of the first", r)
	}
	c.Await(0, is("2"), "another body under an equal version is told")
	c.AwaitNames(cds, "what the second does not have goes after the long pause", "a")
	p.origin.Skip()
	p.origin.Start()
	if r := p.origin.ExpectType(cds, "the first server is asked again"); len(r.Delta.GetInitialResourceVersions()) > 0 {
		t.Errorf("%v presents versions of the second", r)
	}
	c.Await(0, is("1"), "and told")
	c.AwaitNames(cds, "with all it has", "a", "gone")
	c.CheckClean()
}

// wholeSwitch: what both servers have is never missing, in no response and in no list; what only
// the old one has goes after what the new one has has come.
func wholeSwitch(t *testing.T, d relaytest.Dialect) {
	p := startPair(t, setup{config: func(c weirtest.Config) { quickSettle(c.Set("timing.cold_wait", "500ms")) }})
	pieces := func(b *relaytest.Behaviour) { b.Chunk, b.Pause = 2, 100*time.Millisecond }
	p.second.Behave(pieces)
	shared := []string{"a", "b", "c", "d", "e"}
	setAny(p.origin, cds, "1", append([]string{"first"}, shared...)...)
	setAny(p.second, cds, "2", append([]string{"second"}, shared...)...)
	setAny(p.origin, eds, "1", shared...)
	setAny(p.second, eds, "2", shared...)
	c := p.client(d)
	c.Subscribe(cds, "*")
	c.Subscribe(eds, shared...)
	c.AwaitNames(cds, "the first server's clusters", append([]string{"first"}, shared...)...)
	c.AwaitNames(eds, "and endpoints", shared...)
	p.origin.Behave(pieces)
	arrived := func(version string) func(*relaytest.State) bool {
		return func(s *relaytest.State) bool {
			for _, name := range shared {
				if s.Body(cds, name) != string(bodyOf(cds, name, version).Value) || s.Body(eds, name) != string(bodyOf(eds, name, version).Value) {
					return false
				}
			}
			return true
		}
	}
	p.origin.Stop()
	c.Await(0, arrived("2"), "the second server's bodies")
	c.AwaitNames(cds, "and then what it has and no more", append([]string{"second"}, shared...)...)
	p.origin.Start()
	c.Await(0, arrived("1"), "the first's again")
	c.AwaitNames(cds, "and no more", append([]string{"first"}, shared...)...)
	came := map[string]bool{}
	for _, r := range c.Responses(cds) {
		for _, name := range r.Names() {
			came[name] = true
		}
		for _, name := range r.Removed() {
			if slices.Contains(shared, name) {
				t.Errorf("%v removes %s, which both servers have", r, name)
			}
			if other := map[string]string{"first": "second", "second": "first"}[name]; !came[other] {
				t.Errorf("%v removes %s before %s came", r, name, other)
			}
		}
		if d == relaytest.SotW && !containsAll(r.Names(), shared) {
			t.Errorf("%v lacks what both servers have", r)
		}
	}
	for _, r := range c.Responses(eds) {
		if len(r.Removed()) > 0 {
			t.Errorf("%v removes endpoints, which both servers have", r)
		}
	}
	c.CheckClean()
}

func containsAll(names, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(names, name) })
}
