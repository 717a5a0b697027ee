package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-xds/weir/relay/relaytest"
)

const (
	cds = relaytest.ClusterType
	eds = relaytest.EndpointType
	lds = relaytest.ListenerType
	rds = relaytest.RouteType
)

// types are those of the world, in the order of ORD-1.
var types = []string{cds, eds, lds, rds}

// fullState tells the types whose SotW responses carry the whole set.
func fullState(typeURL string) bool { return typeURL == cds || typeURL == lds }

// short is a type for failures.
func short(typeURL string) string { return typeURL[strings.LastIndexByte(typeURL, '.')+1:] }

// version is what the origin calls a content. Of counters that started anew it is a number that was
// in use before.
func version(epoch int, count uint64) string {
	if epoch > 0 {
		return strconv.FormatUint(count, 10)
	}
	return strconv.FormatUint(1000+count, 10)
}

// bodyOf is a resource of the type with a number in its content, and for a route the cluster it
// leads to.
func bodyOf(typeURL, name string, number uint64, ref string) *anypb.Any {
	mark := strconv.FormatUint(number, 10)
	switch typeURL {
	case cds:
		c := new(cluster.Cluster)
		unpack(relaytest.EDSCluster(name, ""), c)
		c.AltStatName = mark
		return relaytest.Body(c)
	case eds:
		e := new(endpoint.ClusterLoadAssignment)
		unpack(relaytest.Endpoints(name, "10.0.0.1:80"), e)
		e.Policy = &endpoint.ClusterLoadAssignment_Policy{OverprovisioningFactor: wrapperspb.UInt32(uint32(number))}
		return relaytest.Body(e)
	case lds:
		l := new(listener.Listener)
		unpack(relaytest.Listener(name, 8080), l)
		l.StatPrefix = mark
		return relaytest.Body(l)
	case rds:
		r := new(route.RouteConfiguration)
		unpack(relaytest.Route(name, ref), r)
		r.VirtualHosts[0].Name = mark
		return relaytest.Body(r)
	}
	panic("no such type: " + typeURL)
}

func unpack(a *anypb.Any, m proto.Message) {
	if err := a.UnmarshalTo(m); err != nil {
		panic(err)
	}
}

// item is one resource that a client was sent.
type item struct {
	name    string
	version string
	body    uint64
	ref     string
}

// known holds the items of bodies read before: the same ones come to many clients, many times.
var known struct {
	sync.Mutex
	items map[string]item
}

// read takes a body apart.
func read(a *anypb.Any) (item, error) {
	key := a.TypeUrl + string(a.Value)
	known.Lock()
	i, ok := known.items[key]
	known.Unlock()
	if ok {
		return i, nil
	}
	i, err := parse(a)
	if err != nil {
		return item{}, err
	}
	known.Lock()
	defer known.Unlock()
	if known.items == nil || len(known.items) > 50_000 { // a long run makes many
		known.items = map[string]item{}
	}
	known.items[key] = i
	return i, nil
}

func parse(a *anypb.Any) (item, error) {
	m, err := a.UnmarshalNew()
	if err != nil {
		return item{}, err
	}
	var i item
	var mark string
	switch m := m.(type) {
	case *cluster.Cluster:
		i.name, mark = m.Name, m.AltStatName
	case *endpoint.ClusterLoadAssignment:
		i.name, mark = m.ClusterName, strconv.Itoa(int(m.GetPolicy().GetOverprovisioningFactor().GetValue()))
	case *listener.Listener:
		i.name, mark = m.Name, m.StatPrefix
	case *route.RouteConfiguration:
		i.name = m.Name
		for _, v := range m.VirtualHosts {
			mark = v.Name
			i.ref = v.Routes[0].GetRoute().GetCluster()
		}
	default:
		return item{}, fmt.Errorf("a body of type %s", a.TypeUrl)
	}
	if i.body, err = strconv.ParseUint(mark, 10, 64); err != nil {
		return item{}, fmt.Errorf("%s %q: %w", short(a.TypeUrl), i.name, err)
	}
	return i, nil
}
