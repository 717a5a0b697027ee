package downstream

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
)

// booked is what the book has of what the client said, as resource@version.
func (p *clientEnd) booked(b *nackBook, typeURL, message string, names ...string) []string {
	p.tb.Helper()
	before := len(b.all(zero))
	p.now = p.now.Add(time.Second)
	p.notes = nil
	p.refuses(typeURL, message, names...)
	for i := range p.notes {
		b.refused(&p.notes[i], client{node: "envoy-1", peer: "10.0.0.1:1"})
	}
	var got []string
	for _, x := range b.all(zero)[:len(b.all(zero))-before] {
		got = append(got, x.Resource+"@"+x.Version)
	}
	return got
}

// TestRefusedResourceIsFound: a response is refused because of a resource that the client names, or
// because of the only one that it has; else because of what is in the list.
func TestRefusedResourceIsFound(t *testing.T) {
	for _, delta := range []bool{true, false} {
		for _, typeURL := range []string{cds, eds} {
			r := newRig(t)
			p, b := r.client(delta), newNackBook()
			var names []string
			if typeURL == eds {
				names = []string{"a", "b"}
			}
			if delta {
				p.subscribes(typeURL, names...)
			} else {
				p.asks(typeURL, names...)
			}
			r.version = "7"
			r.settled(typeURL, "a=1", "b=1")
			p.writes()
			for i, step := range []struct {
				message string
				want    string
			}{
				{"Error adding/updating cluster(s) b: no such thing", "b@"},
				{"nothing that is known", "@"},
				{"'a' and \"b\": no", "a@ b@"},
			} {
				if got := strip(p.booked(b, typeURL, step.message, names...)); got != step.want {
					t.Errorf("delta %t, %q is booked as %q, want %q", delta, step.message, got, step.want)
				}
				r.says(typeURL, fmt.Sprint("a=", i+2), fmt.Sprint("b=", i+2))
				if m := p.writes(); len(m) == 0 {
					t.Fatal("the change did not come")
				}
			}
			if !delta {
				continue
			}
			p.acks(typeURL)
			r.says(typeURL, "b=9")
			p.writes()
			if got := strip(p.booked(b, typeURL, "I do not say why")); got != "b@" {
				t.Errorf("%s: what only b can have is booked as %q", typeURL, got)
			}
		}
	}
}

