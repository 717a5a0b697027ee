package cursor

import (
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	cds = xds.ClusterType
	eds = xds.EndpointType
	sds = xds.SecretType
	vhs = xds.VirtualHostType
	ms  = time.Millisecond
)

var zero = time.Unix(1_000_000_000, 0)

// like is what a body is made of.
type like struct {
	typeURL, name, payload string
	aliases                []string
	env                    string // for parameter maps with env of that value
	end                    time.Time
	err                    *xds.NameError
	uncached               bool
}

func body(l like) *xds.Variant {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&anypb.Any{TypeUrl: l.typeURL, Value: []byte(l.payload)})
	if err != nil {
		panic(err)
	}
	r := &xds.Resource{
		Name: l.name, Any: data, Aliases: l.aliases, PayloadType: []byte(l.typeURL), Payload: []byte(l.payload), Constraints: constraintsOf(l.env),
		DoNotCache: l.uncached,
	}
	v := xds.NewVariant(&xds.Provenance{TypeURL: l.typeURL}, r, "")
	if !l.end.IsZero() {
		v.EndAt(l.end)
	}
	return v
}

func constraintsOf(env string) *constraints.Set {
	if env == "" {
		return nil
	}
	single := &discoveryv3.DynamicParameterConstraints_SingleConstraint{
		Key: "env", ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: env},
	}
	set, err := constraints.Compile(&discoveryv3.DynamicParameterConstraints{
		Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: single},
	})
	if err != nil {
		panic(err)
	}
	return set
}

func params(env string) constraints.Params {
	if env == "" {
		return constraints.Params{}
	}
	return constraints.NewParams(map[string]string{"env": env})
}

func say(l like) state.Edit {
	if l.err != nil {
		return state.Edit{Name: l.name, Entry: state.NewEntry(state.Facts{Name: l.name, Bodies: []*xds.Variant{body(l)}, Err: l.err})}
	}
	return state.Edit{Name: l.name, Entry: state.Present(body(l))}
}

// memoOf is for sources whose clients share what they are sent.
func memoOf(m *Memo) func(string) Shared { return func(string) Shared { return Shared{Memo: m} } }

// forMaps are changes for each parameter map of the games.
func forMaps(all ...state.Change) []state.Change {
	for _, c := range slices.Clone(all) {
		c.Params = params("a").Key()
		all = append(all, c)
	}
	return all
}

func gone(name string, maps ...constraints.Params) state.Edit {
	return state.Edit{Name: name, Entry: state.NewEntry(state.Facts{Name: name, Absent: append(maps, constraints.Params{})})}
}

func failed(name string, code uint32, text string) state.Edit {
	err := xds.NewNameError(name, code, text)
	f := state.Facts{Name: name, Err: err}
	if ends(err) {
		f.Absent = []constraints.Params{{}, params("a")}
	}
	return state.Edit{Name: name, Entry: state.NewEntry(f)}
}

func alias(name, of string) state.Edit {
	return state.Edit{Name: name, Entry: state.NewEntry(state.Facts{Name: name, Alias: of})}
}

const notFound, unavailable = 5, 14

func ends(err *xds.NameError) bool { return err.Code == notFound }
