package downstream

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// response is one message to a client: a small part of its own, and pieces that other responses
// share. Grpc may read it long after it was sent, so its memory is never reused.
type response struct {
	kind  *streamType
	nonce uint64
	size  int  // encoded
	last  bool // the last message of an answer
	dated bool // since is set

	out   mem.BufferSlice // what is written: the header, own, and the resources
	own   mem.SliceBuffer // fields that are not shared, in room if they fit
	room  [48]byte
	since time.Duration // from the session's start to the oldest change in it
}

// newResponse makes a response. If it has few pieces, it is one allocation with them.
func newResponse(kind *streamType, many bool) *response {
	if many {
		return &response{kind: kind}
	}
	r := &struct {
		response
		few [4]mem.Buffer
	}{}
	r.kind, r.out = kind, r.few[:0]
	return &r.response
}

// responseHeader is the part that all responses of a type in one dialect have in common, as long as
// the control plane keeps its identifier.
type responseHeader struct {
	key   headerKey
	bytes mem.SliceBuffer
}

type headerKey struct {
	typeURL, identifier string // of the control plane
	delta, v2           bool
}

// maxIdentifier bounds what is sent of an origin's identifier, since it is in every response.
const maxIdentifier = 1024

// newResponseHeader makes the header of a key. instance is this relay's name; "": between tiers the
// control plane's identifier stays as it is.
func newResponseHeader(key headerKey, instance string) *responseHeader {
	f, n, identifier := &responseHeader{key: key}, key.numbers(), clip(key.identifier, maxIdentifier)
	if instance != "" {
		identifier = withHop(identifier, instance)
	}
	b := xds.AppendString(nil, n.typeURL, key.typeURL)
	b = protowire.AppendTag(b, n.controlPlane, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(1)+protowire.SizeBytes(len(identifier))))
	f.bytes = xds.AppendString(b, 1, identifier)
	return f
}

// responseHeaders are the headers in use by the streams of a listener.
type responseHeaders struct {
	mu sync.Mutex // guards all
	// all is emptied when it has maxHeaders, since clients choose the types. A stream that has a
	// header goes on using it.
	all map[headerKey]*responseHeader
}

const maxHeaders = 1000

// of finds or makes the header of a key. It locks the table of headers.
func (p *responseHeaders) of(key headerKey, instance string) *responseHeader {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.all[key]
	if f == nil {
		if len(p.all) >= maxHeaders || p.all == nil {
			p.all = map[headerKey]*responseHeader{}
		}
		f = newResponseHeader(key, instance)
		p.all[key] = f
	}
	return f
}

// fieldNumbers are those of one dialect's response message. Resources and removals are encoded
// already.
type fieldNumbers struct {
	version, typeURL, nonce, removed, gone, controlPlane, errors protowire.Number
}

var (
	sotwFields  = fieldNumbers{version: 1, typeURL: 4, nonce: 5, controlPlane: 6, errors: 7}
	deltaFields = fieldNumbers{version: 1, typeURL: 4, nonce: 5, removed: 6, controlPlane: 7, gone: 8, errors: 9}
	// V2 lacks the other fields (V2-3): 0.
	sotwFieldsV2  = fieldNumbers{version: 1, typeURL: 4, nonce: 5, controlPlane: 6}
	deltaFieldsV2 = fieldNumbers{version: 1, typeURL: 4, nonce: 5, removed: 6, controlPlane: 7}
)

func (k *headerKey) numbers() *fieldNumbers {
	switch {
	case k.v2 && k.delta:
		return &deltaFieldsV2
	case k.v2:
		return &sotwFieldsV2
	case k.delta:
		return &deltaFields
	}
	return &sotwFields
}

// refusal is the answer for a name that is not served. It is sent as a resource error, and never as
// an absence (FED-2).
type refusal struct {
	name string
	// about has constraints, as the fields of a ResourceName. The name is refused for the
	// parameters that these match; "": for all.
	about string
	key   uint64 // identifies what the client named (refusalKey)
	why   *reason
}

