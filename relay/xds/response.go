package xds

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Response is a discovery response of either dialect, parsed without building messages. Slices
// share the input.
type Response struct {
	TypeURL    string
	Nonce      string
	Version    string // version_info (SotW) or system_version_info (delta)
	Identifier string // of the control plane (STREAM-10)

	Delta        bool
	Resources    [][]byte // encoded Resource (delta) or Any (SotW)
	Removed      []string
	RemovedNames [][]byte // removed_resource_names
	Errors       [][]byte // resource_errors (TP3)
	bad          []string // errors in its own fields, which are left empty

	most int    // of its elements (ParseWithin)
	over string // why it is refused whole; "": it is not

	Held Held // resources that need not be read; nil: all have to be
}

// Len returns the number of resources in the response.
func (r *Response) Len() int { return len(r.Resources) }

// errDuration is why a response does not decode, in addition to the errors of Fields. A client's
// library would not decode it either, and end the stream.
var errDuration = errors.New("ttl: nanos are out of range")

// ParseResponse parses an encoded DiscoveryResponse, or with delta a DeltaDiscoveryResponse.
func ParseResponse(b []byte, delta bool) (*Response, error) { return ParseWithin(b, delta, 0) }

// parse reads the fields, of a response that is refused whole its header alone.
func (r *Response) parse(b []byte) error {
	delta := r.Delta
	f := Walk(b)
	for f.Next() {
		v := f.Bytes
		if v == nil || r.over != "" && (f.Number == FieldResources || f.isStatement(delta)) {
			continue
		}
		switch n := f.Number; {
		case n == 1 && delta:
			r.text(&r.Version, v, "system_version_info")
		case n == 1:
			r.text(&r.Version, v, "version_info")
		case n == FieldResources:
			r.Resources = append(r.Resources, v)
		case n == 4:
			r.TypeURL = string(v)
		case n == 5:
			r.text(&r.Nonce, v, "nonce")
		case n == FieldRemoved && delta:
			r.Removed = append(r.Removed, string(v))
		case n == fieldRemovedNames && delta:
			r.RemovedNames = append(r.RemovedNames, v)
		case n == 6 && !delta, n == 7 && delta:
			r.controlPlane(v)
		case n == fieldErrorsSotW && !delta, n == fieldErrorsDelta && delta:
			r.Errors = append(r.Errors, v)
		}
	}
	if err := f.Err(); err != nil {
		return fmt.Errorf("discovery response does not decode: %w", err)
	}
	return nil
}

// text sets a string field of the response that is sent on to clients, or back to the origin.
func (r *Response) text(to *string, v []byte, field string) {
	if !utf8.Valid(v) {
		r.bad = append(r.bad, field+" is not valid UTF-8")
		v = nil
	}
	*to = string(v)
}

// maxIdentifier is what is kept of an origin's identifier, in bytes. Clients are sent a quarter of
// it.
const maxIdentifier = 4 << 10

func (r *Response) controlPlane(b []byte) {
	f := Walk(b)
	for f.Next() {
		if f.IsBytes(1) {
			r.text(&r.Identifier, f.Bytes, "control_plane.identifier")
			if len(r.Identifier) > maxIdentifier {
				r.Identifier = strings.ToValidUTF8(strings.Clone(r.Identifier[:maxIdentifier]), "")
			}
		}
	}
	if err := f.Err(); err != nil {
		r.bad = append(r.bad, "control_plane does not decode: "+err.Error())
	}
}

// maxAliases bounds the aliases of one resource. An empty alias has two bytes on the wire, and many
// times as much in memory.
const maxAliases = 100_000

var errAliases = fmt.Errorf("it has more than %d aliases", maxAliases)

// ParseResource parses an encoded envoy.service.discovery.v3.Resource.
func ParseResource(b []byte, r *Resource) error {
	var ttl []byte
	f := Walk(b)
	for f.Next() {
		v := f.Bytes
		if v == nil {
			continue
		}
		switch f.Number {
		case FieldVersion:
			r.Version = string(v)
		case FieldPayload:
			r.Any = Merged(r.Any, v)
		case FieldName:
			r.Name = string(v)
		case FieldAliases:
			if len(r.Aliases) == maxAliases {
				return errAliases
			}
			r.Aliases = append(r.Aliases, string(v))
		case FieldTTL:
			ttl = Merged(ttl, v)
		case FieldCacheControl:
			if err := r.cacheControl(v); err != nil {
				return err
			}
		case FieldResourceName:
			r.RawConstraints = Merged(r.RawConstraints, v)
		case FieldMetadata:
			r.Metadata = Merged(r.Metadata, v)
		}
	}
	err := f.Err()
	if err == nil && ttl != nil {
		r.TTL, err = duration(ttl)
		r.HasTTL = err == nil
	}
	return err
}

// cacheControl parses an encoded Resource.CacheControl.
func (r *Resource) cacheControl(b []byte) error {
	f := Walk(b)
	for f.Next() {
		if f.IsVarint(1) {
			r.DoNotCache = f.Value != 0
		}
	}
	return f.Err()
}

// LongestTTL replaces every longer TTL. A Duration may be ten thousand years; a time.Duration has
// 292, and times on disk end in 2262.
const LongestTTL = 100 * 365 * 24 * time.Hour

// duration parses an encoded google.protobuf.Duration, limited to LongestTTL.
func duration(b []byte) (time.Duration, error) {
	var s, ns int64
	f := Walk(b)
	for f.Next() {
		switch {
		case f.IsVarint(1):
			s = int64(f.Value)
		case f.IsVarint(2):
			ns = int64(int32(f.Value)) // as the library reads it, whatever was written
		}
	}
	err := f.Err()
	if err == nil && (ns > 999_999_999 || ns < -999_999_999) {
		err = errDuration
	}
	most := int64(LongestTTL / time.Second)
	d := time.Duration(min(max(s, -most), most))*time.Second + time.Duration(ns)
	return min(max(d, -LongestTTL), LongestTTL), err
}
