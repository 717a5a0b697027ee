package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"

	"github.com/weir-xds/weir/relay/relaytest"
)

// tally counts what a plane was asked since it was made. A wildcard in either form counts as the
// name "*".
type tally struct {
	opened   int
	closed   int
	requests int
	nacks    []string
	// by type URL and name: how often a stream that did not want it came to want it
	asked   map[string]map[string]int
	dropped map[string]map[string]int // by type URL and name: how often a stream gave it back
}

// listKey is one type on one stream.
type listKey struct {
	dialect relaytest.Dialect
	stream  int64
	typeURL string
}

func newTally() tally {
	return tally{asked: map[string]map[string]int{}, dropped: map[string]map[string]int{}}
}

// Asked is what the plane was asked so far.
func (p *plane) Asked() tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tally
	t.nacks = slices.Clone(t.nacks)
	t.asked, t.dropped = cloneCounts(t.asked), cloneCounts(t.dropped)
	return t
}

func cloneCounts(counts map[string]map[string]int) map[string]map[string]int {
	c := map[string]map[string]int{}
	for typeURL, names := range counts {
		c[typeURL] = maps.Clone(names)
	}
	return c
}

func count(counts map[string]map[string]int, typeURL, name string) {
	if counts[typeURL] == nil {
		counts[typeURL] = map[string]int{}
	}
	counts[typeURL][name]++
}

// callbacks feed the tally.
func (p *plane) callbacks() server.Callbacks {
	return server.CallbackFuncs{
		StreamOpenFunc:      func(context.Context, int64, string) error { return p.opened() },
		DeltaStreamOpenFunc: func(context.Context, int64, string) error { return p.opened() },
		StreamClosedFunc:    func(id int64, _ *core.Node) { p.closed(relaytest.SotW, id) },
		DeltaStreamClosedFunc: func(id int64, _ *core.Node) {
			p.closed(relaytest.Delta, id)
		},
		StreamRequestFunc: func(id int64, r *discovery.DiscoveryRequest) error {
			p.sotw(listKey{relaytest.SotW, id, r.GetTypeUrl()}, r)
			return nil
		},
		StreamDeltaRequestFunc: func(id int64, r *discovery.DeltaDiscoveryRequest) error {
			p.delta(listKey{relaytest.Delta, id, r.GetTypeUrl()}, r)
			return nil
		},
	}
}

func (p *plane) opened() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tally.opened++
	return nil
}

func (p *plane) closed(dialect relaytest.Dialect, id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tally.closed++
	maps.DeleteFunc(p.wanted, func(k listKey, _ map[string]bool) bool { return k.dialect == dialect && k.stream == id })
}

// sotw counts a list of names.
func (p *plane) sotw(key listKey, r *discovery.DiscoveryRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := map[string]bool{}
	for _, name := range r.GetResourceNames() {
		names[name] = true
	}
	before, known := p.wanted[key]
	if len(names) == 0 && (!known || before["*"]) {
		names["*"] = true
	}
	for name := range names {
		if !before[name] {
			count(p.tally.asked, key.typeURL, name)
		}
	}
	for name := range before {
		if !names[name] {
			count(p.tally.dropped, key.typeURL, name)
		}
	}
	p.wanted[key] = names
	p.count(key.typeURL, r.GetErrorDetail())
}

// delta counts a subscription change.
func (p *plane) delta(key listKey, r *discovery.DeltaDiscoveryRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	names, known := p.wanted[key]
	if !known {
		names = map[string]bool{}
		p.wanted[key] = names
	}
	subscribe := r.GetResourceNamesSubscribe()
	if !known && len(subscribe)+len(r.GetResourceNamesUnsubscribe()) == 0 {
		subscribe = []string{"*"}
	}
	for _, name := range subscribe {
		names[name] = true
		count(p.tally.asked, key.typeURL, name)
	}
	for _, name := range r.GetResourceNamesUnsubscribe() {
		delete(names, name)
		count(p.tally.dropped, key.typeURL, name)
	}
	p.count(key.typeURL, r.GetErrorDetail())
}

func (p *plane) count(typeURL string, detail *spb.Status) {
	p.tally.requests++
	if detail != nil {
		p.tally.nacks = append(p.tally.nacks, fmt.Sprintf("%s: %s", typeURL, detail.GetMessage()))
	}
}

// serve runs the accept loop of one run.
func (p *plane) serve(s *grpc.Server, l net.Listener, served chan<- struct{}) {
	defer close(served)
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		p.tb.Errorf("the plane stopped accepting: %v", err)
	}
}

// tell shows what the plane was asked, and its complaints, after a failure.
func (p *plane) tell() {
	if !p.tb.Failed() {
		return
	}
	t := p.Asked()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tb.Logf("the %s plane: %d streams opened, %d closed, %d requests, NACKs %q, complaints %q",
		p.kind, t.opened, t.closed, t.requests, t.nacks, p.said)
}

// The caches log through the plane.

// Debugf drops a message.
func (p *plane) Debugf(string, ...any) {}

// Infof drops a message.
func (p *plane) Infof(string, ...any) {}

// Warnf keeps a message for the report of a failed test.
func (p *plane) Warnf(format string, args ...any) { p.complain(format, args...) }

// Errorf keeps a message for the report of a failed test.
func (p *plane) Errorf(format string, args ...any) { p.complain(format, args...) }

func (p *plane) complain(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.said) < 100 {
		p.said = append(p.said, fmt.Sprintf(format, args...))
	}
}
