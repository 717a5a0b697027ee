package redteam

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/relay/relaytest"
)

// encoded are requests whose fields are as they should be, but not how they are written.
var encoded = []struct {
	name string
	body func() []byte
	thrown
}{
	// A bound of what one node has must hold for all of them together: they are merged.
	{name: "a node in 5M parts", body: func() []byte { return deltaOf("node", wrap([]protowire.Number{9}, nil), 5_000_000) }},
	{name: "metadata in 3M parts", body: func() []byte {
		return deltaOf("node", wrap([]protowire.Number{3, 1}, nil), 3_000_000)
	}},
	{name: "error details in 5M parts", body: func() []byte { return deltaOf("error_detail", wrap([]protowire.Number{3}, nil), 5_000_000) }},
	{name: "one key 5M times", body: func() []byte { return deltaOf("initial_resource_versions", text(1, "k"), 5_000_000) }},
	{name: "unknown fields", body: func() []byte {
		return deltaOf("", bytes.Repeat(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 0), 8_000_000), 1)
	}},
	{name: "unknown fields of a node", body: func() []byte {
		return deltaOf("node", bytes.Repeat(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 0), 8_000_000), 1)
	}},
	{name: "groups in groups", body: func() []byte { return deltaOf("", groups(10_000_000, true), 1) }},
	{name: "groups in groups of a node", body: func() []byte { return deltaOf("node", groups(10_000_000, true), 1) }},
	{name: "groups without an end", body: func() []byte { return deltaOf("", groups(30_000_000, false), 1) }},
	{name: "lengths in ten bytes", body: func() []byte {
		tag := protowire.AppendTag(nil, 8, protowire.BytesType)
		return deltaOf("", bytes.Repeat(append(tag, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0), 2_500_000), 1)
	}},
	{name: "tags in five bytes", body: func() []byte {
		return deltaOf("", bytes.Repeat([]byte{0xc2, 0x80, 0x80, 0x80, 0, 0}, 5_000_000), 1)
	}},
	{name: "a type of 20 MB in error_detail", body: func() []byte {
		return deltaOf("error_detail", field(3, text(1, strings.Repeat("t/", 10<<20))), 1)
	}},
	{name: "a node id of 20 MB", body: func() []byte { return deltaOf("node", text(1, strings.Repeat("n", 20<<20)), 1) }},
	{name: "a type of 20 MB", body: func() []byte { return deltaOf("", text(2, strings.Repeat("t", 20<<20)), 1) }},
	{name: "a nonce of 20 MB", body: func() []byte { return deltaOf("", text(6, strings.Repeat("n", 20<<20)), 1) }},
	{name: "structs in structs of a node", body: func() []byte {
		return deltaOf("node", field(3, fill(20<<20, nil, []protowire.Number{1, 2, 5})), 1)
	}},
	{name: "lists in lists of a node", body: func() []byte {
		return deltaOf("node", field(3, wrap([]protowire.Number{1, 2}, fill(20<<20, nil, []protowire.Number{6, 1}))), 1)
	}},
	{name: "any in any in error_detail", body: func() []byte { return deltaOf("error_detail", field(3, anyInAny(400_000)), 1) }},
	// Each is below what has to wait for its turn.
	{name: "100 short ones at once", body: func() []byte { return deltaOf("resource_locators_subscribe", nil, 120_000) }, thrown: thrown{streams: 100}},
	{name: "100 short nodes at once", body: func() []byte { return deltaOf("node", bytes.Repeat(field(9, nil), 120_000), 1) }, thrown: thrown{streams: 100}},
	{name: "100 short ones at once, in plain", body: func() []byte { return deltaOf("resource_locators_subscribe", nil, 30_000) }, thrown: thrown{streams: 100, plain: true}},
	{name: "100 short ones at once, of sotw names", body: func() []byte {
		return append(encode(methods[sotwMethod]), many((*discovery.DiscoveryRequest)(nil).ProtoReflect().Descriptor(), "resource_names", 120_000, nil)...)
	}, thrown: thrown{streams: 100, method: sotwMethod}},
	{name: "again and again on a stream", body: func() []byte { return deltaOf("resource_locators_subscribe", nil, 120_000) }, thrown: thrown{streams: 10, times: 100}},
}

// deltaOf is a delta request that is decent, and then has an element in one of its fields n times;
// path empty: the element is in the request itself.
func deltaOf(path string, element []byte, n int) []byte {
	d := (*discovery.DeltaDiscoveryRequest)(nil).ProtoReflect().Descriptor()
	b := encode(methods[deltaMethod])
	if path == "" {
		return append(b, bytes.Repeat(element, n)...)
	}
	return append(b, bytes.Repeat(within(d, path, element), n)...)
}

