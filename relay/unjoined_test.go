package relay

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// TestNothingOfAnAnswerIsKept: what a stream was sent, once that is written, costs no copy for as
// long as the stream lives: neither the first answer, nor a change of all, nor a removal. Each
// client is in a group of its own with a content of its own, or there are two in each group.
func TestNothingOfAnAnswerIsKept(t *testing.T) {
	for _, each := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d clients a group", each), func(t *testing.T) { testNothingIsKept(t, each) })
	}
}

func testNothingIsKept(t *testing.T, each int) {
	const groups, resources, size = 40, 200, 400
	cfg := Config{Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"id"}}}}
	table := newRig(t, cfg).table
	var rigs []*rig
	var subs []*Sub
	for i := range groups {
		g, err := table.Origin("mesh").Group(&corev3.Node{Id: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t, table, g}
		for range each {
			subs = append(subs, r.sub(xds.ClusterType, true, xds.Wildcard))
		}
		r.open()
		rigs = append(rigs, r)
	}
	var names []string
	for i := range resources {
		names = append(names, fmt.Sprintf("cluster-%03d", i))
	}
	now := zero
	says := func(word string, removed []string, names ...string) {
		for i, r := range rigs {
			r.apply(made(xds.ClusterType, fmt.Sprint(word, i, strings.Repeat("x", size)), removed, names...))
		}
		now = now.Add(time.Minute)
		table.Advance(now)
	}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"the first answer", func() { says("a", nil, names...) }},
		{"a change of all", func() { says("b", nil, names...) }},
		{"a removal", func() { says("c", names[resources/2:], names[:resources/2]...) }},
	} {
		step.do()
		before := liveHeap()
		for _, s := range subs {
			a := s.Take(now)
			if a == nil {
				t.Fatalf("%s: nothing to send", step.what)
			}
			sent := 0
			for _, p := range a.Pieces(true, now, nil) {
				for i := range p {
					sent += len(p[i])
				}
			}
			if sent < resources/2*size {
				t.Fatalf("%s: only %d bytes were sent", step.what, sent)
			}
			s.Ack(a.Receipt())
		}
		kept := (liveHeap() - before) / int64(len(subs))
		// A list of the resources, and whatever the process does besides.
		if most := int64(60 * resources); kept > most {
			t.Errorf("%s: %d bytes are kept for each client, of about %d sent", step.what, kept, resources*size)
		}
	}
	if err := table.Check(); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(subs)
}

// TestManyClientsShareOneCopy: what many clients are sent is joined once for all of them, and
// dropped when they have become few.
func TestManyClientsShareOneCopy(t *testing.T) {
	r := newRig(t, Config{})
	var subs []*Sub
	for range fewClients + 1 {
		subs = append(subs, r.sub(xds.ClusterType, true, xds.Wildcard))
	}
	r.open()
	r.apply(made(xds.ClusterType, strings.Repeat("x", leastRun), nil, "a", "b", "c"))
	r.table.Advance(zero.Add(time.Minute))
	var first *byte
	for i, s := range subs {
		p := s.Take(zero).Pieces(true, zero, nil)[Plain]
		if first == nil {
			first = &p[0][0]
		}
		if len(p) != 1 || first != &p[0][0] {
			t.Fatalf("client %d is sent %d pieces of its own", i, len(p))
		}
	}
	v := subs[0].shard.star.views.plain
	subs[0].Close(zero)
	for _, g := range v.segments.list {
		if c := g.chunk; c != nil && len(c.delta.pieces) > 0 {
			t.Errorf("%d clients are left, and the copy is held", v.deltas)
		}
	}
	if v.full != nil {
		t.Error("the view holds its encoded body")
	}
	r.check()
}
