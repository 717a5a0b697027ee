package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/node"
)

// stream is one stream of a lane, on ADS or in the service of a type. The lane's goroutine writes;
// a second one reads.
type stream struct {
	// Set once by openStream.
	lane   *lane
	slot   *slot
	conn   *conn // of the slot
	sotw   bool
	wire   grpc.ClientStream
	cancel context.CancelFunc

	longest  atomic.Int64  // bytes of the longest request
	answered atomic.Bool   // a response came since write looked last
	verdicts chan struct{} // one slot: a typeState.pending is not empty
	done     chan struct{} // closed when read has returned

	// Set before read starts; nil: the stream was the lane's from the start.
	candidate *candidate
	auditor   *auditor              // set before read starts; nil: the stream is for the table
	prober    *prober               // set before read starts; nil: the stream is for the table
	types     map[string]*typeState // by type URL, of what was asked on it; guarded by lane.mu

	// Owned by read; others may read it once done is closed.
	responses int
	err       error // why the stream ended
	broken    bool  // the origin sent a message that we cannot read
	refused   bool  // what was asked may be the reason (RELAY-92)
	looped    bool  // the relays on the path form a loop (RELAY-88)

	// Owned by write.
	before  map[string]TypeStatus // state of the types at the end of the last stream
	node    bool                  // the node was sent
	owed    bool                  // something was asked that requires an answer
	askTo   time.Time             // changes are collected until then (RELAY-24)
	leaving bool                  // the stream is closed at askTo (RELAY-20)
	changed bool                  // the table has something to ask
	timed   bool                  // silence is set, or not needed
	silence time.Time             // when to log that the origin is silent; zero: never
	// When a server that was unreachable must have answered; zero: no bound.
	proveBy time.Time
}

// beside reports whether the stream is a prober's or an auditor's: nothing on it is applied.
func (s *stream) beside() bool { return s.auditor != nil || s.prober != nil }

// ending says how a stream ended.
type ending struct {
	reopen   bool    // by us: the next stream has to ask something else (RELAY-20)
	unwanted bool    // by us: the lane has no subscriptions
	broken   bool    // the origin sent what cannot be read
	refused  bool    // what was asked may be the reason (RELAY-92)
	accused  bool    // types are suspected of it
	next     *stream // by us: the lane switches to that stream
	err      error   // from the origin or the network
}

// miss returns what the end of a stream without a response means for the server.
func (e *ending) miss() miss {
	switch {
	case e.broken || e.accused: // it serves; the failure has another reason
		return noMiss
	case e.refused:
		return refusedBy
	}
	return unserved
}

// openStream opens a stream in a slot. It does not tell the table.
func openStream(ctx context.Context, l *lane, sl *slot) (*stream, error) {
	cfg, c := &l.origin.cfg, sl.conn
	ctx, cancel := context.WithCancel(ctx)
	if cfg.Tiers {
		of, _ := relay.CutTier(l.table.Group().Key())
		ctx = metadata.AppendToOutgoingContext(ctx, node.GroupKey, of)
	}
	wire, err := l.origin.newStream(ctx, cancel, c, l.table.Via(), cfg.method(l.table.OnlyType()))
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{
		lane: l, slot: sl, conn: c, sotw: cfg.SotW, wire: wire, cancel: cancel,
		verdicts: make(chan struct{}, 1), done: make(chan struct{}), types: map[string]*typeState{},
	}, nil
}

// newStream opens a stream on a connection, for clients whose streams have come through the relays
// of via. cancel ends ctx.
func (o *Origin) newStream(ctx context.Context, cancel context.CancelFunc, c *conn, via []string, method string) (grpc.ClientStream, error) {
	o.counts.Attempt()
	var options []grpc.CallOption
	if o.cfg.Compression != "" {
		options = append(options, grpc.UseCompressor(o.cfg.Compression))
	}
	return o.open(ctx, cancel, c, via, method, options...)
}

// open is newStream for a stream of any kind.
func (o *Origin) open(
	ctx context.Context, cancel context.CancelFunc, c *conn, via []string, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, err := withHeaders(ctx, &o.cfg)
	if err != nil {
		return nil, err
	}
	for _, name := range o.cfg.path(via) {
		ctx = metadata.AppendToOutgoingContext(ctx, node.ViaKey, name)
	}
	// grpc waits without a limit for a server that allows fewer streams than we want.
	slow := time.AfterFunc(connectTimeout, cancel)
	wire, err := c.grpc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, options...)
	if !slow.Stop() && err != nil {
		err = fmt.Errorf("no stream within %v; does the server allow %d on one connection? %w", connectTimeout,
			lanesPerConnection, err)
	}
	return wire, err
}

// path returns the relays that a stream presents, which has come through those of via.
func (c *Config) path(via []string) []string {
	switch {
	case c.Tiers:
		return via
	case c.Instance == "":
		return nil
	}
	return append(via, node.ViaName(c.Instance))
}

// withHeaders adds the configured headers and the token, which is read again for each stream.
func withHeaders(ctx context.Context, cfg *Config) (context.Context, error) {
	for key, value := range cfg.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	if cfg.TokenFile == "" {
		return ctx, nil
	}
	token, err := os.ReadFile(cfg.TokenFile)
	if err != nil {
		return ctx, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), nil
}

// run uses the stream until it ends, and returns when both goroutines are done with it. better
// delivers a stream to switch to. It locks the lane.
func (s *stream) run(better <-chan *stream) ending {
	l := s.lane
	l.mu.Lock()
	before := make(map[string]TypeStatus, len(l.types))
	for typeURL, t := range l.types {
		before[typeURL] = t.status
		if now := s.types[typeURL]; now != nil {
			now.status.NACKs += t.status.NACKs
			now.status.Reason = t.status.Reason
		}
	}
	s.before, l.types = before, s.types
	l.mu.Unlock()
	if s.candidate == nil {
		go s.read()
	}
	why, err := s.write(better)
	if !errors.Is(err, io.EOF) {
		s.cancel()
	} // otherwise the stream has ended, and the reader gets the reason
	<-s.done
	s.cancel()
	if !why.reopen && !why.unwanted && why.next == nil {
		why.err, why.broken, why.refused = s.err, s.broken, s.refused
		if err != nil && !errors.Is(err, io.EOF) {
			why.err = err
		}
	}
	return why
}

// codec sends messages and receives raw bytes: xds.ParseResponse reads a response in place, and a
// payload is never decoded (RELAY-10). It counts their bytes. Its name is proto, since the wire
// format is protobuf.
type codec struct{ counts *metrics.Origin }

func (codec) Name() string { return "proto" }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.([]byte); ok { // a load report, passed on unchanged
		c.counts.Bytes(metrics.ToOrigin, len(raw))
		return mem.BufferSlice{mem.SliceBuffer(raw)}, nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	c.counts.Bytes(metrics.ToOrigin, len(b))
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	raw, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive into a %T", v)
	}
	*raw = data.Materialize()
	c.counts.Bytes(metrics.FromOrigin, len(*raw))
	return nil
}