// groups are so many of them, each in the one before.
func groups(n int, closed bool) []byte {
	b := bytes.Repeat(protowire.AppendTag(nil, 15, protowire.StartGroupType), n)
	if closed {
		b = append(b, bytes.Repeat(protowire.AppendTag(nil, 15, protowire.EndGroupType), n)...)
	}
	return b
}

// encodedSieges are these requests, and what is done with frames.
func encodedSieges() []siege {
	var all []siege
	for _, e := range encoded {
		name := "request: " + e.name
		attacks[name] = func(ctx context.Context, a *attacker) error {
			t := e.thrown
			t.body = e.body()
			if t.method == "" {
				t.method = deltaMethod
			}
			return a.throw(ctx, everybody, t)
		}
		all = append(all, siege{name: name, play: by(name)})
	}
	for _, f := range []struct {
		name string
		run  func(context.Context, *attacker) error
	}{
		{"frames: a message byte by byte", byteByByte},
		{"frames: empty ones", emptyFrames},
		{"frames: messages without an end", unfinished},
		{"frames: 100 long messages at once", longMessages},
		{"frames: a million empty messages", emptyMessages},
		{"frames: members of gzip", members},
	} {
		attacks[f.name] = f.run
		all = append(all, siege{name: f.name, play: by(f.name)})
	}
	return all
}

// prefix is that of a message of a length.
func prefix(compressed byte, length int) []byte {
	return binary.BigEndian.AppendUint32([]byte{compressed}, uint32(length))
}

// byteByByte has a message of 50 KB in as many frames, which is within the first window.
func byteByByte(ctx context.Context, a *attacker) error {
	body := many((*discovery.DiscoveryRequest)(nil).ProtoReflect().Descriptor(), "resource_locators", 25_000, nil)
	return a.raws(ctx, 8, func(c *raw) error {
		id, err := c.call(c.headers())
		for _, b := range append(prefix(0, len(body)), body...) {
			if err != nil {
				return err
			}
			err = c.framer.WriteData(id, false, []byte{b})
		}
		a.add("messages", 1)
		if c.next > 1_000 {
			return io.EOF
		}
		return err
	})
}

// emptyFrames are of data without any, on one stream.
func emptyFrames(ctx context.Context, a *attacker) error {
	return a.raws(ctx, 4, func(c *raw) error {
		if c.next == 1 {
			if _, err := c.call(c.headers()); err != nil {
				return err
			}
		}
		for range 1_000 {
			if err := c.framer.WriteData(1, false, nil); err != nil {
				return err
			}
		}
		a.add("frames", 1_000)
		return nil
	})
}

// unfinished say that a message is as long as may be, and send the beginning, on many streams.
func unfinished(ctx context.Context, a *attacker) error {
	return a.raws(ctx, 20, func(c *raw) error {
		for range 100 {
			id, err := c.call(c.headers())
			if err == nil {
				a.add("messages", 1)
				err = c.framer.WriteData(id, false, append(prefix(0, 32<<20), make([]byte, 600)...))
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-c.gone:
		}
		return io.EOF
	})
}

// longMessages are sent in full on many streams at once.
func longMessages(ctx context.Context, a *attacker) error {
	body := deltaOf("node", text(1, strings.Repeat("n", 30<<20)), 1)
	return a.throw(ctx, everybody, thrown{method: deltaMethod, body: body, plain: true, streams: 50})
}

// emptyMessages are on one stream, as fast as they are read.
func emptyMessages(ctx context.Context, a *attacker) error {
	return a.throw(ctx, admitted, thrown{method: deltaMethod, body: encode(&discovery.DeltaDiscoveryRequest{TypeUrl: relaytest.ClusterType}), plain: true, streams: 4, times: 1_000_000})
}

// members are a million streams of gzip in one another's place, all empty.
func members(ctx context.Context, a *attacker) error {
	body := bytes.Repeat(zipped(nil, 9), 1_000_000)
	return a.raws(ctx, 2, func(c *raw) error {
		id, err := c.call(c.headers("grpc-encoding", "gzip"))
		if err == nil {
			part := append(prefix(1, 60<<10), body[:60<<10]...) // within the first window
			for err == nil && len(part) > 0 {
				n := min(16<<10, len(part))
				err = c.framer.WriteData(id, false, part[:n])
				part = part[n:]
			}
			a.add("messages", 1)
		}
		if c.next > 200 {
			return fmt.Errorf("enough of one connection: %w", io.EOF)
		}
		return err
	})
}
