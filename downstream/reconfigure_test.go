package downstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
)

// threeOrigins are the listener's own, one with authorities, and one that nothing is asked of.
func threeOrigins() []relay.OriginConfig {
	return []relay.OriginConfig{
		{Name: "mesh"}, {Name: "east", Authorities: []string{"east", "eastern"}}, {Name: "idle", Authorities: []string{"idle"}},
	}
}

// reconfigured commits other origins, and gives what changed and the listener's settings.
func (r *rig) reconfigured(origins []relay.OriginConfig, change func(*Config, *ListenerConfig)) *relay.Change {
	r.tb.Helper()
	n, err := r.table.Prepare(relay.Config{Origins: origins})
	if err != nil {
		r.tb.Fatal(err)
	}
	c := n.Commit(r.now)
	r.origin = r.table.Origin("mesh")
	if change == nil {
		change = func(*Config, *ListenerConfig) {}
	}
	r.configure(change)
	return c
}

// TestWhoIsConcerned: a stream ends for what takes something from it that it was served, or would
// give it what it was refused; for nothing else.
func TestWhoIsConcerned(t *testing.T) {
	edit := func(i int, change func(*relay.OriginConfig)) func([]relay.OriginConfig) []relay.OriginConfig {
		return func(o []relay.OriginConfig) []relay.OriginConfig { change(&o[i]); return o }
	}
	far, lost, glob := long(eds, "//east/a"), long(eds, "//lost/a"), long(eds, "//east/foo/*")
	asks := map[string]func(p *clientEnd){
		"own":   func(p *clientEnd) { p.subscribes(cds, "*") },
		"far":   func(p *clientEnd) { p.subscribes(eds, far) },
		"both":  func(p *clientEnd) { p.subscribes(cds, "*"); p.subscribes(eds, "near", far) },
		"lost":  func(p *clientEnd) { p.subscribes(eds, lost) },
		"glob":  func(p *clientEnd) { p.subscribes(eds, glob) },
		"hosts": func(p *clientEnd) { p.subscribes(vhd, "r/host") },
		"sds":   func(p *clientEnd) { p.subscribes(sds, "s") },
		"none":  func(*clientEnd) {},
	}
	for name, row := range map[string]struct {
		change   func([]relay.OriginConfig) []relay.OriginConfig
		listener func(*Config, *ListenerConfig)
		own      string // the listener's origin; "": mesh
		ends     string // which of asks; all others go on
	}{
		"nothing": {change: func(o []relay.OriginConfig) []relay.OriginConfig { return o }},
		"an origin added": {change: func(o []relay.OriginConfig) []relay.OriginConfig {
			return append(o, relay.OriginConfig{Name: "new", Authorities: []string{"new"}})
		}},
		"an idle one removed": {change: func(o []relay.OriginConfig) []relay.OriginConfig { return o[:2] }},
		"one removed":         {change: func(o []relay.OriginConfig) []relay.OriginConfig { return slices.Delete(o, 1, 2) }, ends: "far both glob"},
		"own regrouped":       {change: edit(0, func(o *relay.OriginConfig) { o.GroupBy = []string{"cluster"} }), ends: "own far both lost glob hosts sds"},
		"another regrouped":   {change: edit(1, func(o *relay.OriginConfig) { o.GroupBy = []string{"cluster"} }), ends: "far both glob"},
		"authority removed":   {change: edit(1, func(o *relay.OriginConfig) { o.Authorities = []string{"eastern"} }), ends: "far both glob"},
		"authority moved": {change: func(o []relay.OriginConfig) []relay.OriginConfig {
			o[1].Authorities, o[2].Authorities = []string{"eastern"}, []string{"idle", "east"}
			return o
		}, ends: "far both glob"},
		"authority of none added": {change: edit(2, func(o *relay.OriginConfig) { o.Authorities = append(o.Authorities, "lost") }), ends: "lost"},
		"authority beside":        {change: edit(1, func(o *relay.OriginConfig) { o.Authorities = []string{"east"} })},
		"dialect of another":      {change: edit(1, func(o *relay.OriginConfig) { o.SotW = true }), ends: "glob"},
		"dialect of own":          {change: edit(0, func(o *relay.OriginConfig) { o.SotW = true }), ends: "hosts"},
		"secrets of an idle one":  {change: edit(2, func(o *relay.OriginConfig) { o.Secrets = true }), ends: "sds"},
		"resume":                  {change: edit(0, func(o *relay.OriginConfig) { o.NoResume = true })},
		"another default": {
			change: func(o []relay.OriginConfig) []relay.OriginConfig { return o }, own: "idle", ends: "own far both lost glob hosts sds",
		},
		"limits and timing": {
			change:   func(o []relay.OriginConfig) []relay.OriginConfig { return o },
			listener: func(c *Config, _ *ListenerConfig) { c.Limits.NamesPerStream, c.Timing.OrderHold = 1, time.Minute },
		},
	} {
		for who, ask := range asks {
			t.Run(name+" "+who, func(t *testing.T) {
				r := newRigOf(t, threeOrigins()...)
				p := r.client(true)
				p.session.from = caller{local: true}
				ask(p)
				c := r.reconfigured(row.change(threeOrigins()), func(c *Config, lc *ListenerConfig) {
					if row.own != "" {
						lc.Origin = r.table.Origin(row.own)
					}
					if row.listener != nil {
						row.listener(c, lc)
					}
				})
				if ends, want := !p.session.adopt(r.set, c), slices.Contains(strings.Fields(row.ends), who); ends != want {
					t.Errorf("ends: %v, want %v", ends, want)
				}
			})
		}
	}
}