// size is about what the refusal takes in a message, in bytes.
func (r *refusal) size() int { return len(r.name) + len(r.about) + len(r.why.text) + 32 }

// kept is about what the refusal takes in memory until it is sent, in bytes.
func (r *refusal) kept() int { return len(r.name) + len(r.about) + 48 }

// draft is the part of a response that is not shared, before it is encoded.
type draft struct {
	version, prefix string // prefix of the nonce; "": there is no nonce
	gone            []relay.Gone
	refusals        []refusal
	hosts           []byte // fields that state that refused virtual hosts do not exist
	errors          []*xds.NameError
}

// encode writes the response. The header and the fields that differ from client to client come
// first, and the shared resources after them. Protobuf allows fields in any order.
func (r *response) encode(f *responseHeader, d *draft, p *part) {
	r.own = d.append(r.room[:0], f.key.numbers(), r.nonce)
	n := 3
	for _, list := range p.pieces {
		n += len(list)
	}
	if n > cap(r.out) {
		r.out = make(mem.BufferSlice, 0, n)
	}
	r.out = append(r.out, &f.bytes, &r.own)
	for _, list := range p.pieces {
		for i := range list {
			// A pointer, since a value would be an allocation.
			r.out = append(r.out, (*mem.SliceBuffer)(&list[i]))
		}
	}
	r.size = r.out.Len()
}

// append writes the fields.
func (d *draft) append(b []byte, n *fieldNumbers, nonce uint64) []byte {
	var room [20]byte
	digits := strconv.AppendUint(room[:0], nonce, 10)
	size := len(d.version) + len(d.prefix) + len(digits) + len(d.hosts) + 8
	for i := range d.gone {
		size += d.gone[i].Size()
	}
	for i := range d.refusals {
		size += d.refusals[i].size()
		if d.refusals[i].why.absent {
			size += d.refusals[i].size()
		}
	}
	for _, e := range d.errors {
		size += e.Size()
	}
	b = slices.Grow(b, size)
	if d.version != "" {
		b = xds.AppendString(b, n.version, d.version)
	}
	if d.prefix != "" {
		b = protowire.AppendVarint(protowire.AppendTag(b, n.nonce, protowire.BytesType), uint64(len(d.prefix)+len(digits)))
		b = append(append(b, d.prefix...), digits...)
	}
	for i := range d.refusals {
		b = d.refusals[i].appendGone(b, n)
	}
	if n.errors == 0 { // v2 has no errors, and no locators that could be removed (V2-3)
		return append(b, d.hosts...)
	}
	for i := range d.gone {
		b = d.gone[i].Append(b, n.gone)
	}
	for i := range d.refusals {
		b = d.refusals[i].append(b, n.errors)
	}
	b = append(b, d.hosts...)
	for _, e := range d.errors {
		b = e.Append(b, n.errors)
	}
	return b
}

// appendGone writes that the name does not exist, in delta, if the client may not have it.
func (r *refusal) appendGone(b []byte, n *fieldNumbers) []byte {
	switch {
	case !r.why.absent || n.removed == 0:
		return b
	case r.about == "":
		return xds.AppendString(b, n.removed, r.name)
	case n.gone == 0: // v2 has no locators
		return b
	}
	return xds.AppendResourceName(b, n.gone, r.name, r.about)
}

// append writes a ResourceError: resource_name (a ResourceName) is field 1, error_detail (a
// google.rpc.Status) field 2.
func (r *refusal) append(b []byte, field protowire.Number) []byte {
	if r.why.unasked {
		return b
	}
	name := append(xds.AppendString(nil, 1, r.name), r.about...)
	detail := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(r.why.code))
	detail = xds.AppendString(detail, 2, r.why.text)
	inner := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	inner = protowire.AppendBytes(protowire.AppendTag(inner, 2, protowire.BytesType), detail)
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), inner)
}

