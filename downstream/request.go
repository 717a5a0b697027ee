package downstream

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/weir-xds/weir/metrics"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
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
	detail                  *rpcstatus.Status // nil: there is none
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
	r.size, r.parts, r.err = data.Len(), 0, nil
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
		data, r.size = inflated, inflated.Len()
	}
	if r.size > r.most() {
		r.err = errTooLarge
		return
	}
	if r.intake != nil {
		if r.parts, r.err = r.intake.enter(r.ctx, r.from, r.size); r.err != nil {
			return
		}
	}
	r.content = contents.Get().(*content)
	r.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
	r.err = r.decode(r.buffer.ReadOnlyData(), r.delta)
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

// decode reads an encoded message as the protobuf library would (FuzzRequest).
func (c *content) decode(b []byte, delta bool) error {
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
		return merge(value, c.detail)
	case locatorsField:
		return takeLocator(&c.locators, value)
	case leavingField:
		return takeLocator(&c.leaving, value)
	}
	return nil
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

func takeLocator(to *[]*discoveryv3.ResourceLocator, value []byte) error {
	l := &discoveryv3.ResourceLocator{}
	*to = append(*to, l)
	return merge(value, l)
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

// readNode decodes the node; nil: there is none.
func (c *content) readNode() (*corev3.Node, error) {
	if c.node.n == 0 {
		return nil, nil
	}
	node := &corev3.Node{}
	for value := range c.node.values() {
		if err := merge(value, node); err != nil {
			return nil, err
		}
	}
	return node, nil
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