func deltaSubscribe(typeURL string, names ...string) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names}
}

// TestManyAuthorities: a stream that has asked for more authorities than are remembered ends for
// the change of any.
func TestManyAuthorities(t *testing.T) {
	for _, n := range []int{maxAuthorities, maxAuthorities + 1} {
		r := newRigOf(t, threeOrigins()...)
		p := r.client(true)
		for i := range n {
			p.subscribes(eds, long(eds, fmt.Sprintf("//a%d/x", i)), long(eds, fmt.Sprintf("//a%d/y", i)))
		}
		c := r.reconfigured(threeOrigins()[:2], nil)
		if ends := !p.session.adopt(r.set, c); ends != (n > maxAuthorities) {
			t.Errorf("%d authorities, and another one changes: ends: %v", n, ends)
		}
	}
}

// TestLowerLimitEndsNobody: a stream with more names than are allowed by now goes on, as long as it
// asks for no more.
func TestLowerLimitEndsNobody(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r := newRigOf(t, threeOrigins()...)
		p := r.client(delta)
		ask := func(names ...string) error {
			if delta {
				return p.sent(deltaSubscribe(eds, names...))
			}
			return p.sent(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: append([]string{"a", "b", "c"}, names...)})
		}
		if err := ask("a", "b", "c"); err != nil {
			t.Fatal(err)
		}
		c := r.reconfigured(threeOrigins(), func(c *Config, _ *ListenerConfig) { c.Limits.NamesPerStream = 2 })
		if !p.session.adopt(r.set, c) {
			t.Fatal("it is concerned")
		}
		if err := ask(); err != nil {
			t.Errorf("the same names: %v", err)
		}
		if err := ask("d"); err == nil || !strings.Contains(err.Error(), "limits.names_per_stream") {
			t.Errorf("one more: %v, want the limit", err)
		}
	}
}

// TestNodeThatIsMissing: a stream that began where no other origin could be asked has not kept its
// node. It does not join another's group without it, but ends.
func TestNodeThatIsMissing(t *testing.T) {
	for name, row := range map[string]struct {
		next     relay.OriginConfig
		listener func(*Config, *ListenerConfig)
		ask      string // type and name
	}{
		"another origin": {next: relay.OriginConfig{Name: "east", Authorities: []string{"east"}, GroupBy: []string{"cluster"}}, ask: eds + " " + long(eds, "//east/a")},
		"dedicated":      {next: relay.OriginConfig{Name: "east"}, listener: func(_ *Config, lc *ListenerConfig) { lc.Dedicated = []string{eds} }, ask: eds + " a"},
		"secrets":        {next: relay.OriginConfig{Name: "east", Authorities: []string{"east"}, Secrets: true}, ask: sds + " " + long(sds, "//east/a")},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOf(t, relay.OriginConfig{Name: "mesh"})
			p := r.client(true)
			p.session.from = caller{local: true}
			p.subscribes(cds, "*")
			c := r.reconfigured([]relay.OriginConfig{{Name: "mesh"}, row.next}, row.listener)
			if !p.session.adopt(r.set, c) {
				t.Fatal("the stream is concerned though it asked for nothing of it")
			}
			typeURL, ask, _ := strings.Cut(row.ask, " ")
			if err := p.sent(deltaSubscribe(typeURL, ask)); !errors.Is(err, errReconfigured) {
				t.Errorf("%v, want %v", err, errReconfigured)
			}
			later := r.client(true)
			later.session.from = caller{local: true}
			later.subscribes(cds, "*")
			later.subscribes(typeURL, ask)
		})
	}
}

