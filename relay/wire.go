package relay

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Response is a discovery response of either dialect, read without building messages: slices alias
// the input.
type Response struct {
	TypeURL    string
	Nonce      string
	Version    string // version_info (SotW) or system_version_info (delta)
	Identifier string // of the control plane (STREAM-10)

	delta     bool
	resources [][]byte // encoded Resource (delta) or Any (SotW)
	removed   []string
	wrapped   [][]byte // removed_resource_names
	errors    [][]byte // resource_errors (TP3)
	bad       []string // what is wrong with its own fields, which are left empty
	repeats   []lookup // of resources, if any was looked for
}

// Len is the number of resources the response lists.
func (r *Response) Len() int { return len(r.resources) }

// Why what an origin sends does not decode, beside protowire's own reasons: a client's library
// would not take it either, and end the stream that brings it.
var (
	errNumber   = errors.New("a field number is out of range")
	errUTF8     = errors.New("a string is not valid UTF-8")
	errDuration = errors.New("ttl: nanos are out of range")
)

// fields calls f for each field of an encoded message. f gets the value's bytes for
// length-delimited fields and the integer for varints; other wire types are skipped.
func fields(b []byte, f func(n protowire.Number, v []byte, i uint64) error) error {
	for len(b) > 0 {
		var n protowire.Number
		var t protowire.Type
		m := 1
		if tag := b[0]; tag < 0x80 && tag >= 8 { // one byte, as nearly all
			n, t = protowire.Number(tag>>3), protowire.Type(tag&7)
		} else if n, t, m = protowire.ConsumeTag(b); m < 0 {
			return protowire.ParseError(m)
		} else if n > protowire.MaxValidNumber {
			return errNumber
		}
		b = b[m:]
		var v []byte
		var i uint64
		switch t {
		case protowire.BytesType:
			if len(b) > 0 && b[0] < 0x80 && int(b[0]) < len(b) { // its length is one byte
				m = 1 + int(b[0])
				v = b[1:m:m]
				break
			}
			v, m = protowire.ConsumeBytes(b)
			if v == nil {
				v = []byte{} // an empty value is not an absent one
			}
		case protowire.VarintType:
			i, m = protowire.ConsumeVarint(b)
		default:
			m = protowire.ConsumeFieldValue(n, t, b)
		}
		if m < 0 {
			return protowire.ParseError(m)
		}
		b = b[m:]
		if t == protowire.BytesType || t == protowire.VarintType {
			if err := f(n, v, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// ParseResponse reads an encoded DiscoveryResponse, or with delta a DeltaDiscoveryResponse.
func ParseResponse(b []byte, delta bool) (*Response, error) {
	r := &Response{delta: delta}
	err := fields(b, func(n protowire.Number, v []byte, _ uint64) error {
		if v == nil {
			return nil
		}
		switch {
		case n == 1 && delta:
			r.text(&r.Version, v, "system_version_info")
		case n == 1:
			r.text(&r.Version, v, "version_info")
		case n == 2:
			r.resources = append(r.resources, v)
		case n == 4:
			r.TypeURL = string(v)
		case n == 5:
			r.text(&r.Nonce, v, "nonce")
		case n == 6 && delta:
			r.removed = append(r.removed, string(v))
		case n == 8 && delta:
			r.wrapped = append(r.wrapped, v)
		case n == 6 && !delta, n == 7 && delta:
			r.controlPlane(v)
		case n == 7 && !delta, n == 9 && delta:
			r.errors = append(r.errors, v)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("discovery response does not decode: %w", err)
	}
	return r, nil
}

// text takes up a string field of the response that clients are told, or the origin is told again.
func (r *Response) text(to *string, v []byte, field string) {
	if !utf8.Valid(v) {
		r.bad = append(r.bad, field+" is not valid UTF-8")
		v = nil
	}
	*to = string(v)
}

func (r *Response) controlPlane(b []byte) {
	err := fields(b, func(n protowire.Number, v []byte, _ uint64) error {
		if n == 1 && v != nil {
			r.text(&r.Identifier, v, "control_plane.identifier")
		}
		return nil
	})
	if err != nil {
		r.bad = append(r.bad, "control_plane does not decode: "+err.Error())
	}
}

// stringField is the last occurrence of a string field in an encoded message (RELAY-14); "" if
// there is none or the message does not decode up to it.
func stringField(b []byte, field protowire.Number) string {
	return string(lastField(b, field))
}

// lastField is stringField without a copy.
func lastField(b []byte, field protowire.Number) (s []byte) {
	_ = fields(b, func(n protowire.Number, v []byte, _ uint64) error {
		if n == field && v != nil {
			s = v
		}
		return nil
	})
	return s
}

// merged is a message in a message that is given once more: its parts are one. It is a copy then.
func merged(m, more []byte) []byte {
	if m == nil {
		return more
	}
	return append(slices.Clip(m), more...)
}

// anyParts splits an encoded google.protobuf.Any.
func anyParts(b []byte) (typeURL, value []byte, err error) {
	err = fields(b, func(n protowire.Number, v []byte, _ uint64) error {
		switch {
		case n == 1 && v != nil:
			if typeURL = v; !utf8.Valid(v) {
				return errUTF8
			}
		case n == 2 && v != nil:
			value = v
		}
		return nil
	})
	return typeURL, value, err
}

// parseResource reads an encoded envoy.service.discovery.v3.Resource.
func parseResource(b []byte, r *Resource) error {
	var ttl []byte
	err := fields(b, func(n protowire.Number, v []byte, _ uint64) error {
		switch {
		case v == nil:
			return nil
		case n == resourceVersion:
			r.Version = string(v)
		case n == resourcePayload:
			r.Any = merged(r.Any, v)
		case n == resourceName:
			r.Name = string(v)
		case n == resourceAliases:
			r.Aliases = append(r.Aliases, string(v))
		case n == resourceTTL:
			ttl = merged(ttl, v)
		case n == resourceCacheCtl:
			return fields(v, func(n protowire.Number, v []byte, i uint64) error {
				if n == 1 && v == nil {
					r.DoNotCache = i != 0
				}
				return nil
			})
		case n == resourceNameWrapped:
			r.rawConstraints = merged(r.rawConstraints, v)
		case n == resourceMetadata:
			r.metadata = merged(r.metadata, v)
		}
		return nil
	})
	if err == nil && ttl != nil {
		r.TTL, err = duration(ttl)
		r.HasTTL = err == nil
	}
	return err
}

// longestTTL is what every longer one counts as. A Duration may be ten thousand years;
// time.Duration has 292 of them, and what is kept on disk ends in 2262.
const longestTTL = 100 * 365 * 24 * time.Hour

// duration reads an encoded google.protobuf.Duration, as one that can be counted with.
func duration(b []byte) (time.Duration, error) {
	var s, ns int64
	err := fields(b, func(n protowire.Number, v []byte, i uint64) error {
		switch {
		case v != nil:
		case n == 1:
			s = int64(i)
		case n == 2:
			ns = int64(int32(i)) // as which it is read whatever is written
		}
		return nil
	})
	if err == nil && (ns > 999_999_999 || ns < -999_999_999) {
		err = errDuration
	}
	most := int64(longestTTL / time.Second)
	d := time.Duration(min(max(s, -most), most))*time.Second + time.Duration(ns)
	return min(max(d, -longestTTL), longestTTL), err
}
