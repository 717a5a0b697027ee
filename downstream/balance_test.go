package downstream

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// deployment is replicas of weir and their clients, in virtual time. A client that lost its stream
// chooses among the replicas that are ready at random, as kube-proxy does for new connections.
type deployment struct {
	random   *rand.Rand
	now      time.Time
	replicas []replica
	clients  []member
	ends     ends
	second   time.Time // that is counted
	many     int       // streams that were opened in it
	peak     int       // in any second
	opened   int       // in all
}

type replica struct {
	began   time.Time
	ready   bool
	clients int
}

// member is a client.
type member struct {
	replica int
	streams int // opened so far
}

// ends is a heap of the ends of streams.
type ends []ending

type ending struct {
	at             time.Time
	client, stream int
}

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *ends) Pop() any          { old := *e; x := old[len(old)-1]; *e = old[:len(old)-1]; return x }

const (
	balanceAge     = 30 * time.Minute // timing.max_stream_age
	balanceClients = 3_000
)

// newDeployment has replicas that have been up for days, with clients in balance.
func newDeployment(seed uint64) *deployment {
	f := &deployment{random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1e9, 0), clients: make([]member, balanceClients)}
	for range 3 {
		f.replicas = append(f.replicas, replica{began: f.now.Add(-72 * time.Hour), ready: true})
	}
	for i := range f.clients {
		f.connect(i)
	}
	f.wait(4 * balanceAge)
	f.peak, f.opened = 0, 0
	return f
}

// connect opens a client's next stream.
func (f *deployment) connect(client int) {
	var ready []int
	for i := range f.replicas {
		if f.replicas[i].ready {
			ready = append(ready, i)
		}
	}
	c := &f.clients[client]
	c.replica, c.streams = ready[f.random.IntN(len(ready))], c.streams+1
	r := &f.replicas[c.replica]
	r.clients++
	life := newLifespan(f.now, f.now.Sub(r.began), balanceAge, f.random.Int64N)
	heap.Push(&f.ends, ending{life.end(f.now, f.random.Int64N), client, c.streams})
	if f.now.Sub(f.second) >= time.Second {
		f.second, f.many = f.now, 0
	}
	f.many++
	f.opened++
	f.peak = max(f.peak, f.many)
}

// wait lets time pass.
func (f *deployment) wait(d time.Duration) {
	until := f.now.Add(d)
	for len(f.ends) > 0 && !f.ends[0].at.After(until) {
		e := heap.Pop(&f.ends).(ending)
		c := &f.clients[e.client]
		if c.streams != e.stream {
			continue // it had ended before
		}
		f.now = e.at
		f.replicas[c.replica].clients--
		f.connect(e.client)
	}
	f.now = until
}

// end ends a replica, whose streams end over some time.
func (f *deployment) end(i int, over time.Duration) {
	f.replicas[i].ready = false
	n := 0
	for k := range f.clients {
		if c := &f.clients[k]; c.replica == i {
			heap.Push(&f.ends, ending{f.now.Add(over * time.Duration(n) / time.Duration(f.replicas[i].clients)), k, c.streams})
			n++
		}
	}
	f.wait(over)
}

// begin starts a replica in a place.
func (f *deployment) begin(i int) {
	f.replicas[i].began, f.replicas[i].ready = f.now, true
}

// fullest is how many times the mean the fullest replica has.
func (f *deployment) fullest() float64 {
	most := 0
	for i := range f.replicas {
		most = max(most, f.replicas[i].clients)
	}
	return float64(most*len(f.replicas)) / balanceClients
}