// TestReconfigure: of two listeners and a third stream that has not asked yet, only what is
// concerned ends, with UNAVAILABLE; a listener that is missing is closed, and a late one is served
// as it is by now.
func TestReconfigure(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	open := func() []*listener {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		return slices.Clone(l.server.listeners)
	}
	await(t, "the first listener is served", func() bool { return len(open()) == 1 })
	own := open()[0].port
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.server.Serve(gone, ListenerConfig{Origin: l.origin}) }()
	await(t, "the second listener is served", func() bool { return len(open()) == 2 })
	first := l.open(t, relaytest.ClientConfig{Dialect: relaytest.Delta})
	first.Request(cds)
	silent := l.open(t, relaytest.ClientConfig{Dialect: relaytest.Delta})
	far := l.open(t, relaytest.ClientConfig{Dialect: relaytest.Delta})
	far.Request(eds, long(eds, "//served/a"))
	l.asked(t, 2)
	await(t, "the streams are there", func() bool { return len(l.server.Clients()) == 3 })

	reconfigure := func(o relay.OriginConfig, listeners ...net.Listener) *Concerned {
		n, err := l.table.Prepare(relay.Config{Origins: []relay.OriginConfig{o}})
		if err != nil {
			t.Fatal(err)
		}
		r := Reconfiguration{Listeners: map[net.Listener]ListenerConfig{}, Change: n.Commit(time.Now())}
		for _, x := range listeners {
			r.Listeners[x] = ListenerConfig{Origin: l.table.Origin("mesh")}
		}
		c, err := l.server.Reconfigure(r)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := reconfigure(relay.OriginConfig{Name: "mesh"}, own)
	if c.Len() != 1 {
		t.Errorf("%d streams are concerned, want the one with the authority that nobody answers for now", c.Len())
	}
	c.End(t.Context(), time.Minute)
	if code := far.AwaitEnd("the one that is concerned"); code != codes.Unavailable {
		t.Errorf("ended with %v", code)
	}
	if err := <-served; err != nil {
		t.Errorf("the listener that is closed: %v", err)
	}
	if _, err := net.Dial("tcp", gone.Addr().String()); err == nil {
		t.Error("it still listens")
	}
	l.say(cds, "a=1")
	l.settle()
	first.AwaitNames(cds, "the one that is not goes on", "a")
	silent.Request(cds)
	silent.AwaitNames(cds, "so does the one that had asked for nothing", "a")

	c = reconfigure(relay.OriginConfig{Name: "mesh", GroupBy: []string{"cluster"}}, own)
	c.End(context.Background(), time.Minute)
	for _, x := range []*relaytest.Client{first, silent} {
		if code := x.AwaitEnd("its origin is grouped in another way"); code != codes.Unavailable {
			t.Errorf("ended with %v", code)
		}
	}
	late := l.open(t, relaytest.ClientConfig{Dialect: relaytest.Delta})
	late.Request(cds)
	l.asked(t, 1)
	if got := inspect.Status(l.table.Origin("mesh")); len(got) != 1 || got[0].Node.GetCluster() != "edge" {
		t.Errorf("the stream that comes after is in %+v", got)
	}
	// A listener whose Serve comes late has the settings by now, or is not wanted any more.
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.server.Serve(stranger, ListenerConfig{Origin: l.origin}); !errors.Is(err, errStopped) {
		t.Errorf("a listener that is not configured: %v", err)
	}
	if _, err := l.server.Reconfigure(Reconfiguration{Limits: Limits{}, Timing: Timing{ColdWait: time.Hour}}); err == nil {
		t.Error("a bad configuration was taken")
	}
}
