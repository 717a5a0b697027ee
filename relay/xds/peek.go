package xds

import "bytes"

// Again is the resource that a body came in.
func (v *Variant) Again() Resource {
	return Resource{Name: v.Name, Version: v.originVersion, Any: v.Any()}
}

// Peek is what of a resource tells whether it is a repeat; it aliases the response. No name: it
// has something besides.
type Peek struct{ Name, Version, Any []byte }

// Peek reads as much of the resource of that number as tells whether it is a repeat.
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

// Shows reports whether it is that body as the server of the number sent it last.
func (g *Peek) Shows(v *Variant, server uint8) bool {
	return v.plain() && v.originVersion == string(g.Version) && v.From.Server == server && bytes.Equal(v.Any(), g.Any)
}

// plain reports whether there is nothing to the body but its name, version and payload.
func (v *Variant) plain() bool {
	return v.Spelt == "" && v.Constraints == nil && len(v.Aliases) == 0 && v.rare == nil && v.end == nil && !v.DoNotCache && !v.Nameless
}
