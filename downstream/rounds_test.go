package downstream

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/relay"
)

// TestTurnsGoRoundByPeer: a peer with many long compressed requests has one turn, and then all
// others that wait have one, before its next; of its own, they are taken in in the order in which
// they came.
func TestTurnsGoRoundByPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		in, wire := newIntake(r.table), zipped(t, "\x1a"+varint(freeInflation+1)+strings.Repeat("x", freeInflation+1))
		greedy, other := addressOf("10.0.0.1"), addressOf("10.0.0.2")
		var order []string
		read := func(ctx context.Context, who string, from *peerKey) *request {
			req := newSession(r.set, true, r.now, relay.NewSubscriber()).newRequest()
			req.ctx, req.intake, req.from = ctx, in, from
			if err := (codec{in}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, req); err != nil {
				t.Error(err)
			}
			if req.err == nil {
				order = append(order, who)
			}
			return req
		}
		first := read(t.Context(), "greedy", greedy)
		gone, cancel := context.WithCancel(t.Context())
		for _, w := range []struct {
			ctx  context.Context
			who  string
			from *peerKey
		}{
			{t.Context(), "greedy again", greedy},
			{gone, "gone", greedy},
			{t.Context(), "greedy thrice", greedy},
			{t.Context(), "other", other},
			{t.Context(), "nobody", nil},
		} {
			go func() {
				req := read(w.ctx, w.who, w.from)
				req.done()
				req.leave()
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		first.done()
		first.leave()
		synctest.Wait()
		if want := []string{"greedy", "greedy again", "other", "nobody", "greedy thrice"}; !slices.Equal(order, want) {
			t.Errorf("the turns are %q, want %q", order, want)
		}
		if in.inflating.join(nil, 1) != nil || in.inflating.peers.len() != 0 {
			t.Error("the turn is not given back")
		}
	})
}

func addressOf(ip string) *peerKey {
	return &peerKey{address: netip.PrefixFrom(netip.MustParseAddr(ip), 32)}
}

// varint is a length as protobuf has it.
func varint(n int) string { return string(protowire.AppendVarint(nil, uint64(n))) }
