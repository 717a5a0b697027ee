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

	"github.com/weir-xds/weir/relay/node"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
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
	verdicts chan struct{} // one slot: typeState.pending has something
	done     chan struct{} // closed when read has ended

	// set before read starts; nil: the stream was the lane's from the start
	candidate *candidate
	auditor   *auditor              // set before read starts; nil: the stream is for the table
	prober    *prober               // the same
	types     map[string]*typeState // asked on it; by type URL. Guarded by lane.mu

	// Owned by read; anybody may look once done is closed.
	responses int
	err       error // what ended the stream
	broken    bool  // it was a message that we cannot read
	refused   bool  // it may be due to what was asked (RELAY-92)
	looped    bool  // the relays on the way form a loop (RELAY-88)

	// Owned by write.
	before  map[string]TypeStatus // how the types stood on the stream before
	node    bool                  // was sent
	owed    bool                  // something was asked that must be answered
	askTo   time.Time             // changes are collected until then (RELAY-24)
	short   bool                  // what was asked last was short
	leaving bool                  // the stream is to be closed when askTo has passed (RELAY-20)
	changed bool                  // the table has something to ask
	timed   bool                  // silence was set, or need not be
	silence time.Time             // when to speak of the silence; zero: not
	// when a server that was unreachable has to have answered; zero: it need not
	proveBy time.Time
}

// beside reports whether the stream is not for the table.
func (s *stream) beside() bool { return s.auditor != nil || s.prober != nil }

// ending says how a stream ended.
type ending struct {
	reopen   bool    // by us: a new stream is to carry something else (RELAY-20)
	unwanted bool    // by us: nothing is wanted any more
	broken   bool    // the origin sent what cannot be read
	refused  bool    // it may be due to what was asked (RELAY-92)
	accused  bool    // types are suspect of it
	next     *stream // by us: the lane goes over to that one
	err      error   // by the origin or the network
}

// miss is what the end of a stream without a response says of the server.
func (e *ending) miss() miss {
	switch {
	case e.broken || e.accused: // it serves, and something else is wrong
		return noMiss
	case e.refused:
		return refusedBy
	}
	return unserved
}

// openStream opens a stream in a slot. The table is not told yet.
func openStream(ctx context.Context, l *lane, sl *slot) (*stream, error) {
	cfg, c := &l.origin.cfg, sl.conn
	ctx, cancel := context.WithCancel(ctx)
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
	cfg := &o.cfg
	ctx, err := withHeaders(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Instance != "" {
		for _, name := range append(via, node.ViaName(cfg.Instance)) {
			ctx = metadata.AppendToOutgoingContext(ctx, node.ViaKey, name)
		}
	}
	var options []grpc.CallOption
	if cfg.Compression != "" {
		options = append(options, grpc.UseCompressor(cfg.Compression))
	}
	// The library waits, without a word, for a server that allows fewer streams than we want.
	slow := time.AfterFunc(connectTimeout, cancel)
	wire, err := c.grpc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, options...)
	if !slow.Stop() && err != nil {
		err = fmt.Errorf("no stream within %v; does the server allow %d on one connection? %w", connectTimeout,
			lanesPerConnection, err)
	}
	return wire, err
}

// withHeaders adds the configured headers and the token, which may have changed since the last
// stream.
func withHeaders(ctx context.Context, cfg *Config) (context.Context, error) {
	for key, value := range cfg.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	if cfg.TokenFile == "" {
		return ctx, nil
	}
	token, err := os.ReadFile(cfg.TokenFile)
	if err != nil {
		return ctx, fmt.Errorf("token_file: %w", err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), nil
}

// run speaks on the stream until it ends, and returns when both sides have. better brings the
// stream to go over to. It locks the lane.
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
	} // else the stream is over and the reader is about to learn why
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
