package plan

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	cds = xds.ClusterType
	eds = xds.EndpointType
	sds = xds.SecretType
	lds = xds.ListenerType
	rds = xds.RouteType
	vhs = xds.VirtualHostType
	ecs = xds.ExtensionConfigType
)

const ms = time.Millisecond

var (
	zero   = time.Unix(1_000_000_000, 0)
	config = Config{Hold: 500 * ms, Cold: 2 * time.Second}
)

// say is the edit by which a name has a body, which may begin with a name that it refers to.
func say(typeURL, name, words string) state.Edit {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&anypb.Any{TypeUrl: typeURL, Value: []byte(words)})
	if err != nil {
		panic(err)
	}
	r := &xds.Resource{Name: name, Any: data, PayloadType: []byte(typeURL), Payload: []byte(words)}
	return state.Edit{Name: name, Entry: state.Present(xds.NewVariant(&xds.Provenance{TypeURL: typeURL}, r, ""))}
}

func words(e state.Entry) string {
	if e.Body() == nil {
		return ""
	}
	_, payload, _ := xds.AnyParts(e.Body().Any())
	return string(payload)
}

// refers is the name that a body refers to.
func refers(e state.Entry) string {
	to, _, _ := strings.Cut(words(e), " ")
	return to
}

func change(typeURL string, edits ...state.Edit) state.Change {
	return state.Change{TypeURL: typeURL, Selector: "*", Edits: edits}
}

// member is what a state has of a name, and whether that is known.
func member(s *state.State, typeURL, name string) (e state.Entry, known bool) {
	x, _ := s.Of(typeURL, "*")
	e = x.Members.Get(name)
	return e, e.Known() || x.Phase >= state.Settled
}
