package downstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// request is what a client's messages are read into, one after the other. It keeps the error, so
// that a message that does not decode ends the stream with INVALID_ARGUMENT, and not as an internal
// error (ERR-6). While it waits for the next message it keeps nothing of the last.
type request struct {
	turn bool // it has the turn of long compressed messages, until the message is applied

	// Set once by newRequest.
	delta  bool            // next to turn, which keeps the struct small
	ctx    context.Context // the stream's, to wait with
	intake *intake         // the intake that it may have to wait for; nil: messages are decoded at once
	pace   *namePace       // its peer's; nil: there is none
	from   *peerKey        // its peer, which the intake takes turns by
	waits  *waitCell       // what the reader waits for; nil: nobody asks

	set   *settings // in force when the last message was applied
	notes []note    // to be logged, from applying the message

	size  int
	wire  int   // what it had on the wire, with what gRPC puts before it
	cost  int   // about what it needs in memory once it is decoded, in bytes; at least size
	parts int64 // its share of the intake, until the message is applied
	err   error
	*content
}

// content is a request of either dialect, read without the generated types. Except for what is
// decoded, it is in grpc's buffer and valid until done, so only copies may be kept.
type content struct {
	buffer                  mem.Buffer
	typeURL, version, nonce []byte
	node                    run
	names, unsubscribe      run               // in delta, names are those subscribed
	initial                 run               // its bytes are those of the names
	versionBytes            int               // in initial
	detail                  *rpcstatus.Status // without details, which nothing reads; nil: there is none
	asked, left             run               // encoded locators
	locators, leaving       []*discoveryv3.ResourceLocator
}

// contents are lent to requests that have a message.
var contents = sync.Pool{New: func() any { return &content{} }}

// errTooLarge: the request is not read (ERR-7).
var errTooLarge = errors.New("the request is too large")

// longRequest is the size from which a request may have to wait for the intake, in bytes.
const longRequest = 4 << 10

// read decodes a message. If something is wrong with it, err is set.
func (r *request) read(data mem.BufferSlice) {
	r.size, r.cost, r.parts, r.err = data.Len(), data.Len(), 0, nil
	r.wire = r.size + leastData
	inflates := isGzip(data) && r.intake != nil
	if inflates || r.size >= longRequest {
		defer r.waits.end()
		r.waits.begin(metrics.WaitIntake, time.Now(), time.Time{})
	}
	if inflates {
		if r.pace != nil && r.pace.settled(r.ctx, r) != nil {
			r.err = errNotEntered
			return
		}
		var inflated mem.BufferSlice
		if inflated, r.turn, r.err = r.intake.inflate(r.ctx, r.from, data, r.most()); r.err != nil {
			r.size = r.most() + 1 // reported only if the size is the reason
			return
		}
		defer inflated.Free()
		data, r.size, r.cost = inflated, inflated.Len(), inflated.Len()
	}
	if r.size > r.most() {
		r.err = errTooLarge
		return
	}
	if r.err = r.takeIn(); r.err != nil {
		return
	}
	r.content = contents.Get().(*content)
	r.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
	if r.err = r.scan(r.buffer.ReadOnlyData(), r.delta); r.err != nil {
		return
	}
	if r.cost, r.err = r.content.cost(maxDecoded(r.most())); r.err == nil && r.cost > r.size {
		r.err = r.takeIn()
	}
	if r.err == nil {
		r.err = r.decodeLocators()
	}
}

// takeIn waits until the intake has room for what the request needs.
func (r *request) takeIn() (err error) {
	if r.intake == nil {
		return nil
	}
	r.intake.leave(r.parts)
	r.parts, err = r.intake.enter(r.ctx, r.from, r.cost)
	return err
}

// decodedShare is how many times request_bytes a request may need in memory once it is decoded. The
// first request of a client with many names needs three times its size.
const decodedShare = 4

// maxDecoded bounds the memory for a decoded request, by request_bytes; 0: there is no bound.
func maxDecoded(most int) int {
	if most > math.MaxInt/decodedShare {
		return 0
	}
	return decodedShare * most
}

// most is how many bytes a message may have.
func (r *request) most() int { return r.set.limits.RequestBytes }

// leave returns the request's share of the intake, once the message is applied.
func (r *request) leave() {
	r.intake.leave(r.parts)
	r.parts = 0
	r.leaveTurn()
}

// leaveTurn lets other messages be inflated.
func (r *request) leaveTurn() {
	r.intake.leaveTurn(r.turn)
	r.turn = false
}

// done releases the message.
func (r *request) done() {
	c := r.content
	if c == nil {
		return
	}
	c.buffer.Free()
	*c = content{}
	contents.Put(c)
	r.content, r.notes = nil, nil
}

// field is the meaning of a request's field, whatever its number is in the dialect.
type field uint8

