package main

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// judged is a table whose clients stand as the test says.
type judged struct {
	*goods
	t      testing.TB
	origin *relay.Origin
	groups []*relay.Group
	lanes  []*relay.Lane
	stands atomic.Pointer[downstream.Standing] // of every group
	asked  atomic.Int64                        // how often, and for how many groups
}

func newJudged(t testing.TB, groups int) *judged {
	t.Helper()
	table, err := relay.New(relay.Config{
		History: history.Bounds{Versions: 10, Bytes: 1 << 24, Age: time.Hour}, Origins: []relay.OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	j := &judged{t: t, origin: table.Origin("mesh")}
	j.stands.Store(&downstream.Standing{Clients: 1})
	j.goods = &goods{table: table, of: map[downstream.GroupKey]*candidate{}, bake: func(string) time.Duration { return goodBake }}
	j.stand = func(all map[downstream.GroupKey]*downstream.Standing) {
		for _, s := range all {
			*s = *j.stands.Load()
			j.asked.Add(1)
		}
	}
	for i := range groups {
		g, err := j.origin.Group(relaytest.Node("n", fmt.Sprint("cluster", i)))
		if err != nil {
			t.Fatal(err)
		}
		for _, typeURL := range []string{xds.ClusterType, xds.ListenerType, xds.EndpointType} {
			g.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: typeURL, Delta: true}).Update(time.Now(), []string{xds.Wildcard}, nil)
		}
		j.groups = append(j.groups, g)
		for _, l := range j.origin.TakeLanes() {
			l.Open(time.Now(), j.origin.Server("cp:1"))
			l.Take(time.Now(), false)
			j.lanes = append(j.lanes, l)
		}
	}
	for _, typeURL := range []string{xds.ClusterType, xds.ListenerType, xds.EndpointType} {
		j.hear(typeURL, 0)
	}
	table.Advance(time.Now().Add(time.Minute))
	return j
}

// hear has the origin say another body of a type, to all groups.
func (j *judged) hear(typeURL string, n int) {
	any := xds.AppendString(xds.AppendString(nil, 1, typeURL), 2, fmt.Sprint(n))
	r := xds.Resource{Name: "a", Version: fmt.Sprint(n), Any: any, PayloadType: []byte(typeURL), Payload: fmt.Append(nil, n)}
	for _, l := range j.lanes {
		l.Apply(time.Now(), &xds.Update{TypeURL: typeURL, Resources: []xds.Resource{r}})
	}
}

// good is which states of the first group are good, the newest first.
func (j *judged) good() (text string) {
	for _, row := range j.origin.States(j.groups[0].Key(), 100) {
		if row.Good.IsZero() {
			text += "-"
		} else {
			text += "+"
		}
	}
	return text
}

// TestGoodStates: a state is good when it has been in force for a minute, and all clients have
// accepted it. Endpoints do not matter. What was good stays so.
func TestGoodStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudged(t, 1)
		go func() { _ = every(t.Context(), goodLook, j.look) }()
		want := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := j.good(); got != want {
				t.Fatalf("good are %q, want %q", got, want)
			}
		}
		want(goodBake-time.Second, "-")
		want(4*time.Second, "+")
		for i := range 40 { // endpoints change all the time
			j.hear(xds.EndpointType, 1+i)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		asked := j.asked.Load()
		j.hear(xds.ClusterType, 1)
		want(goodBake/2, "-+")
		j.hear(xds.ListenerType, 1)
		want(goodBake-3*time.Second, "--+")
		want(6*time.Second, "+-+")
		if j.asked.Load() != asked+1 {
			t.Errorf("clients were looked at %d times for one state", j.asked.Load()-asked)
		}
		j.stands.Store(&downstream.Standing{Clients: 2, Behind: 1, Rejecting: 1})
		j.hear(xds.ClusterType, 2)
		asked = j.asked.Load()
		want(goodBake+time.Minute, "-+-+")
		if n := j.asked.Load() - asked; n < 2 || n > 8 {
			t.Errorf("clients that reject were looked at %d times in a minute", n)
		}
		j.stands.Store(&downstream.Standing{})
		want(time.Minute, "-+-+") // nobody is there
		j.stands.Store(&downstream.Standing{Clients: 2})
		want(goodAgain+2*goodLook, "++-+")
	})
}

// BenchmarkGoods is a look at a thousand groups in which nothing is to be judged.
func BenchmarkGoods(b *testing.B) {
	j := newJudged(b, 1000)
	now := time.Now()
	j.look(now)
	j.look(now.Add(2 * goodBake))
	if j.asked.Load() != 1000 {
		b.Fatalf("%d groups were judged", j.asked.Load())
	}
	b.ReportAllocs()
	for b.Loop() {
		j.look(now.Add(3 * goodBake))
	}
}
