package downstream

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
)

// BenchmarkDelivery is one change at one client, from the table to the buffers that grpc is handed, and the ACK back: what weir
// itself takes for a delivery, without the wire.
func BenchmarkDelivery(b *testing.B) {
	for _, kind := range []string{"delta", "SotW", "EDS by name", "EDS by locator"} {
		for _, clients := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/clients=%d", kind, clients), func(b *testing.B) { benchDelivery(b, kind, clients) })
		}
	}
}

func benchDelivery(b *testing.B, kind string, clients int) {
	r := newRigOf(b, relay.OriginConfig{Name: "mesh", TP2: kind == "EDS by locator"})
	typeURL, names := cds, []string(nil)
	if kind == "EDS by name" {
		typeURL, names = eds, []string{"n1", "n2", "n3"}
	}
	located := kind == "EDS by locator"
	if located {
		typeURL = eds
	}
	ends := make([]*clientEnd, clients)
	for i := range ends {
		ends[i] = r.client(kind != "SotW")
		if located {
			if err := ends[i].locates(typeURL, "n1{env=prod}", "n2{env=prod}", "n3{env=prod}"); err != nil {
				b.Fatal(err)
			}
		} else if kind == "SotW" {
			ends[i].asks(typeURL, names...)
		} else {
			ends[i].subscribes(typeURL, names...)
		}
	}
	all := make([]string, 1000)
	for i := range all {
		all[i] = fmt.Sprintf("n%d=0", i)
	}
	if names != nil || located {
		all = []string{"n1=0", "n2=0", "n3=0"}
	}
	r.settled(typeURL, all...)
	ack := func(p *clientEnd, batch []*response) {
		p.session.wrote(r.now, batch)
		for _, x := range batch {
			p.nonces[typeURL] = x.nonce
		}
		if kind == "SotW" {
			p.asks(typeURL, names...)
		} else {
			p.acks(typeURL)
		}
	}
	for _, p := range ends {
		ack(p, p.session.take(r.now))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		b.StopTimer()
		r.now = r.now.Add(time.Second)
		r.says(typeURL, fmt.Sprintf("n1=%d", done+1))
		b.StartTimer()
		for _, p := range ends[:min(clients, b.N-done)] {
			done++
			batch := p.session.take(r.now)
			for _, x := range batch {
				if _, err := (codec{}).Marshal(x); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			ack(p, batch)
			b.StartTimer()
		}
	}
}
