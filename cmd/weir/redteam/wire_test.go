package redteam

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// field is a field of bytes on the wire.
func field(n protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
}

// text is a field of text on the wire.
func text(n protowire.Number, s string) []byte { return field(n, []byte(s)) }

// encode is a message on the wire.
func encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // a message of ours
	}
	return b
}

// numbersOf are the field numbers of a dotted path of names in a type of message.
func numbersOf(d protoreflect.MessageDescriptor, path string) []protowire.Number {
	var numbers []protowire.Number
	for name := range strings.SplitSeq(path, ".") {
		f := d.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			panic(fmt.Sprintf("%s has no field %s", d.FullName(), name))
		}
		numbers, d = append(numbers, f.Number()), f.Message()
	}
	return numbers
}

// within is what has inner in the field at a path of a message.
func within(d protoreflect.MessageDescriptor, path string, inner []byte) []byte {
	return wrap(numbersOf(d, path), inner)
}

func wrap(numbers []protowire.Number, inner []byte) []byte {
	for i := len(numbers) - 1; i >= 0; i-- {
		inner = field(numbers[i], inner)
	}
	return inner
}

// many has the field at a path of a message n times, in one message around them. element nil: they
// are all empty.
func many(d protoreflect.MessageDescriptor, path string, n int, element func(int) []byte) []byte {
	numbers := numbersOf(d, path)
	last := len(numbers) - 1
	var b []byte
	if element == nil {
		b = bytes.Repeat(field(numbers[last], nil), n)
	} else {
		for i := range n {
			b = protowire.AppendTag(b, numbers[last], protowire.BytesType)
			b = protowire.AppendBytes(b, element(i))
		}
	}
	return wrap(numbers[:last], b)
}

// entry is an entry of a map with a short key of its own.
func entry(i int) []byte { return text(1, strconv.FormatInt(int64(i), 36)) }

// nest has a message in a message, levels deep. Each level has prefix, and then the next one in the
// fields of numbers in turn. It is written from the end, since each length is before its content.
func nest(levels int, prefix []byte, numbers []protowire.Number, inner []byte) []byte {
	const most = 16 // of a tag and a length
	at := levels*(len(prefix)+most) + len(inner)
	b := make([]byte, at)
	put := func(part []byte) { at -= len(part); copy(b[at:], part) }
	put(inner)
	var head [most]byte
	for i := levels - 1; i >= 0; i-- {
		h := protowire.AppendTag(head[:0], numbers[i%len(numbers)], protowire.BytesType)
		put(protowire.AppendVarint(h, uint64(len(b)-at)))
		put(prefix)
	}
	return b[at:]
}

// textOf is a field of text of a message whose other fields need not be decoded; empty if there is
// none.
func textOf(b []byte, n protowire.Number) string {
	for len(b) > 0 {
		number, kind, head := protowire.ConsumeTag(b)
		if head < 0 {
			return ""
		}
		length := protowire.ConsumeFieldValue(number, kind, b[head:])
		if length < 0 {
			return ""
		}
		if number == n && kind == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b[head:])
			return string(v)
		}
		b = b[head+length:]
	}
	return ""
}

// wire is a codec for bytes as they are.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// press compresses, and only once what it is given again. It tells messages apart by their length:
// an attacker has few.
type press struct {
	mu   sync.Mutex
	made map[int][]byte
}

func (*press) Name() string { return "gzip" }

func (p *press) Compress(w io.Writer) (io.WriteCloser, error) { return &pressed{press: p, to: w}, nil }

func (*press) Decompress(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

func (p *press) zip(b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made[len(b)] == nil {
		p.made[len(b)] = zip(b)
	}
	return p.made[len(b)]
}

// pressed is one message.
type pressed struct {
	press *press
	to    io.Writer
	b     []byte
}

func (p *pressed) Write(b []byte) (int, error) {
	p.b = append(p.b, b...)
	return len(b), nil
}

func (p *pressed) Close() error {
	_, err := p.to.Write(p.press.zip(p.b))
	return err
}

// zip compresses what repeats itself as much as gzip can, and everything else fast.
func zip(b []byte) []byte {
	level := gzip.BestCompression
	if tail := b[len(b)*9/10:]; len(b) > 1<<20 && len(zipped(tail, gzip.BestSpeed)) > len(tail)/50 {
		level = gzip.BestSpeed
	}
	return zipped(b, level)
}

func zipped(b []byte, level int) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, level) // one that there is
	_, _ = w.Write(b)                        // to memory
	_ = w.Close()
	return out.Bytes()
}