const (
	unknownField field = iota
	versionField
	nodeField
	namesField
	typeURLField
	nonceField
	detailField
	locatorsField
	unsubscribeField
	initialField
	leavingField
)

var (
	sotwRequest = [...]field{
		1: versionField, 2: nodeField, 3: namesField, 4: typeURLField, 5: nonceField, 6: detailField, 7: locatorsField,
	}
	deltaRequest = [...]field{
		1: nodeField, 2: typeURLField, 3: namesField, 4: unsubscribeField, 5: initialField, 6: nonceField, 7: detailField,
		8: locatorsField, 9: leavingField,
	}
)

// errUTF8 is a reason why a request does not decode, besides those of xds.Fields.
var errUTF8 = errors.New("a string is not UTF-8")

// scan finds the fields of an encoded message, and accepts what the protobuf library would
// (FuzzRequest). Nothing that the client repeats is decoded yet.
func (c *content) scan(b []byte, delta bool) error {
	fields := sotwRequest[:]
	if delta {
		fields = deltaRequest[:]
	}
	f, at := xds.Walk(b), 0
	for f.Next() {
		next := len(b) - f.Left()
		if n := int(f.Number); f.Bytes != nil && n < len(fields) {
			if err := c.take(fields[n], b, at, next, f.Bytes); err != nil {
				return err
			}
		}
		at = next
	}
	return f.Err()
}

// take applies the field at b[at:next].
func (c *content) take(f field, b []byte, at, next int, value []byte) error {
	switch f {
	case versionField:
		return takeString(&c.version, value)
	case typeURLField:
		return takeString(&c.typeURL, value)
	case nonceField:
		return takeString(&c.nonce, value)
	case nodeField:
		c.node.add(b, at, next, len(value)) // looked at only if it is not the last one again
	case namesField:
		c.names.add(b, at, next, len(value))
		return checkString(value)
	case unsubscribeField:
		c.unsubscribe.add(b, at, next, len(value))
		return checkString(value)
	case initialField:
		name, version, err := entryOf(value)
		c.initial.add(b, at, next, len(name))
		c.versionBytes += len(version)
		return err
	case detailField:
		if c.detail == nil {
			c.detail = &rpcstatus.Status{}
		}
		return takeStatus(c.detail, value)
	case locatorsField:
		c.asked.add(b, at, next, len(value))
	case leavingField:
		c.left.add(b, at, next, len(value))
	}
	return nil
}

// takeStatus reads a google.rpc.Status without its details. They are only checked: a client may put
// millions of them into a request.
func takeStatus(to *rpcstatus.Status, b []byte) error {
	f := xds.Walk(b)
	for f.Next() {
		switch {
		case f.IsVarint(1):
			to.Code = int32(f.Value) //nolint:gosec // as the library cuts it
		case f.IsBytes(2):
			if !utf8.Valid(f.Bytes) {
				return errUTF8
			}
			to.Message = string(f.Bytes)
		case f.IsBytes(3):
			if _, _, err := xds.AnyParts(f.Bytes); err != nil {
				return err
			}
		}
	}
	return f.Err()
}

// What elements of a request need beside their text, in bytes of memory.
const (
	nameCost    = 2 * 16 // a string, in a list that grows
	versionCost = 96     // an entry of a map of strings
)

// errDecoded: the request is not decoded (ERR-7). Its text says why.
var errDecoded = errors.New("the request needs too much memory")

// locatorType is the type of a locator.
var locatorType = (&discoveryv3.ResourceLocator{}).ProtoReflect().Type()

// cost returns about what the content needs in memory once it is decoded, in bytes, but for the
// node (readNode). The error is errDecoded if that is more than most; 0: it may be any number.
func (c *content) cost(most int) (bytes int, err error) {
	bytes = c.names.bytes + c.unsubscribe.bytes + nameCost*(c.names.n+c.unsubscribe.n) +
		c.initial.bytes + c.versionBytes + versionCost*c.initial.n + len(c.detail.GetMessage())
	for _, r := range []*run{&c.asked, &c.left} {
		for value := range r.values() {
			n, err := xds.Known.Message(locatorType, value, xds.Bound{Memory: most})
			if bytes += n; err != nil || most > 0 && bytes > most {
				return bytes, errDecoded
			}
		}
	}
	if most > 0 && bytes > most {
		return bytes, errDecoded
	}
	return bytes, nil
}

// decodeLocators decodes the locators, once it is known what they cost.
func (c *content) decodeLocators() (err error) {
	if c.locators, err = locatorsOf(&c.asked); err == nil {
		c.leaving, err = locatorsOf(&c.left)
	}
	return err
}

