package redteam

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// snapshotEvery is how often a snapshot is written in pods that have one.
const snapshotEvery = 300 * time.Millisecond

// evil is a hostile origin, and a client that has weir ask it.
type evil struct {
	origin *relaytest.Origin
	said   int
}

// withEvil is a pod with a hostile origin beside the good one, and listeners for its clients.
func withEvil(p *pod) {
	p.evil = &evil{origin: relaytest.NewOrigin(p.T, relaytest.TCP(), relaytest.OriginConfig{})}
	p.hostile(map[string]any{"grpc": map[string]any{"addresses": []any{p.evil.origin.Net().Addr()}, "dialect": "delta"}})
}

// withSnapshot is withEvil, with what is held written to disk.
func withSnapshot(p *pod) {
	withEvil(p)
	p.file.Set("cache.snapshot", map[string]any{"path": p.snapshot(), "interval": snapshotEvery.String()})
}

// snapshot is the directory of it.
func (p *pod) snapshot() string { return filepath.Join(p.dir, "snapshot") }

// hostile adds an origin to the file.
func (p *pod) hostile(origin map[string]any) {
	origin["name"], origin["group_by"] = "hostile", []any{}
	p.file["origins"] = append(p.file["origins"].([]any), origin)
	p.file.Origin()["default"] = true
	for _, rest := range []bool{false, true} {
		p.file["listeners"] = append(p.file["listeners"].([]any), map[string]any{"address": "127.0.0.1:0", "origin": "hostile", "rest": rest})
	}
}

// accomplice is a client that asks for all of a type, accepts what comes, and comes again,
// until t ends.
func accomplice(t *testing.T, address, typeURL string) {
	conn := weirtest.Connect(t, address, grpc.WithContextDialer(dialFrom(podAttacker)),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = acceptAll(ctx, conn, typeURL)
			pause(ctx, 20*time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func acceptAll(ctx context.Context, conn *grpc.ClientConn, typeURL string) error {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, sotwMethod)
	if err != nil {
		return err
	}
	req := &discovery.DiscoveryRequest{Node: bad, TypeUrl: typeURL}
	for {
		if err := s.SendMsg(encode(req)); err != nil {
			return err
		}
		var b []byte
		if err := s.RecvMsg(&b); err != nil {
			return err
		}
		req = &discovery.DiscoveryRequest{TypeUrl: typeURL, ResponseNonce: textOf(b, 5), VersionInfo: textOf(b, 1)}
	}
}

// say sends every stream of weir a response, and says what weir thinks of it.
func (p *pod) say(typeURL string, response func(version string) []byte) string {
	p.Helper()
	e := p.evil
	e.said++
	version := fmt.Sprint("evil-", e.said)
	if !weirtest.Until(late, func() bool { return len(e.asked(typeURL)) > 0 }) {
		return "weir does not ask the hostile origin"
	}
	b := response(version)
	for _, s := range e.asked(typeURL) {
		s.SendRaw(b)
	}
	answer, begin := "weir says nothing", time.Now()
	weirtest.Until(3*late, func() bool {
		for _, r := range e.origin.Requests() {
			if r.Nonce() == version && r.IsNACK() {
				answer = "NACK: " + strings.Join(strings.Fields(r.Detail().GetMessage()), " ")
				answer = answer[:min(len(answer), 150)]
				return true
			}
			if r.Nonce() == version {
				answer = "ACK"
				return true
			}
		}
		return len(e.origin.Open()) == 0
	})
	if took := time.Since(begin); took > late {
		p.Errorf("weir takes %v for a response", took)
	}
	said := fmt.Sprintf("%d KiB from the origin, %s after %.1f s", len(b)>>10, answer, time.Since(begin).Seconds())
	if strings.HasPrefix(answer, "NACK") {
		p.behave(typeURL)
	}
	return said
}

// behave sends every stream of weir a response without fault. Bad ones in a row are refused after
// ever longer pauses (RELAY-32).
func (p *pod) behave(typeURL string) {
	p.Helper()
	for _, s := range p.evil.asked(typeURL) {
		nonce := s.Respond(typeURL, fmt.Sprint("good-", p.evil.said))
		weirtest.Until(late, func() bool {
			return p.weir.Ended() || slices.ContainsFunc(s.Requests(), func(r *relaytest.Request) bool { return r.Nonce() == nonce })
		})
	}
}

// asked are the open streams that have asked for a type.
func (e *evil) asked(typeURL string) []*relaytest.Stream {
	var all []*relaytest.Stream
	for _, s := range e.origin.Open() {
		for _, r := range s.Requests() {
			if r.TypeURL() == typeURL {
				all = append(all, s)
				break
			}
		}
	}
	return all
}
