package xds

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/relay/relaytest"
)

// FuzzFields: the walker reads what protowire reads, field by field, and refuses what it refuses.
func FuzzFields(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0a\x01a\x12\x00\x18\x96\x01"))
	f.Add([]byte("\x09\x01\x02\x03\x04\x05\x06\x07\x08\x15\x01\x02\x03\x04"))
	f.Add([]byte("\x0b\x08\x01\x0c\x0a\x05abc"))
	f.Add([]byte("\x00\x01"))
	f.Add(append(bytes.Repeat([]byte{0x80}, 9), 1))
	f.Add(append([]byte("\x82\x01\x80\x01"), make([]byte, 128)...))
	f.Add(append(protowire.AppendVarint(nil, (1<<29)<<3|uint64(protowire.VarintType)), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, rest := Walk(b), b
		for w.Next() {
			number, kind, length := protowire.ConsumeField(rest)
			if length < 0 || number != w.Number || kind != w.Type || number > protowire.MaxValidNumber {
				t.Fatalf("field %d of type %d, protowire reads %d of type %d (%d)", w.Number, w.Type, number, kind, length)
			}
			_, _, tag := protowire.ConsumeTag(rest)
			value, number64 := []byte(nil), uint64(0)
			switch kind {
			case protowire.BytesType:
				value, _ = protowire.ConsumeBytes(rest[tag:])
			case protowire.VarintType:
				number64, _ = protowire.ConsumeVarint(rest[tag:])
			case protowire.Fixed64Type:
				number64, _ = protowire.ConsumeFixed64(rest[tag:])
			}
			if !bytes.Equal(w.Bytes, value) || (w.Bytes != nil) != (kind == protowire.BytesType) || w.Value != number64 {
				t.Fatalf("field %d is %q and %d, want %q and %d", number, w.Bytes, w.Value, value, number64)
			}
			if rest = rest[length:]; w.Left() != len(rest) {
				t.Fatalf("%d bytes are left, want %d", w.Left(), len(rest))
			}
		}
		number, _, length := protowire.ConsumeField(rest)
		switch err := w.Err(); {
		case err == nil && len(rest) > 0:
			t.Fatalf("it ends before %x", rest)
		case err == nil:
		case errors.Is(err, errNumber):
			if n, _, _ := protowire.ConsumeTag(rest); n <= protowire.MaxValidNumber {
				t.Fatalf("number %d is refused", n)
			}
		case length >= 0:
			t.Fatalf("%x is refused (%v), protowire reads field %d", rest, err, number)
		}
		if w.Next() {
			t.Fatal("there is a field behind the end")
		}
	})
}

// TestMerged: the parts of a message that is given several times are one, and the message that they
// were read from stays as it is.
func TestMerged(t *testing.T) {
	whole := []byte("abcd")
	first := Merged(nil, whole[:2])
	if &first[0] != &whole[0] {
		t.Error("a message that is given once is copied")
	}
	if got := Merged(first, []byte("x")); string(got) != "abx" || string(whole) != "abcd" {
		t.Errorf("%q of %q", got, whole)
	}
}

// A field that occurs a million times is merged in one go: with a copy for each occurrence, a report
// of 3 MB would keep a processor busy for an hour.
func TestMergedIsLinear(t *testing.T) {
	message := relaytest.Repeated(1, []byte{8}, 100_000)
	before := bytes.Clone(message)
	var merged []byte
	used := allocated(func() {
		for f := Walk(message); f.Next(); {
			merged = Merged(merged, f.Bytes)
		}
	})
	if len(merged) != 100_000 || used > 10*len(message) {
		t.Errorf("%d bytes were merged, and %d allocated", len(merged), used)
	}
	if !bytes.Equal(message, before) {
		t.Error("the message was changed")
	}
	long := append(relaytest.Field(1, bytes.Repeat([]byte{8}, 200)), relaytest.Field(1, []byte{9, 9})...)
	before, merged = bytes.Clone(long), nil
	for f := Walk(long); f.Next(); {
		merged = Merged(merged, f.Bytes)
	}
	if len(merged) != 202 || !bytes.Equal(long, before) {
		t.Error("a long value was merged into the message itself")
	}
}