func locatorsOf(r *run) (all []*discoveryv3.ResourceLocator, err error) {
	if r.n == 0 {
		return nil, nil
	}
	all = make([]*discoveryv3.ResourceLocator, 0, r.n)
	for value := range r.values() {
		l := &discoveryv3.ResourceLocator{}
		if err := merge(value, l); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func checkString(value []byte) error {
	if !utf8.Valid(value) {
		return errUTF8
	}
	return nil
}

func takeString(to *[]byte, value []byte) error {
	*to = value
	return checkString(value)
}

// merge reads a message field of the request. The request may have it several times.
func merge(value []byte, m proto.Message) error {
	return proto.UnmarshalOptions{Merge: true, RecursionLimit: protowire.DefaultRecursionLimit - 1}.Unmarshal(value, m)
}

// entryOf reads an entry of initial_resource_versions.
func entryOf(b []byte) (name, version []byte, err error) {
	f := xds.Walk(b)
	for f.Next() {
		switch {
		case f.IsBytes(1):
			name = f.Bytes
		case f.IsBytes(2):
			version = f.Bytes
		default:
			continue
		}
		if !utf8.Valid(f.Bytes) {
			return nil, nil, errUTF8
		}
	}
	return name, version, f.Err()
}

// The node is kept for as long as its group or its stream, so it has bounds of its own. Control
// planes have their clients send 20 KB at most.
const (
	maxNode       = 1 << 20 // bytes on the wire
	maxNodeMemory = 2 << 20 // bytes of memory
)

// readNode decodes the node; nil: there is none. memory is about what it needs, in bytes.
func (c *content) readNode() (node *corev3.Node, memory int, err error) {
	if c.node.n == 0 {
		return nil, 0, nil
	}
	if memory, err = measureNode(c.node.values(), len(c.node.encoded)); err != nil {
		return nil, 0, err
	}
	node = &corev3.Node{}
	for value := range c.node.values() {
		if err := merge(value, node); err != nil {
			return nil, 0, err
		}
	}
	return node, memory, nil
}

// nodeType is the type of a node.
var nodeType = (&corev3.Node{}).ProtoReflect().Type()

// measureNode returns about how much memory a node needs, in bytes. values are its occurrences in a
// message, which have so many bytes together.
func measureNode(values iter.Seq[[]byte], size int) (memory int, err error) {
	if size > maxNode {
		return 0, fmt.Errorf("node: it has %d bytes, and may have %d", size, maxNode)
	}
	for value := range values {
		n, err := xds.Known.Message(nodeType, value, xds.Bound{Memory: maxNodeMemory})
		if err != nil {
			return 0, fmt.Errorf("node: %w", err)
		}
		if memory += n; memory > maxNodeMemory {
			return 0, fmt.Errorf("node: decoded it needs more than %d bytes of memory", maxNodeMemory)
		}
	}
	return memory, nil
}

// versions decodes initial_resource_versions.
func (c *content) versions() map[string]string {
	if c.initial.n == 0 {
		return nil
	}
	var names, versions copier // two, since names are kept for longer
	names.Grow(c.initial.bytes)
	versions.Grow(c.versionBytes)
	all := make(map[string]string, min(c.initial.n, 1+c.initial.bytes)) // one version may be empty
	for value := range c.initial.values() {
		name, version, _ := entryOf(value)
		all[names.copy(name)] = versions.copy(version)
	}
	return all
}

// run is a repeated field of a message, with all its occurrences. If they follow one another, as
// they nearly always do, it is the bytes of the message itself, and otherwise a copy.
type run struct {
	encoded []byte
	end     int // where it ends in the message; unused for a copy
	n       int
	bytes   int // of the values
}

// add adds the occurrence at b[at:next] of the message.
func (r *run) add(b []byte, at, next, value int) {
	switch {
	case r.n == 0:
		r.encoded, r.end = b[at:next:next], next
	case r.end == at:
		r.encoded, r.end = b[at-len(r.encoded):next:next], next
	default:
		r.encoded, r.end = append(r.encoded, b[at:next]...), -1
	}
	r.n++
	r.bytes += value
}

// values are the occurrences, in order.
func (r *run) values() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for f := xds.Walk(r.encoded); f.Next(); { // it was checked before, so there is no error
			if !yield(f.Bytes) {
				return
			}
		}
	}
}

// strings are copies of the values. They share one block of memory, which lasts as long as one of
// them is used. A caller that keeps a few of many for long makes copies of its own.
func (r *run) strings() []string {
	if r.n == 0 {
		return nil
	}
	all := copier{}
	all.Grow(r.bytes)
	list := make([]string, 0, r.n)
	for value := range r.values() {
		list = append(list, all.copy(value))
	}
	return list
}

// copier makes strings that share one block of memory, if its Grow was called before with their
// size.
type copier struct{ strings.Builder }

func (c *copier) copy(b []byte) string {
	from := c.Len()
	c.Write(b)
	return c.String()[from:]
}

// undecoded is the status that a stream ends with after a message that is no request.
func undecoded(err error) error {
	return status.Errorf(codes.InvalidArgument, "the request does not decode: %v", err)
}
