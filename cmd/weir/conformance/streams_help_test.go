package conformance

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// perDialect runs a case in either dialect of the client.
func perDialect(run func(t *testing.T, d relaytest.Dialect)) func(*testing.T) {
	return func(t *testing.T) {
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			t.Run(string(d), func(t *testing.T) { run(t, d) })
		}
	}
}

// patiently lets an unanswered response hold back the next for longer than any expectation waits.
func patiently(c weirtest.Config) { c.Set("timing.order_hold", "5m") }

// hastily is the opposite: who does not answer is sent the next soon.
func hastily(c weirtest.Config) { c.Set("timing.order_hold", "200ms") }

func cdsAt(name string, version int) relaytest.Resource {
	return relaytest.Resource{
		Name: name, Version: string(rune('0' + version)), Body: relaytest.Cluster(name, time.Duration(version)*time.Second),
	}
}

func edsAt(name string, version int) relaytest.Resource {
	return relaytest.Resource{
		Name: name, Version: string(rune('0' + version)), Body: relaytest.Endpoints(name, "10.0.0."+string(rune('0'+version))+":80"),
	}
}

// manual is a client that leaves the ACKs to the test.
func (w *world) manual(d relaytest.Dialect) *relaytest.Client {
	w.t.Helper()
	return w.clientWith(relaytest.ClientConfig{Dialect: d, ManualACK: true})
}

// wish is a request written by hand.
type wish struct {
	typeURL, version, nonce, refusal string
	names                            []string // SotW: all; delta: subscribed
	node                             *corev3.Node
}

func (r wish) message(d relaytest.Dialect) proto.Message {
	var detail *status.Status
	if r.refusal != "" {
		detail = &status.Status{Code: 3, Message: r.refusal}
	}
	if d == relaytest.SotW {
		return &discovery.DiscoveryRequest{
			TypeUrl: r.typeURL, VersionInfo: r.version, ResponseNonce: r.nonce, ErrorDetail: detail, ResourceNames: r.names, Node: r.node,
		}
	}
	return &discovery.DeltaDiscoveryRequest{
		TypeUrl: r.typeURL, ResponseNonce: r.nonce, ErrorDetail: detail, ResourceNamesSubscribe: r.names, Node: r.node,
	}
}

// standing is how a type of the only client stands, as the admin port tells it.
type standing struct {
	TypeURL       string    `json:"type_url"`
	AckedVersion  string    `json:"acked_version"`
	Responses     int       `json:"responses"`
	InFlightSince time.Time `json:"in_flight_since"`
	NACKs         int       `json:"nacks"`
}

// awaitStanding waits until how a type of the only client stands is as wanted.
func (w *world) awaitStanding(typeURL, sentence string, wanted func(standing) bool) {
	w.t.Helper()
	var last string
	met := func() bool {
		body, err := weirtest.Fetch("http://" + w.weir.Admin + "/clients")
		if err != nil {
			w.t.Fatal(err)
		}
		var page struct {
			Clients []struct {
				Types []standing `json:"types"`
			} `json:"clients"`
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			w.t.Fatal(err)
		}
		last = body
		if len(page.Clients) != 1 {
			return false
		}
		for _, s := range page.Clients[0].Types {
			if s.TypeURL == typeURL {
				return wanted(s)
			}
		}
		return false
	}
	if !weirtest.Until(weirtest.Patience, met) {
		w.t.Fatalf("%s; weir says: %s", sentence, last)
	}
}
