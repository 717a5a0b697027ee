package xds

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
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
	first := whole[:2]
	if got := Merged(nil, first); &got[0] != &whole[0] {
		t.Error("a message that is given once is copied")
	}
	if got := Merged(first, []byte("x")); string(got) != "abx" || string(whole) != "abcd" {
		t.Errorf("%q of %q", got, whole)
	}
}
