package relay

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/protobuf/encoding/protowire"
)

// ttls: some bodies have a TTL. That of every other one is long; the others expire unless they are
// renewed in time.
func (m *model) ttls() bool { return strings.HasSuffix(m.kind, "ttl") }

// promised is a body of a name.
type promised struct {
	typeURL, name string
	body          int
}

func (a promised) compare(b promised) int {
	return cmp.Or(cmp.Compare(a.typeURL, b.typeURL), cmp.Compare(a.name, b.name), cmp.Compare(a.body, b.body))
}

// promises are the origin's word on how long bodies last.
type promises struct {
	ends map[promised]time.Time // by the origin's own clock
	// told is when they end by what was delivered last, for `*` and for names: names may change the
	// lane.
	told map[promised]map[bool]time.Time
	// past are ends that had passed when the body was renewed all the same. weir had dropped it by
	// then, and fetches it (TTL-4).
	past map[promised]time.Time
	// over are names of which a body expired, with the step.
	over map[promised]int
	at   time.Time // when the origin looked last

	expired, returned int // bodies that clients lost by it, and names that came back
}

// grant is a TTL that begins now, for a body that was just made or is renewed.
func (m *model) grant(ty, name string, body int) {
	if !m.ttls() || body%3 != 0 {
		return
	}
	end := 1000 * time.Hour
	if body%6 == 0 {
		end = time.Second
	}
	m.promises.ends[promised{ty, name, body}] = m.now.Add(end + time.Duration(m.rnd.IntN(15_000))*time.Millisecond)
}

// ttl is the name and what is left of the TTL of a body.
func (m *model) ttl(ty, name string, body int) []byte {
	key := promised{ty, name, body}
	if _, granted := m.promises.ends[key]; !granted { // it came with the end of an error
		m.grant(ty, name, body)
	}
	return xds.AppendTTL(xds.AppendString(nil, xds.FieldName, m.spell(name)), m.promises.ends[key].Sub(m.now))
}

// renew has a heartbeat follow what is in flight, of some name whose body the stream was sent.
func (m *model) renew(l *modelLane) {
	ty := m.typeURL()
	asked := l.types[ty]
	if !m.ttls() || !l.open || asked == nil || !asked.answered {
		return
	}
	name := m.name()
	body, told := asked.known[name]
	if !told || body < 0 || asked.errs[name] != "" || !asked.wildcard && !asked.names[name] {
		return
	}
	if b, is := m.state[ty][name]; !is || b != body || body%3 != 0 {
		return
	}
	m.grant(ty, name, body)
	b := xds.AppendString(m.ttl(ty, name, body), xds.FieldVersion, fmt.Sprintf("v%d", body))
	if m.sotw {
		b = xds.AppendString(xds.AppendString(nil, 1, xds.ResourceType), 2, string(b))
	}
	l.queue = append(l.queue, &flight{&xds.Response{TypeURL: ty, Delta: !m.sotw, Nonce: "n", Version: "1", Resources: [][]byte{b}}, false})
}

// timed is a resource's fields with the TTL of its body, if it has one.
func (m *model) timed(ty, name string, body int, payload []byte) []byte {
	if !m.ttls() || body%3 != 0 {
		return payload
	}
	b := protowire.AppendBytes(protowire.AppendTag(m.ttl(ty, name, body), xds.FieldPayload, protowire.BytesType), payload)
	return xds.AppendString(xds.AppendString(nil, 1, xds.ResourceType), 2, string(b))
}

