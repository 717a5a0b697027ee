package downstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// BenchmarkDelivery is one change at one client, from the table to the buffers that grpc is handed:
// what weir itself takes for a delivery, without the wire, and without the ACK, which is
// BenchmarkACK.
func BenchmarkDelivery(b *testing.B) {
	for _, kind := range []string{"delta", "SotW", "EDS by name", "SotW EDS by name", "EDS by locator"} {
		for _, clients := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/clients=%d", kind, clients), func(b *testing.B) { benchDelivery(b, newFleet(b, kind, clients, 1000)) })
		}
	}
}

// BenchmarkUpdate is BenchmarkDelivery at ten clients, by the number of resources that did not
// change, and of clients that are not concerned: they ask for other names.
func BenchmarkUpdate(b *testing.B) {
	for _, kind := range []string{"delta", "EDS by name", "SotW EDS by name"} {
		for _, n := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/resources=%d", kind, n), func(b *testing.B) { benchDelivery(b, newFleet(b, kind, 10, n)) })
		}
		for _, n := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/unconcerned=%d", kind, n), func(b *testing.B) {
				f := newFleet(b, kind, 10, 100)
				for i := range n {
					p := f.client(f.delta)
					f.ask(p, eds, fmt.Sprint("other", i))
					p.session.take(f.now)
				}
				benchDelivery(b, f)
			})
		}
	}
}

// benchDelivery stops the timer once for a change, not for a client, since that itself allocates.
func benchDelivery(b *testing.B, f *fleet) {
	batches := make([][]*response, len(f.ends))
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		b.StopTimer()
		f.change(done + 3)
		ends := f.ends[:min(len(f.ends), b.N-done)]
		b.StartTimer()
		for i, p := range ends {
			batches[i] = p.session.take(f.now)
			for _, x := range batches[i] {
				if _, err := (codec{}).Marshal(x); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.StopTimer()
		for i, p := range ends {
			// else nothing is measured, or something else
			if n := len(batches[i]); n != 1 || batches[i][0].size < len(fleetBody(0)) {
				b.Fatalf("delivery %d is %d responses", done+i, n)
			}
			f.acknowledge(p, batches[i])
		}
		done += len(ends)
		b.StartTimer()
	}
}

// fleet is clients that all ask for the same, and have it.
type fleet struct {
	*rig
	kind, typeURL string
	delta         bool
	names         []string
	constraints   string // of all resources, behind their names
	ends          []*clientEnd
}

// fleetBody is the body of a resource, of about 400 bytes.
func fleetBody(version int) string { return fmt.Sprintf("%s %d", strings.Repeat("x", 370), version) }

// newFleet settles a set of resources, of which each client has been sent what it asks for, and two
// changes of the first.
func newFleet(tb testing.TB, kind string, clients, resources int) *fleet {
	f := &fleet{kind: kind, typeURL: cds, delta: !strings.HasPrefix(kind, "SotW")}
	located := kind == "EDS by locator"
	m := metrics.New(prometheus.NewRegistry())
	f.rig = newRigWith(tb, relay.Config{Metrics: m, Origins: []relay.OriginConfig{{Name: "mesh", TP2: located}}})
	f.configure(func(c *Config, _ *ListenerConfig) { c.Metrics = m })
	if strings.HasSuffix(kind, "EDS by name") {
		f.typeURL, f.names = eds, []string{"n0", "n1", "n2"}
	}
	if located {
		f.typeURL, f.constraints = eds, "{env=prod}"
	}
	f.ends = make([]*clientEnd, clients)
	for i := range f.ends {
		p := f.client(f.delta)
		f.ends[i] = p
		if !located {
			f.ask(p, f.typeURL, f.names...)
		} else if err := p.locates(f.typeURL, "n0"+f.constraints, "n1"+f.constraints, "n2"+f.constraints); err != nil {
			tb.Fatal(err)
		}
	}
	all := make([]string, max(resources, 3))
	for i := range all {
		all[i] = fmt.Sprintf("n%d%s=%s", i, f.constraints, fleetBody(0))
	}
	if len(f.names) > 0 { // somebody wants the others, too
		named := make([]string, len(all))
		for i := range named {
			named[i] = fmt.Sprint("n", i)
		}
		f.ask(f.client(f.delta), f.typeURL, named...)
	}
	f.settled(f.typeURL, all...)
	f.deliver()
	for i := range 2 { // arrays that are kept grow with the first ones
		f.change(i + 1)
		f.deliver()
	}
	return f
}

func (f *fleet) ask(p *clientEnd, typeURL string, names ...string) {
	if f.delta {
		p.subscribes(typeURL, names...)
	} else {
		p.asks(typeURL, names...)
	}
}

// change gives the first resource another body.
func (f *fleet) change(version int) {
	f.now = f.now.Add(time.Second)
	f.says(f.typeURL, "n0"+f.constraints+"="+fleetBody(version))
}

// deliver has all clients take what there is, in as many responses as it takes, and accept it.
func (f *fleet) deliver() {
	for _, p := range f.ends {
		for batch := p.session.take(f.now); len(batch) > 0; batch = p.session.take(f.now) {
			f.acknowledge(p, batch)
		}
	}
}

// acknowledge is the rest of a delivery: it is written, and the client accepts it.
func (f *fleet) acknowledge(p *clientEnd, batch []*response) {
	nonces := make([]string, len(batch))
	for i, x := range batch {
		nonces[i] = p.nonceOf(x)
	}
	p.session.wrote(f.now, batch)
	for _, nonce := range nonces {
		p.nonces[f.typeURL] = nonce
		if f.delta {
			p.acks(f.typeURL)
		} else {
			p.asks(f.typeURL, f.names...)
		}
	}
}

// accept is what comes of an ACK once it is decoded and its stream-type is found.
func (f *fleet) accept(p *clientEnd, nonce []byte) {
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.delta {
		s.pair(f.now, s.types[0], nonce, nil)
	} else {
		s.verdict(f.now, s.types[0], nonce, nil)
	}
	s.mailbox.Signal()
}