// TestBalance: 30 minutes after the last of three replicas was restarted, one after the other, the
// fullest has at most 1.3 times the mean of 3,000 clients, however long each restart took; soon after,
// if all were quick. A replica that is added, or comes back after a crash, has most of its share by
// then. Streams do not end in waves, and in quiet times few end at all (RELAY-59).
func TestBalance(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	const soonest = "restarted, 15 s between"
	rolling := func(pause time.Duration) func(*deployment) int {
		return func(f *deployment) int {
			for i := range f.replicas {
				if i > 0 {
					f.wait(pause)
				}
				f.end(i, 30*time.Second)
				f.wait(15 * time.Second)
				f.begin(i)
			}
			return len(f.replicas) - 1
		}
	}
	for name, happens := range map[string]func(*deployment) int{ // returns the replica that nobody is at
		soonest:                     rolling(15 * time.Second),
		"restarted, 2 min between":  rolling(2 * time.Minute),
		"restarted, 7 min between":  rolling(7 * time.Minute),
		"restarted, 22 min between": rolling(22 * time.Minute),
		"scaled up": func(f *deployment) int {
			f.replicas = append(f.replicas, replica{began: f.now, ready: true})
			return len(f.replicas) - 1
		},
		"crashed": func(f *deployment) int {
			f.end(0, time.Second)
			f.wait(30 * time.Second)
			f.begin(0)
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newDeployment(seed)
			last := happens(f)
			f.wait(2 * time.Second)
			f.peak = 0
			said := fmt.Sprintf("%.2f", f.fullest())
			for i := range 6 {
				f.wait(5 * time.Minute)
				said += fmt.Sprintf(" %.2f", f.fullest())
				if i == 1 && name == soonest && f.fullest() > 1.5 {
					t.Errorf("after 10 minutes the fullest has %.2f of the mean", f.fullest())
				}
			}
			share := float64(f.replicas[last].clients*len(f.replicas)) / balanceClients
			t.Logf("the fullest has, each five minutes, %s of the mean; the last has %.2f; at most %d streams are opened in a second", said, share, f.peak)
			if f.fullest() > 1.3 || share < 0.7 {
				t.Errorf("after 30 minutes the fullest has %.2f of the mean, and the last %.2f", f.fullest(), share)
			}
			if f.peak > balanceClients/50 { // the first streams end over two and a half minutes
				t.Errorf("%d of %d clients come back in one second", f.peak, balanceClients)
			}
			f.wait(2 * time.Hour)
			f.opened = 0
			f.wait(time.Hour)
			if each := float64(f.opened) / balanceClients; each > 3 {
				t.Errorf("in quiet times a client comes back %.1f times an hour", each)
			}
		})
	}
}

// TestLifespan: it is from a twelfth of the age to the age, by how long the process has been up,
// and its streams end in its last tenth.
func TestLifespan(t *testing.T) {
	now, hour := time.Unix(1e9, 0), time.Hour
	least, most := func(int64) int64 { return 0 }, func(n int64) int64 { return n - 1 }
	for _, row := range []struct{ up, least, most time.Duration }{
		{-time.Second, 5 * time.Minute, 10 * time.Minute}, // a clock that was set back
		{0, 5 * time.Minute, 10 * time.Minute},
		{10 * time.Minute, 15 * time.Minute, 30 * time.Minute},
		{20 * time.Minute, 30 * time.Minute, hour},
		{1 << 62, 30 * time.Minute, hour},
	} {
		a, b := newLifespan(now, row.up, hour, least), newLifespan(now, row.up, hour, most)
		if a.ends.Sub(now) != row.least || b.ends.Sub(now) != row.most {
			t.Errorf("up %v: from %v to %v, want from %v to %v", row.up, a.ends.Sub(now), b.ends.Sub(now), row.least, row.most)
		}
		if first, last := b.end(now, least).Sub(now), b.end(now, most).Sub(now); first != row.most*9/10 || last != row.most || b.told.Sub(now) != first {
			t.Errorf("up %v: streams end from %v to %v", row.up, first, last)
		}
		if late := b.ends.Add(time.Minute); !b.end(late, most).Equal(late) {
			t.Errorf("a stream that comes too late ends at %v", b.end(late, most))
		}
	}
	if l := newLifespan(now, hour, 0, least); l != (lifespan{}) || !l.end(now, least).IsZero() {
		t.Errorf("without an age it is %+v", l)
	}
}