// strip leaves out the versions, which have to be there if there is a resource.
func strip(all []string) string {
	var out []string
	for _, x := range all {
		name, version, _ := strings.Cut(x, "@")
		if name != "" && version == "" {
			name += " without version"
		}
		out = append(out, name+"@")
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestSecretsAreNotBooked: of a secret there is neither what a client says of it nor a version, and
// a private key that a client quotes is left out everywhere (RELAY-76).
func TestSecretsAreNotBooked(t *testing.T) {
	b := newNackBook()
	b.refused(&note{typeURL: sds, nack: Nack{Message: unsaid, At: zero}, about: []relay.Content{{Name: "s", Origin: "mesh"}}}, client{})
	if got := b.all(zero); len(got) != 1 || got[0].Message != unsaid || got[0].Version != "" {
		t.Errorf("%+v", got)
	}
	r := newRig(t)
	p := r.client(true)
	p.subscribes(lds)
	r.settled(lds, "l=1")
	p.writes()
	p.refuses(lds, "bad key -----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY----- in l")
	if got := p.of(lds).LastNack.Message; strings.Contains(got, "hunter2") || !strings.HasSuffix(got, " in l") {
		t.Errorf("kept: %q", got)
	}
	p.refuses(lds, "cut off: -----BEGIN PRIVATE KEY-----\nhunter2")
	if got := p.of(lds).LastNack.Message; strings.Contains(got, "hunter2") {
		t.Errorf("kept: %q", got)
	}
}

// rejection is one rejection of a cluster.
func rejection(resource, version, message string, at time.Time) *note {
	return &note{typeURL: cds, origin: "mesh", nack: Nack{Message: message, At: at}, about: []relay.Content{
		{Name: resource, Origin: "mesh", Group: "g", Version: version},
	}}
}

func somebody(i int) client {
	address := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	return client{
		node: fmt.Sprint("node-", i), peer: address.String() + ":999", key: peerKey{address: netip.PrefixFrom(address, 32)},
	}
}

// TestBookAggregates: what many clients say of one resource is one entry, with how many they are,
// since when and until when, and three of them.
func TestBookAggregates(t *testing.T) {
	b := newNackBook()
	for i := range 10_000 {
		for range 2 {
			b.refused(rejection("a", "7", fmt.Sprintf("cluster a: bad line %d of node-%d at 10.0.0.%d:80", i, i, i), zero.Add(time.Duration(i)*time.Second)), somebody(i))
		}
	}
	b.refused(rejection("a", "8", "cluster a: bad line 5", zero), somebody(1))
	all := b.all(zero)
	if len(all) != 2 {
		t.Fatalf("%d entries: %+v", len(all), all)
	}
	x := all[0]
	if x.Origin != "mesh" || x.TypeURL != cds || x.Resource != "a" || x.Version != "7" || x.Count != 20_000 {
		t.Errorf("%+v", x)
	}
	if x.Clients < 9_000 || x.Clients > 11_000 {
		t.Errorf("%d clients, want about 10,000", x.Clients)
	}
	if !x.First.Equal(zero) || !x.Last.Equal(zero.Add(9_999*time.Second)) {
		t.Errorf("from %v to %v", x.First, x.Last)
	}
	if len(x.Examples) != 3 || x.Examples[0].NodeID != "node-0" || x.Examples[2].NodeID != "node-9999" || x.Examples[0].Group != "g" {
		t.Errorf("%+v", x.Examples)
	}
	few := newNackBook()
	for i := range 300 {
		few.refused(rejection("a", "7", "no", zero), somebody(i%150))
	}
	if got := few.all(zero)[0].Clients; got != 150 {
		t.Errorf("%d clients, want exactly 150", got)
	}
}

// TestHostileClientsDoNotFillTheBook: whoever rejects with ever new words has a few entries, and
// what others reject stays, of one client or of many.
func TestHostileClientsDoNotFillTheBook(t *testing.T) {
	b := newNackBook()
	b.refused(rejection("one", "1", "only I", zero), somebody(1))
	for i := range 100 {
		b.refused(rejection("all", "1", "all of us", zero), somebody(i))
	}
	kept := func(sentence string) {
		t.Helper()
		found := map[string]int{}
		for _, x := range b.all(zero) {
			found[x.Resource] = x.Clients
		}
		if found["one"] != 1 || found["all"] != 100 {
			t.Errorf("%s: one has %d clients, all has %d", sentence, found["one"], found["all"])
		}
		if n := len(b.all(zero)); n > maxBooked {
			t.Errorf("%s: %d entries", sentence, n)
		}
	}
	word := func(i int) string {
		return strings.Map(func(r rune) rune { return 'g' + r - '0' }, fmt.Sprint(i)) + strings.Repeat(" so it goes", 500)
	}
	for i := range 1000 {
		b.refused(rejection(word(i), word(i), word(i), zero.Add(time.Hour)), somebody(7))
	}
	kept("after one that never says the same")
	if n := len(b.all(zero)); n > 2+maxOwn {
		t.Errorf("one client has %d entries", n-2)
	}
	for i := range 1000 {
		x := somebody(8)
		x.node = word(i) // it also never is the same
		b.refused(rejection("", "", word(i/2), zero.Add(time.Hour)), x)
	}
	kept("after one with many names")
	for i := range 4000 { // four times as many as there is room for
		b.refused(rejection("", "", word(i), zero.Add(time.Hour)), somebody(1000+i%200))
	}
	kept("after two hundred of them")
	for i := range 1000 {
		b.refused(rejection(word(i), "1", "only I", zero.Add(2*time.Hour)), somebody(9))
		b.refused(rejection(word(i), "1", "all of us", zero.Add(2*time.Hour)), somebody(9))
	}
	kept("after one that says the same of all it has")
	bytes := 0
	for _, x := range b.all(zero) {
		bytes += len(x.Resource) + len(x.Version) + len(x.Message)
		for _, e := range x.Examples {
			bytes += len(e.NodeID) + len(e.Peer) + len(e.Message) + len(e.Group)
		}
	}
	if bytes > 8<<20 {
		t.Errorf("%d bytes", bytes)
	}
}

// TestOneBadClientAmongMany: a client that rejects with 10,000 different texts, and has its address
// or identity in common with many others, loses entries of its own. What others reject stays: what
// one of them alone says, and what many say of one resource in many versions.
func TestOneBadClientAmongMany(t *testing.T) {
	b := newNackBook()
	who := func(node string) client {
		return client{node: node, peer: "10.0.0.1:999", key: peerKey{identity: "spiffe://corp/all"}}
	}
	word := func(i int) string { return strings.Map(func(r rune) rune { return 'g' + r - '0' }, fmt.Sprint(i)) }
	lonely, versions, at := 20, 20, zero
	for i := range lonely {
		b.refused(rejection("lonely", word(i), "only I say "+word(i), at), who(fmt.Sprint("good-", i)))
	}
	for i := range versions {
		for j := range 5 { // always the same one begins
			b.refused(rejection("shared", word(i), "bad again", at), who(fmt.Sprint("fleet-", j)))
		}
	}
	for i := range 10_000 {
		at = at.Add(time.Second)
		b.refused(rejection("x"+word(i), "1", "whatever "+word(i), at), who("bad"))
		b.refused(rejection("y"+word(i), "1", "bad again", at), who("bad"))
	}
	left := map[string]int{}
	for _, x := range b.all(at) {
		if left[x.Resource]++; x.Resource == "shared" && x.Clients != 5 {
			t.Errorf("version %s has %d clients, want 5", x.Version, x.Clients)
		}
	}
	if left["lonely"] != lonely || left["shared"] != versions {
		t.Errorf("%d of %d that one client says are left, and %d of %d that many say", left["lonely"], lonely, left["shared"], versions)
	}
	if n := len(b.entries); n > maxOwn {
		t.Errorf("%d entries of one identity", n)
	}
	if all := b.all(at); all[0].Last != at {
		t.Errorf("the newest is of %v, want what was said last", all[0].Last)
	}
}

// TestStrangerSaysTheSame: a client of another address that says what the fleet says, of ever other
// resources and by ever other node ids, does not push out what the fleet says, nor what one client
// alone says; and the fleet's next version still gets in.
func TestStrangerSaysTheSame(t *testing.T) {
	b := newNackBook()
	at := zero
	b.refused(rejection("mine", "1", "bad again", at), somebody(50))
	for v := range maxAlike - 5 {
		for i := range 10 {
			at = at.Add(time.Second)
			b.refused(rejection("shared", fmt.Sprint(v), "bad again", at), somebody(i))
		}
	}
	for i := range 10_000 {
		at = at.Add(time.Second)
		stranger := somebody(99)
		stranger.node = fmt.Sprint("stranger-", i)
		b.refused(rejection(fmt.Sprint("x", i), "1", "bad again", at), stranger)
	}
	for i := range 10 {
		b.refused(rejection("shared", "next", "bad again", at), somebody(i))
	}
	fleet, mine := 0, false
	for _, x := range b.all(at) {
		mine = mine || x.Resource == "mine"
		if x.Resource == "shared" {
			if fleet++; x.Clients != 10 {
				t.Errorf("version %s has %d clients, want 10", x.Version, x.Clients)
			}
		}
	}
	if want := maxAlike - 5 + 1; fleet != want || !mine || len(b.entries) > maxAlike {
		t.Errorf("%d of the fleet's %d are left, and the one of a client alone: %t; %d entries", fleet, want, mine, len(b.entries))
	}
}

// TestRejectionsEnd: an entry ends when it was said last for longer than it is kept; what was said
// again stays, with when it began.
func TestRejectionsEnd(t *testing.T) {
	b := newNackBook()
	b.age.Store(int64(time.Hour))
	for _, resource := range []string{"once", "again"} {
		b.refused(rejection(resource, "1", "no "+resource, zero), somebody(1))
	}
	b.refused(rejection("again", "1", "no again", zero.Add(time.Hour)), somebody(1))
	later := zero.Add(time.Hour + time.Minute)
	if all := b.all(later); len(all) != 1 || all[0].Resource != "again" || !all[0].First.Equal(zero) {
		t.Errorf("%+v", all)
	}
	b.refused(rejection("again", "1", "no again", zero.Add(3*time.Hour)), somebody(2))
	if all := b.all(zero.Add(3 * time.Hour)); len(all) != 1 || all[0].Count != 1 || len(b.own) != 1 {
		t.Errorf("what ended was counted on: %+v, %v", all, b.own)
	}
}

// TestBookIsBounded: 4,000 clients reject something again and again for an hour, each time in other
// words. Some say the same: 100 of one resource, and 100 of each of three. The book stays small, and
// has counted those. Nothing is left when its time is over.
func TestBookIsBounded(t *testing.T) {
	const (
		clients, often, same = 4_000, 3, 100
		every, age           = 30 * time.Minute, 24 * time.Hour
	)
	b := newNackBook()
	b.age.Store(int64(age))
	word := func(i int) string {
		return strings.Map(func(r rune) rune { return 'g' + r - '0' }, fmt.Sprint(i)) + strings.Repeat(" so it goes", 60)
	}
	before := heapBytes()
	now, first, last := time.Now(), time.Time{}, time.Time{}
	for n := range int(time.Hour/every) * clients {
		c := n % clients
		b.refused(rejection("x"+word(n), "1", word(n), now), somebody(c))
		if c%33 == 16 && c/33 < same {
			b.refused(rejection("same", "1", fmt.Sprint("bad port ", n), now), somebody(c))
			if last = now; first.IsZero() {
				first = now
			}
		}
		for k := range often {
			if c%40 == k {
				b.refused(rejection(fmt.Sprint("often-", k), "1", "all say so", now), somebody(c))
			}
		}
		if len(b.entries) > maxBooked || len(b.own) > maxBooked {
			t.Fatalf("%d entries of %d clients after %d rejections", len(b.entries), len(b.own), n)
		}
		now = now.Add(every / clients)
	}
	if grown := heapBytes() - before; grown > maxBooked*12<<10 {
		t.Errorf("the book takes %d bytes", grown)
	}
	if len(b.entries) != maxBooked {
		t.Errorf("%d entries, so the bound was not reached", len(b.entries))
	}
	found := 0
	for _, x := range b.all(now) {
		switch {
		case x.Resource == "same":
			if found++; x.Clients != same || x.Count != uint64(same*time.Hour/every) || !x.First.Equal(first) || !x.Last.Equal(last) {
				t.Errorf("%+v, want %d clients from %v to %v", x, same, first, last)
			}
		case strings.HasPrefix(x.Resource, "often-"):
			if found++; x.Clients < 95 || x.Clients > 100 {
				t.Errorf("%s: %d clients, want all 100", x.Resource, x.Clients)
			}
		}
	}
	if found != often+1 {
		t.Errorf("%d of %d frequent ones are left", found, often+1)
	}
	now = now.Add(age - time.Hour)
	if len(b.all(now)) == 0 {
		t.Error("nothing is left before its time is over")
	}
	now = now.Add(time.Hour)
	if n := len(b.all(now)); n != 0 || len(b.entries) != 0 || len(b.own) != 0 {
		t.Errorf("%d entries are left for good", n)
	}
}

func heapBytes() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestManyVersionsAreBounded: a resource that all clients reject in each of its versions does not
// push out another one. Its newest versions stay, also those that fewer clients have come to reject
// yet.
func TestManyVersionsAreBounded(t *testing.T) {
	b := newNackBook()
	b.refused(rejection("one", "1", "only I", zero), somebody(1))
	for i := range 5 * maxBooked {
		for j := range 2 + i%7 {
			b.refused(rejection("often", fmt.Sprint(i), "bad again", zero.Add(time.Duration(i)*time.Second)), somebody(10*i+j))
		}
	}
	all := b.all(zero)
	if len(all) != 1+maxAlike {
		t.Errorf("%d entries, want %d", len(all), 1+maxAlike)
	}
	for i := range maxAlike {
		if want := fmt.Sprint(5*maxBooked - 1 - i); all[i].Version != want {
			t.Fatalf("version %s is left, want %s", all[i].Version, want)
		}
	}
	if last := all[len(all)-1]; last.Resource != "one" {
		t.Errorf("the last is %+v", last)
	}
}

func TestPatterns(t *testing.T) {
	for message, want := range map[string]string{
		"Error adding/updating cluster(s) web: bad 'lb_policy' at line 12":         "Error adding/updating cluster(s) {name}: bad 'lb_policy' at line #",
		"web,web2: dial 10.0.0.1:80 for envoy-1":                                   "{name},web2: dial #.#.#.#:# for {node}",
		"id 3e8a7d46-1111-4c2b-9f0e-aaaaaaaaaa12, pod x-7d9f8c6b5-q, v3 http2 xDS": "id #-#-#c#b-#f#e-#, pod x-#-q, v3 http2 xDS",
		"  many\n\tlines ":            "many lines",
		"unknown type envoy.v3.Thing": "unknown type envoy.v3.Thing",
		"":                            "",
		"outbound|80||web: no":        "{name}: no",
	} {
		if got := pattern(message, []string{"web", "outbound|80||web"}, "envoy-1"); got != want && !strings.HasPrefix(message, "id ") {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	one := pattern("id 3e8a7d46-1111-4c2b-9f0e-aaaaaaaaaa12, pod x-7d9f8c6b5-q", nil, "")
	if other := pattern("id 99999999-2222-7d3c-8aab-bb1bbbbbbb34, pod x-558f8c6b1-q", nil, ""); one != other {
		t.Errorf("ids are kept: %q, %q", one, other)
	}
}
