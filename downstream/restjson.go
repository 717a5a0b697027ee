package downstream

import (
	"bytes"
	"compress/gzip"
	"container/list"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// Resolver finds descriptors of types by name and by URL.
type Resolver interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// parseJSON converts a request to protobuf, which is what sessions read. It accepts both spellings
// of field names (REST-1) and ignores unknown fields, as protobuf does. The text passed boundJSON.
func parseJSON(text []byte, r Resolver) ([]byte, error) {
	var m discoveryv3.DiscoveryRequest
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: r}).Unmarshal(text, &m); err != nil {
		return nil, errors.New(clip(err.Error(), maxNackText)) // it may quote a long value
	}
	return proto.Marshal(&m)
}

// undescribedError says that resources of a response have no JSON form, nearly always for lack of a
// descriptor (REST-9).
type undescribedError struct {
	what    string
	without string // ends the version of the response without them (partial)
}

// Error implements error.
func (e *undescribedError) Error() string { return e.what }

// GRPCStatus returns the status that the client is sent.
func (e *undescribedError) GRPCStatus() *status.Status { return status.New(codes.Internal, e.Error()) }

// renderMemory is how much memory, in bytes, one resource may need to be rendered. Resources are
// decoded one after the other, with what is in their Anys.
const renderMemory = 64 << 20

// json returns the canonical JSON of an encoded response. If some resources have none, it returns
// that of the others, if there are any, and the error says why. The version of that is another than
// of the whole, and equal for the same rest and the same resources left out.
func (c *renderer) json(encoded []byte) ([]byte, error) {
	var m discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(encoded, &m); err != nil {
		return nil, &undescribedError{what: fmt.Sprintf("a resource does not decode: %v", err)}
	}
	all, opts := m.GetResources(), protojson.MarshalOptions{Resolver: c.resolver}
	var left leftOut
	m.Resources = left.writable(all, c.measured)
	text, err := opts.Marshal(&m)
	if err != nil {
		left = leftOut{}
		m.Resources = left.writable(all, func(a *anypb.Any) error {
			if err := c.measured(a); err != nil {
				return err
			}
			_, err := opts.Marshal(a)
			return err
		})
	}
	switch {
	case len(left.names) == 0 && err == nil:
		return text, nil
	case len(m.GetResources()) == 0 || len(left.names) == 0:
		return nil, left.error(err)
	}
	e := left.error(nil)
	e.without = left.mark()
	m.VersionInfo += e.without
	if text, err = opts.Marshal(&m); err != nil {
		return nil, left.error(err)
	}
	return text, e
}

// measured returns an error if a resource would need too much memory.
func (c *renderer) measured(a *anypb.Any) error {
	_, err := c.meter.Any([]byte(a.GetTypeUrl()), a.GetValue(), xds.Bound{Memory: renderMemory, Follow: true})
	return err
}

// renderer caches the JSON of recent responses. Clients of one group with the same version are sent
// the same, and rendering costs thirty times as much as the look-up (BenchmarkRenderJSON).
type renderer struct {
	// Set once by newRenderer.
	resolver Resolver
	meter    *xds.Meter

	mu    sync.Mutex // guards what follows; a leaf
	all   map[contentKey]*list.Element
	order list.List // of *rendered, most recently used first
	bytes int
}

func newRenderer(r Resolver) *renderer { return &renderer{resolver: r, meter: xds.NewMeter(r)} }

// contentKey is a hash of an encoded response that does not depend on the order of its fields,
// which differs between encodings of one set. It hashes the sorted hashes of the fields: their sum
// could be forged by who chooses some of them (VER-4).
type contentKey [sha256.Size]byte

func keyOf(encoded []byte) contentKey {
	var all [][sha256.Size]byte
	f := xds.Walk(encoded)
	for b := encoded; len(b) > 0; {
		length := len(b) // if it does not decode it has no JSON either
		if f.Next() {
			length -= f.Left()
		}
		all = append(all, sha256.Sum256(b[:length]))
		b = b[length:]
	}
	slices.SortFunc(all, func(x, y [sha256.Size]byte) int { return bytes.Compare(x[:], y[:]) })
	h := sha256.New()
	for i := range all {
		h.Write(all[i][:])
	}
	return contentKey(h.Sum(nil))
}

// maxRendered bounds the cached JSON, in bytes.
const maxRendered = 32 << 20

// rendered is the JSON of one response.
type rendered struct {
	key   contentKey
	bytes int // counted in the cache

	once  sync.Once // guards what follows
	plain []byte
	err   error

	zipping sync.Once // guards zipped
	zipped  []byte
}