// arrives notes the TTLs in a response that the table has just taken.
func (m *model) arrives(l *modelLane, u *xds.Update) {
	for i := range u.Resources {
		r := &u.Resources[i]
		if !r.HasTTL {
			continue
		}
		key := promised{u.TypeURL, m.plain(r.Name), 0}
		if r.Any == nil {
			key.body = m.number(strings.TrimPrefix(r.Version, "v"))
		} else {
			key.body = m.number(xds.StringField(r.Payload, 2))
		}
		if m.promises.told[key] == nil {
			m.promises.told[key] = map[bool]time.Time{}
		}
		wild, end := l.types[u.TypeURL].wildcard, m.now.Add(r.TTL)
		moved := l.only == nil && m.group.shard(u.TypeURL, constraints.Params{}).named.lane != l.index
		if !wild && moved && end.Before(m.promises.told[key][wild]) {
			// on the lane that the names have left: the one they are on may have said more since,
			// so it only prolongs
			continue
		}
		if last, told := m.promises.told[key][wild]; told && !last.After(m.now) {
			m.promises.past[key] = last
		}
		m.promises.told[key][wild] = end
	}
}

// deliverAll: a TTL begins when it arrives, so that nothing that has one is in flight while time
// passes.
func (m *model) deliverAll() {
	for _, l := range m.lanes {
		for m.ttls() && len(l.queue) > 0 {
			m.deliver(l)
		}
	}
}

// expire has the origin forget what nobody has renewed. It says nothing of it, as that was said
// with the TTL, but where it said last that the name is in error.
func (m *model) expire() {
	for _, key := range slices.SortedFunc(maps.Keys(m.promises.told), promised.compare) {
		f, ends := m.faults[key.typeURL][key.name], m.promises.told[key]
		// its removal ends what was told of it before: an error that stands is stated anew
		for _, named := range []bool{false, true} {
			if end, told := ends[named]; told && f.code != 0 && f.code != codeNotFound && !end.After(m.now) && end.After(m.promises.at) {
				m.serial++
				m.faults[key.typeURL][key.name] = modelFault{f.code, fmt.Sprint("no word ", m.serial)}
			}
		}
	}
	m.promises.at = m.now
	for _, ty := range modelTypes {
		names := m.state[ty]
		for _, name := range slices.Sorted(maps.Keys(names)) {
			body := names[name]
			end, timed := m.promises.ends[promised{ty, name, body}]
			if !m.ttls() || !timed || end.After(m.now) {
				continue
			}
			m.logf("%s %s=%d has expired", shortType(ty), name, body)
			m.remove(ty, name)
			for _, l := range m.lanes {
				a := l.types[ty]
				if a == nil {
					continue
				}
				if was, told := a.known[name]; told && was == body {
					if a.known[name] = -1; m.sotw {
						delete(a.known, name)
					}
				}
			}
		}
	}
}

// ended reports whether a TTL of the body is over that some lane told last, or was over when it was
// renewed: the client hears of that with what it takes next.
func (m *model) ended(c *modelSub, name string, body int) bool {
	key := promised{c.typeURL, name, body}
	for _, end := range m.promises.told[key] {
		if !end.After(m.now.Add(xds.SamePromise)) {
			return true
		}
	}
	end, was := m.promises.past[key]
	return was && !end.Before(c.took)
}

// losesTimed takes note of a loss by expiry, and reports whether it is one.
func (m *model) losesTimed(c *modelSub, name string, body int) bool {
	if !m.ttls() {
		return false
	}
	if !m.ended(c, name, body) {
		all := m.lives[c.typeURL][name]
		first := slices.IndexFunc(all, func(x life) bool { return x.body == body })
		// Or else what took its place has: its renewal, or what came after it, was lost with a
		// stream.
		return first >= 0 && slices.ContainsFunc(all[first:], func(x life) bool { return m.ended(c, name, x.body) })
	}
	m.promises.expired++
	m.promises.over[promised{c.typeURL, name, c.id}] = m.at
	return true
}

