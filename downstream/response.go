package downstream

import (
	"strings"

	"github.com/weir-xds/weir/relay"

	"google.golang.org/protobuf/encoding/protowire"
)

// response is one message to a client: a small part of its own and pieces that others share.
type response struct {
	nonce string
	head  []byte   // every field but resources
	body  [][]byte // encoded resources; shared, not to be changed
	size  int      // encoded

	kind *streamType
	sent *sent // what it belongs to; set in the last message of an answer
}

// fieldNumbers are those of one dialect's response message; resources are field 2, and in the body.
type fieldNumbers struct{ version, typeURL, nonce, removed, gone, controlPlane, errors protowire.Number }

var (
	sotwFields  = fieldNumbers{version: 1, typeURL: 4, nonce: 5, controlPlane: 6, errors: 7}
	deltaFields = fieldNumbers{version: 1, typeURL: 4, nonce: 5, removed: 6, controlPlane: 7, gone: 8, errors: 9}
)

func numbers(delta bool) *fieldNumbers {
	if delta {
		return &deltaFields
	}
	return &sotwFields
}

// refusal is what becomes of a name that is not served: it is told as a resource error, never as an absence (FED-2).
type refusal struct {
	name  string
	about string // constraints, as the fields of a ResourceName: it is refused for parameters that these match; "": for all
	why   *reason
}

// size is about what the refusal takes in a message.
func (r *refusal) size() int { return len(r.name) + len(r.about) + len(r.why.text) + 32 }

// kept is what it takes until it is told.
func (r *refusal) kept() int { return len(r.name) + len(r.about) + 40 }

// draft is a response before it is encoded.
type draft struct {
	version, typeURL, nonce, identifier string
	removed                             []string
	gone                                []relay.Gone
	refusals                            []refusal
	errors                              []*relay.NameError
}

// encode writes the fields in any order, which protobuf allows: what differs from client to client comes first, the shared
// resources after it.
func (d *draft) encode(n *fieldNumbers) []byte {
	size := len(d.version) + len(d.typeURL) + len(d.nonce) + len(d.identifier) + 16
	for _, name := range d.removed {
		size += removedSize(name)
	}
	for i := range d.gone {
		size += d.gone[i].Size()
	}
	for i := range d.refusals {
		size += d.refusals[i].size()
	}
	for _, e := range d.errors {
		size += e.Size()
	}
	b := make([]byte, 0, size)
	if d.version != "" {
		b = appendString(b, n.version, d.version)
	}
	b = appendString(b, n.typeURL, d.typeURL)
	b = appendString(b, n.nonce, d.nonce)
	b = protowire.AppendTag(b, n.controlPlane, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(1)+protowire.SizeBytes(len(d.identifier))))
	b = appendString(b, 1, d.identifier)
	for _, name := range d.removed {
		b = appendString(b, n.removed, name)
	}
	for i := range d.gone {
		b = d.gone[i].Append(b, n.gone)
	}
	for i := range d.refusals {
		b = d.refusals[i].append(b, n.errors)
	}
	for _, e := range d.errors {
		b = e.Append(b, n.errors)
	}
	return b
}

// append writes a ResourceError: resource_name (a ResourceName) is field 1, error_detail (a google.rpc.Status) field 2.
func (r *refusal) append(b []byte, field protowire.Number) []byte {
	name := append(appendString(nil, 1, r.name), r.about...)
	detail := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(r.why.code))
	detail = appendString(detail, 2, r.why.text)
	inner := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	inner = protowire.AppendBytes(protowire.AppendTag(inner, 2, protowire.BytesType), detail)
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), inner)
}

func removedSize(name string) int { return len(name) + 6 }

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// part is one message of a delta answer.
type part struct {
	body    [][]byte
	removed []string
	gone    []relay.Gone
	size    int
}

const (
	// messageBytes is where a delta answer is cut, below the 4 MiB that clients accept by default (TRANS-10).
	messageBytes = 3584 << 10
	// refusalBytes is what one response tells of refused names; the rest waits for the next.
	refusalBytes = 256 << 10
)

// cut divides a delta answer into messages at the boundaries of its pieces, of which two belong together from pairs on; removals come
// last (ORD-2).
func cut(pieces [][]byte, pairs int, removed []string, most int) []part {
	parts, at, from := []part{{}}, 0, 0
	for i, p := range pieces {
		size, second := len(p), i > pairs && (i-pairs)%2 == 1
		if i >= pairs && !second {
			size += len(pieces[i+1])
		}
		if last := &parts[len(parts)-1]; !second && last.size > 0 && last.size+size > most {
			last.body = pieces[from:i:i]
			parts, from = append(parts, part{}), i
		}
		parts[len(parts)-1].size += len(p)
	}
	parts[len(parts)-1].body = pieces[from:]
	for i, name := range removed {
		if last := &parts[len(parts)-1]; last.size > 0 && last.size+removedSize(name) > most {
			last.removed = removed[at:i:i]
			parts, at = append(parts, part{}), i
		}
		parts[len(parts)-1].size += removedSize(name)
	}
	parts[len(parts)-1].removed = removed[at:]
	return parts
}

// cutUnits divides what is told in located form, behind what is told in plain form: one message does not say both of a name (DYN-16,
// DELTA-20). A unit is never parted (DYN-11), however long it is.
func cutUnits(parts []part, units []relay.Unit, most int) []part {
	fresh := true
	for i := range units {
		u := &units[i]
		if last := &parts[len(parts)-1]; last.size > 0 && (fresh || last.size+u.Size > most) {
			parts = append(parts, part{})
		}
		last := &parts[len(parts)-1]
		if fresh {
			last.body = nil // not to write behind what others share
		}
		last.body, last.gone = append(last.body, u.Pieces...), append(last.gone, u.Removed...)
		last.size += u.Size
		fresh = false
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
