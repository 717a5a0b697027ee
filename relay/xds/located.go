package xds

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Located returns the body in located form: a head, and the bytes that it shares with the other
// forms. All clients of the variant share the head, too. delta or SotW; beat: a heartbeat, which is
// only a head; ttl 0: without a TTL.
func (v *Variant) Located(delta bool, ttl time.Duration, heartbeat bool) [][]byte {
	if v.rare == nil || ttl > 0 || heartbeat {
		head, rest := v.locatedParts(delta, ttl, heartbeat)
		if heartbeat {
			return [][]byte{head}
		}
		return [][]byte{head, rest}
	}
	kept := &v.rare.located[0]
	if delta {
		kept = &v.rare.located[1]
	}
	parts := kept.Load()
	if parts == nil {
		parts = &[2][]byte{}
		parts[0], parts[1] = v.locatedParts(delta, 0, false)
		kept.Store(parts) // of two that are made at the same time either may stay
	}
	return parts[:]
}

func (v *Variant) locatedParts(delta bool, ttl time.Duration, beat bool) (head, rest []byte) {
	name := v.Spelling()
	if v.Nameless {
		name = ""
	}
	var b []byte
	if !v.Notice() {
		b = AppendString(b, FieldVersion, v.Version())
	}
	b = AppendResourceName(b, FieldResourceName, name, v.Written())
	if !beat {
		for _, a := range v.Aliases {
			b = AppendString(b, FieldAliases, a)
		}
		if v.DoNotCache {
			b = protowire.AppendTag(b, FieldCacheControl, protowire.BytesType)
			b = append(b, 2, 0x08, 0x01)
		}
		if meta := v.meta(); len(meta) > 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, FieldMetadata, protowire.BytesType), meta)
		}
		rest = v.buf[v.sotw:] // both are field number 2
	}
	if ttl > 0 {
		b = AppendTTL(b, ttl)
	}
	if delta {
		return wrap(len(b)+len(rest), b), rest
	}
	return wrapAny(len(b)+len(rest), b), rest
}

// Written returns the constraints as the origin wrote them: the encoded fields of a ResourceName
// without the name.
func (v *Variant) Written() string {
	if v.rare == nil {
		return ""
	}
	return v.rare.constraints
}

const constraintsField = 2 // of ResourceName

// constraintFields returns the fields of an encoded ResourceName other than the name.
func constraintFields(resourceName []byte) string {
	var b []byte
	for f := Walk(resourceName); f.Next(); { // it decoded before
		if f.IsBytes(constraintsField) {
			b = protowire.AppendBytes(protowire.AppendTag(b, constraintsField, protowire.BytesType), f.Bytes)
		}
	}
	return string(b)
}
