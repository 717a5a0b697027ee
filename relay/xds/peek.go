package xds

import "bytes"

// Again returns the resource that the body came in.
func (v *Variant) Again() Resource {
	return Resource{Name: v.Name, Version: v.OriginVersion(), Any: v.Any()}
}

// Peek has the parts of a resource that tell whether it is a repeat. It shares the response. Name
// is nil if the resource has other fields besides.
type Peek struct{ Name, Version, Any []byte }

// Peek reads only as much of the resource with that number as tells whether it is a repeat.
func (r *Response) Peek(number int) (g Peek) {
	b := r.Resources[number]
	if !r.Delta {
		typeURL, payload, err := AnyParts(b)
		if err != nil || string(typeURL) != r.TypeURL {
			return Peek{}
		}
		return Peek{Name: BytesField(payload, 1), Any: b}
	}
	plain := true
	f := Walk(b)
	for f.Next() {
		switch f.Number {
		case FieldVersion:
			g.Version = f.Bytes
		case FieldPayload:
			plain = plain && g.Any == nil
			g.Any = f.Bytes
		case FieldName:
			g.Name = f.Bytes
		default:
			plain = false
		}
	}
	if f.Err() != nil || !plain {
		return Peek{}
	}
	return g
}

// Shows reports whether it is that body, with the version that the server last gave it.
func (g *Peek) Shows(v *Variant, server uint8) bool {
	return v.plain() && v.OriginVersion() == string(g.Version) && v.From.Server == server && bytes.Equal(v.Any(), g.Any)
}

// plain reports whether the body has only a name, a version and a payload.
func (v *Variant) plain() bool {
	return v.Spelt == "" && v.Constraints == nil && len(v.Aliases) == 0 && v.rare == nil && !v.Timed() && !v.DoNotCache && !v.Nameless
}
