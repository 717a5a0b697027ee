package descriptors

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/xds"
)

// Unmarshal reads the JSON of a message. What is not canonical, and what Envoy reads all the same,
// is read as well (FILE-1): forms are the places. An *xds.BoundError says that the text was not
// decoded, since it would take more than the bound.
func (t *Types) Unmarshal(text []byte, m proto.Message, bound xds.JSONBound) (forms []xds.JSONForm, err error) {
	if _, err := bound.Check(text); err != nil {
		return nil, err
	}
	options := protojson.UnmarshalOptions{Resolver: t, AllowPartial: true}
	if err = options.Unmarshal(text, m); err == nil {
		return nil, nil
	}
	canonical, forms := xds.CanonicalJSON(text, m.ProtoReflect().Descriptor(), t)
	if len(forms) == 0 {
		return nil, err
	}
	if _, err := bound.Check(canonical); err != nil { // lists of one were not counted as lists
		return nil, err
	}
	return forms, options.Unmarshal(canonical, m)
}
