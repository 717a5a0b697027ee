package downstream

import (
	"crypto/x509"
	"net/url"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream/identity"

	"google.golang.org/grpc/credentials"
)

// TestNacking: a type is nacking from the refusal of a response to the next one that the client
// accepts, and no other type of the stream with it.
func TestNacking(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r := newRig(t)
		p := r.client(delta)
		asks, acks := p.subscribes, func() { p.acks(cds) }
		if !delta {
			asks, acks = p.asks, func() { p.asks(cds) }
		}
		asks(cds)
		r.settled(cds, "a=1", "b=1")
		p.gets("the set", "cds a=1 b=1")
		if s := p.of(cds); s.Nacking {
			t.Errorf("nothing was refused yet: %+v", s)
		}
		p.refuses(cds, "no")
		if s := p.of(cds); !s.Nacking {
			t.Errorf("not nacking after a NACK: %+v", s)
		}
		asks(eds, "a")
		if s := p.of(eds); s.Nacking {
			t.Errorf("the other type is nacking: %+v", s)
		}
		r.says(cds, "a=2")
		p.writes()
		if s := p.of(cds); !s.Nacking {
			t.Errorf("what is only sent ended it: %+v", s)
		}
		acks()
		if s := p.of(cds); s.Nacking || s.Nacks != 1 {
			t.Errorf("the client has accepted the next response: %+v", s)
		}
	}
}

// TestStatusHasIdentity: the one of the client's verified certificate, whatever the node says.
func TestStatusHasIdentity(t *testing.T) {
	const spiffe = "spiffe://corp/ns/shop/sa/web"
	u, err := url.Parse(spiffe)
	if err != nil {
		t.Fatal(err)
	}
	info := credentials.TLSInfo{}
	info.State.VerifiedChains = [][]*x509.Certificate{{{URIs: []*url.URL{u}}}}
	r := newRig(t)
	p := r.client(true)
	if got := p.session.status(time.Now()).Identity; got != identity.Anonymous {
		t.Errorf("identity %q of a client whose connection shows none", got)
	}
	p.session.from = callerFrom(nil, nil, info, &connection{id: 1})
	if got := p.session.status(time.Now()).Identity; got != spiffe {
		t.Errorf("identity %q", got)
	}
}