// judgeTimed: nobody holds what expired, once the table was told the time (RELAY-50); what comes
// again is had again.
func (m *model) judgeTimed(c *modelSub) {
	// Or else there is no word for it (DEL-3), or the word has to wait for the rest of a list
	// (RELAY-7).
	sayable := (c.delta || c.wildcard || xds.SentWhole(c.typeURL)) && !c.Standing().Waiting && !m.emptyWaits(c)
	for name, body := range c.held {
		key := promised{c.typeURL, name, c.id}
		if _, was := m.promises.over[key]; was {
			m.promises.returned++
			delete(m.promises.over, key)
		}
		ends := m.promises.told[promised{c.typeURL, name, body}]
		var last time.Time
		for _, end := range ends {
			last = later(last, end)
		}
		r := c.record(name)
		if r != nil && r.is(claimed) {
			// it came back with it, and while the origin is away nobody knows what became of it
			// (RELAY-38)
			continue
		}
		if c.sets.first != nil && c.sets.first.spared[name] || r != nil && r.inError() && !r.wasSent() {
			// it is in a passing error, and nobody here knows what it is that the client came back
			// with (ABS-8)
			continue
		}
		if sayable && len(ends) > 0 && last.Add(xds.SamePromise).Before(m.now) {
			m.t.Fatalf("step %d: client %d (%s delta %v ttl %v) holds %s=%d, which expired %v ago (RELAY-50)\n%s", m.at, c.id, shortType(c.typeURL),
				c.delta, c.ttl, name, body, m.now.Sub(last), m.tail())
		}
	}
}

// emptyWaits: there is nothing left of what the client names, and of some of it nothing is known on
// the present stream. A list without anything would say that all is gone (SOTW-9), so it waits for
// that, for 15 s of silence at most (RELAY-6).
func (m *model) emptyWaits(c *modelSub) (unknown bool) {
	if c.delta || c.wildcard {
		return false
	}
	for r := range c.records.all() {
		if r.body() != nil {
			return false
		}
		unknown = unknown || !r.entry.isGone()
	}
	return unknown
}

// judgeAllTimed looks at those who have nothing to take.
func (m *model) judgeAllTimed() {
	for _, c := range slices.Clone(m.subs) {
		if m.ttls() && !c.Pending() {
			m.judgeTimed(c)
		} else {
			c.Remind()
		}
	}
}

// TestModelLosesTimed: a client may lose a name whose body ended, or ended before it was renewed,
// if it has taken nothing since. Any other loss is a fault of weir.
func TestModelLosesTimed(t *testing.T) {
	sec := func(n int) time.Time { return time.Unix(1e9+int64(n), 0) }
	for _, x := range []struct {
		what                string
		told, renewed, took int // the end of the TTL, when it was renewed by 100 s, when the client took
		is                  bool
	}{
		{"it ended", 10, -1, 0, true},
		{"it ended, and was told before that", 10, -1, 5, true},
		{"it was renewed in time", 10, 9, 0, false},
		{"it was renewed too late", 10, 11, 5, true},
		{"it was renewed too late, and the client has taken since", 10, 11, 12, false},
		{"it lasts", 100, -1, 0, false},
	} {
		m := newModel(t, rand.New(rand.NewPCG(1, 1)), "ttl")
		l := m.lanes[0]
		l.types = map[string]*modelAsked{xds.ClusterType: {wildcard: true}}
		tell := func(at, end int) {
			m.now = sec(at)
			m.arrives(l, &xds.Update{TypeURL: xds.ClusterType, Resources: []xds.Resource{
				{Name: "n1", Version: "v6", HasTTL: true, TTL: sec(end).Sub(m.now)},
			}})
		}
		m.lives.note(xds.ClusterType, "n1", 0, 7)
		m.lives.note(xds.ClusterType, "n1", 1, 6)
		if tell(0, x.told); x.renewed >= 0 {
			tell(x.renewed, x.renewed+100)
		}
		m.now = sec(20)
		c := &modelSub{Sub: m.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true}), took: sec(x.took)}
		for body, holds := range map[int]string{6: "the body", 7: "the one before"} {
			if got := m.losesTimed(c, "n1", body); got != x.is {
				t.Errorf("%s: who holds %s may lose it: %v, want %v", x.what, holds, got, x.is)
			}
		}
	}
}