// part is one message of an answer.
type part struct {
	pieces relay.Pieces
	gone   []relay.Gone
	errors []*xds.NameError
	size   int // bytes of the pieces, and about those of the rest
}

const (
	// messageBytes is the size at which a delta answer is cut. It is below the 4 MiB that clients
	// accept by default (TRANS-10).
	messageBytes = 3584 << 10
	// refusalBytes bounds the refusals in one response. The rest waits for the next.
	refusalBytes = 256 << 10
)

// cut divides a delta answer into messages, at the boundaries of its pieces. There is at least one
// message.
func cut(parts []part, pieces relay.Pieces, most int) []part {
	parts = append(parts, part{})
	for kind, list := range pieces {
		from, together := 0, 1
		if kind == relay.Pairs {
			together = 2
		}
		for i := 0; i < len(list); i += together {
			size := 0
			for _, piece := range list[i : i+together] {
				size += len(piece)
			}
			if last := &parts[len(parts)-1]; last.size > 0 && last.size+size > most {
				last.pieces[kind] = list[from:i:i]
				parts, from = append(parts, part{}), i
			}
			parts[len(parts)-1].size += size
		}
		parts[len(parts)-1].pieces[kind] = list[from:]
	}
	return parts
}

// cutUnits divides an answer in located form, after that in plain form. No message has one name in
// both forms (DYN-16, DELTA-20). A unit is never divided (DYN-11), however long it is.
func cutUnits(parts []part, units []relay.Unit, most int) []part {
	fresh := true
	for i := range units {
		u := &units[i]
		if last := &parts[len(parts)-1]; last.size > 0 && (fresh || last.size+u.Size > most) {
			parts = append(parts, part{})
		}
		last := &parts[len(parts)-1]
		if fresh {
			// Clipped, so that nothing is appended to an array that others share.
			last.pieces = relay.Pieces{relay.Plain: slices.Clip(u.Pieces)}
		} else {
			last.pieces[relay.Plain] = append(last.pieces[relay.Plain], u.Pieces...)
		}
		last.gone = append(last.gone, u.Removed...)
		last.size += u.Size
		fresh = false
	}
	return parts
}

// cutErrors divides the errors of names among the messages that have space left, and adds messages
// if needed.
func cutErrors(parts []part, errs []*xds.NameError, most int) []part {
	for i, from := 0, 0; len(errs[from:]) > 0; i++ {
		if i == len(parts) {
			parts = append(parts, part{})
		}
		p, to := &parts[i], from
		for to < len(errs) && (p.size == 0 || p.size+errs[to].Size() <= most) {
			p.size += errs[to].Size()
			to++
		}
		p.errors, from = errs[from:to:to], to
	}
	return parts
}

// clip cuts text of a peer to n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// hopKey is what this relay's name follows in the identifier of a control plane, or the member that
// has it if the identifier is a JSON object.
const hopKey = "weir"

// withHop is the identifier of a control plane with this relay's name: it grows by one `;weir=` for
// each hop (STREAM-10, RELAY-90). If it is a JSON object, as istiod's, it is one afterwards, with
// the names in the member "weir"; all else in it stays as it is.
func withHop(identifier, instance string) string {
	plain, text := identifier+";"+hopKey+"="+instance, strings.TrimSpace(identifier)
	if !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return plain
	}
	name, _ := json.Marshal(instance) // a text always marshals
	end, before := len(text)-1, ""
	for f := xds.WalkJSON([]byte(text)); f.Next(); before = "," {
		switch {
		case string(f.Name) != hopKey:
		case f.Value[0] != '"': // not a relay's
			return plain
		default:
			return text[:f.End()-1] + ";" + hopKey + "=" + string(name[1:]) + text[f.End():]
		}
	}
	return text[:end] + before + `"` + hopKey + `":` + string(name) + text[end:]
}
