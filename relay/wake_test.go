package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// counted is a mailbox that keeps every wake-up.
func counted() *Subscriber { return &Subscriber{wake: make(chan struct{}, 1000)} }

// woken is how often it was woken since the last call.
func (s *Subscriber) woken() (n int) {
	for ; len(s.wake) > 0; n++ {
		<-s.wake
	}
	return n
}

// TestOneWake: one response wakes a stream once, whatever it changes of all that the stream is
// subscribed to: by several selectors, by names and with several maps of parameters. Until the
// stream takes, the next ones do not wake it at all.
func TestOneWake(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	g := r.group
	var owners []*Subscriber
	var subs []*Sub
	for i := range 20 {
		owner := counted()
		owners = append(owners, owner)
		open := func(text string, names ...string) {
			s := g.Open(owner, SubOptions{TypeURL: xds.ClusterType, Delta: i%2 == 0, Params: params(text), Located: text != ""})
			s.Update(zero, names, nil)
			subs = append(subs, s)
		}
		open("", xds.Wildcard, "xdstp://mesh/envoy.config.cluster.v3.Cluster/a/*", "n1", "n2")
		open("env=prod", xds.Wildcard, "n1", "n2")
		open("env=test", "n3")
	}
	r.open()
	response := func(body string) *xds.Update {
		u := &xds.Update{TypeURL: xds.ClusterType}
		for i := range 1000 {
			u.Resources = append(u.Resources, madeResource(xds.ClusterType, fmt.Sprint("n", i), "", body))
		}
		u.Resources = append(u.Resources, madeResource(xds.ClusterType, "xdstp://mesh/envoy.config.cluster.v3.Cluster/a/b", "", body))
		return u
	}
	take := func() {
		for _, s := range subs {
			s.Pending()
			s.Take(zero)
		}
	}
	r.apply(response("0"))
	r.table.Advance(zero.Add(time.Minute))
	take()
	for _, o := range owners {
		o.woken()
	}
	r.apply(response("1"))
	for i, o := range owners {
		if n := o.woken(); n != 1 {
			t.Errorf("stream %d was woken %d times by one response", i, n)
		}
	}
	for i := range 100 {
		r.apply(response(fmt.Sprint("more", i)))
	}
	for i, o := range owners {
		if n := o.woken(); n != 0 {
			t.Errorf("stream %d, which has not taken yet, was woken %d times", i, n)
		}
	}
	take()
	r.apply(response("2"))
	for i, o := range owners {
		if n := o.woken(); n != 1 {
			t.Errorf("stream %d was woken %d times", i, n)
		}
	}
}
