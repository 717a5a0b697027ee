package downstream

import (
	"bytes"
	"compress/gzip"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Resolver finds descriptors of types by name and by URL.
type Resolver interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// parseJSON makes the protobuf form of a request, which is what sessions read. Both spellings of
// field names are taken (REST-1), and fields of a later version are passed over, as they are in
// protobuf.
func parseJSON(text []byte, r Resolver) ([]byte, error) {
	var m discoveryv3.DiscoveryRequest
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: r}).Unmarshal(text, &m); err != nil {
		return nil, err
	}
	return proto.Marshal(&m)
}

// undescribedError is the answer where what is to be sent has no JSON (REST-9).
type undescribedError struct{ what string }

// Error is part of error.
func (e *undescribedError) Error() string {
	return e.what + ", and JSON needs the descriptor of every type in a resource: no part of the response is left out for it"
}

// GRPCStatus is what the client is told.
func (e *undescribedError) GRPCStatus() *status.Status { return status.New(codes.Internal, e.Error()) }

// typeInError finds the type in the library's words.
var typeInError = regexp.MustCompile(`unable to resolve "([^"]*)"`)

// renderJSON is the canonical JSON of an encoded response.
func renderJSON(encoded []byte, r Resolver) ([]byte, error) {
	var m discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(encoded, &m); err != nil {
		return nil, &undescribedError{fmt.Sprintf("a resource does not decode: %v", err)}
	}
	text, err := protojson.MarshalOptions{Resolver: r}.Marshal(&m)
	if err == nil {
		return text, nil
	}
	if found := typeInError.FindStringSubmatch(err.Error()); found != nil {
		return nil, &undescribedError{fmt.Sprintf("no descriptor of %s is linked in", found[1])}
	}
	return nil, &undescribedError{fmt.Sprintf("a resource has no JSON: %v", err)}
}

// renderer keeps the JSON of what was sent last. Clients of one group that lack the same are sent
// the same, and to make it takes thirty times what the look-up does (BenchmarkRenderJSON).
type renderer struct {
	resolver Resolver // set once

	mu    sync.Mutex // guards what follows; a leaf
	all   map[contentKey]*list.Element
	order list.List // of *rendered; the front was used last
	bytes int
}

// contentKey is equal for encoded responses that have the same fields in any order: that of a set
// may be another each time.
type contentKey [4]uint64

func keyOf(encoded []byte) (key contentKey) {
	f := xds.Walk(encoded)
	for b := encoded; len(b) > 0; {
		length := len(b) // of what does not decode, and has no JSON either
		if f.Next() {
			length -= f.Left()
		}
		h := sha256.Sum256(b[:length])
		for i := range key {
			key[i] += binary.LittleEndian.Uint64(h[8*i:])
		}
		b = b[length:]
	}
	return key
}

// maxRendered is how much JSON is kept.
const maxRendered = 32 << 20

// rendered is the JSON of one response.
type rendered struct {
	key   contentKey
	bytes int // counted for it

	once  sync.Once // of what follows
	plain []byte
	err   error

	zipping sync.Once // of zipped
	zipped  []byte
}

// gzipped is the JSON compressed.
func (d *rendered) gzipped() []byte {
	d.zipping.Do(func() {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		_, _ = w.Write(d.plain)
		_ = w.Close() // a buffer takes everything
		d.zipped = b.Bytes()
	})
	return d.zipped
}

// render is the JSON of a response. keep: others may be sent the same.
func (c *renderer) render(out mem.BufferSlice, keep bool) (*rendered, error) {
	d, encoded := &rendered{}, out.Materialize()
	if keep {
		d = c.entry(keyOf(encoded))
	}
	d.once.Do(func() {
		d.plain, d.err = renderJSON(encoded, c.resolver)
		if keep {
			c.account(d)
		}
	})
	return d, d.err
}

// entry is what is kept by a key, or a place for it. It locks the renderer.
func (c *renderer) entry(key contentKey) *rendered {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.all[key]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*rendered)
	}
	if c.all == nil {
		c.all = map[contentKey]*list.Element{}
	}
	d := &rendered{key: key}
	c.all[key] = c.order.PushFront(d)
	return d
}

// account counts what was made, and lets go of what was not used for longest. It locks the
// renderer.
func (c *renderer) account(d *rendered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.all[d.key]
	if e == nil || e.Value != d {
		return // let go of meanwhile
	}
	if d.err != nil { // the type may be described tomorrow
		c.order.Remove(e)
		delete(c.all, d.key)
		return
	}
	d.bytes = 2*len(d.plain) + 1024 // the compressed form and the entry as well
	for c.bytes += d.bytes; c.bytes > maxRendered; {
		last := c.order.Back()
		x := c.order.Remove(last).(*rendered)
		delete(c.all, x.key)
		c.bytes -= x.bytes
	}
}