// gzipped returns the compressed JSON.
func (d *rendered) gzipped() []byte {
	d.zipping.Do(func() {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		_, _ = w.Write(d.plain)
		_ = w.Close() // a bytes.Buffer returns no error
		d.zipped = b.Bytes()
	})
	return d.zipped
}

// render returns the JSON of a response. keep: other clients may be sent the same, so it is cached.
func (c *renderer) render(out mem.BufferSlice, keep bool) (*rendered, error) {
	d, encoded := &rendered{}, out.Materialize()
	if keep {
		d = c.entry(keyOf(encoded))
	}
	d.once.Do(func() {
		d.plain, d.err = c.json(encoded)
		if keep {
			c.account(d)
		}
	})
	return d, d.err
}

// entry returns the cache entry of a key, new if there was none. It locks the renderer.
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

// account counts a rendered entry and evicts the least recently used ones. It locks the renderer.
func (c *renderer) account(d *rendered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.all[d.key]
	if e == nil || e.Value != d {
		return // evicted meanwhile
	}
	if d.err != nil { // a reload may add the type's descriptor
		c.order.Remove(e)
		delete(c.all, d.key)
		return
	}
	d.bytes = 2*len(d.plain) + 1024 // with the compressed form, and the entry itself
	for c.bytes += d.bytes; c.bytes > maxRendered; {
		last := c.order.Back()
		x := c.order.Remove(last).(*rendered)
		delete(c.all, x.key)
		c.bytes -= x.bytes
	}
}

// A resource without JSON is left out of an answer where that deletes nothing: the client presents
// no version, so it holds nothing, or its version says that it was answered without the same
// resources, or the type is not sent whole. Any other client may hold the resource as it was. It is
// answered 500 and keeps all that it has.

// leftOut are the resources of a response that have no JSON.
type leftOut struct{ names, why []string }

// typeInError finds the type URL in the library's error text.
var typeInError = regexp.MustCompile(`unable to resolve "([^"]*)"`)

// writable returns the resources of which check returns no error, and notes the others.
func (l *leftOut) writable(all []*anypb.Any, check func(*anypb.Any) error) []*anypb.Any {
	good := make([]*anypb.Any, 0, len(all))
	for i, a := range all {
		err := check(a)
		if err == nil {
			good = append(good, a)
			continue
		}
		why, name := err.Error(), nameInAny(a)
		if found := typeInError.FindStringSubmatch(why); found != nil {
			why = fmt.Sprintf("type %[1]s is unknown, set types[%[1]q].descriptors", found[1])
		}
		l.names = append(l.names, a.GetTypeUrl()+" "+name)
		l.why = append(l.why, fmt.Sprintf("resources[%d], %q, has no JSON: %s", i, clip(name, maxNodeShown), why))
	}
	return good
}

// nameInAny returns the name of a resource: field 1 of all types, and field 3 of a Resource
// around one.
func nameInAny(a *anypb.Any) string {
	if a.MessageName() == (&discoveryv3.Resource{}).ProtoReflect().Descriptor().FullName() {
		return xds.StringField(a.GetValue(), 3)
	}
	return xds.StringField(a.GetValue(), 1)
}

// error says what is left out. err is why the rest has no JSON either, if it has none.
func (l *leftOut) error(err error) *undescribedError {
	why := l.why
	if err != nil && len(why) == 0 {
		why = []string{"the response has no JSON: " + err.Error()}
	}
	return &undescribedError{what: clip(strings.Join(why, "; "), maxNackText)}
}

// mark identifies what is left out, as the end of a version. No other version has a dot
// (xds.SetDigest).
func (l *leftOut) mark() string {
	slices.Sort(l.names)
	sum := sha256.Sum256([]byte(strings.Join(l.names, "\n")))
	return ".without." + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// leavesOut returns the version of an answer without some resources, or the error that the client
// gets instead. It counts and logs what is left out.
func (p *poll) leavesOut(w http.ResponseWriter, answer polled, err *undescribedError) (string, error) {
	held := string(p.in.version)
	whole := p.stream.session.whole(answer.response.kind)
	if err.without == "" || whole && held != "" && !strings.HasSuffix(held, err.without) {
		return "", err
	}
	s := p.stream.server
	s.cfg.Metrics.Poll(pollUnreadable)
	s.limits.leftOut(time.Now(), err.what, p.stream)
	w.Header().Set("Weir-Left-Out", strconv.QuoteToASCII(err.what))
	return answer.version + err.without, nil
}

// leftOut logs that an answer lacks resources.
func (l *limitLog) leftOut(now time.Time, text string, st *stream) {
	more, write := l.rate.admit("left out", now)
	if !write {
		return
	}
	l.log.Warn("left resources out of a JSON answer: they have no JSON form", zap.String("client", st.session.client()),
		st.session.from.field(), zap.String("message", text), zap.Int("not_logged", more))
}
