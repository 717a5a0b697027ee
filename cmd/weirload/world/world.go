package world

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Kind is the type of the resources of a world.
type Kind string

// The kinds: clusters are subscribed as a whole, endpoints by name.
const (
	Clusters  Kind = "cds"
	Endpoints Kind = "eds"
)

// TypeURL returns the type URL.
func (k Kind) TypeURL() string {
	if k == Endpoints {
		return "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	}
	return "type.googleapis.com/envoy.config.cluster.v3.Cluster"
}

// The bounds of a world.
const (
	MaxResources = 1_000_000
	MaxBytes     = 1 << 20
	maxTotal     = 4 << 30
)

// Options are the flags of a plane.
type Options struct {
	// Address of the xDS port; the system chooses the control port, on loopback.
	Listen    string
	Kind      Kind
	Resources int
	Bytes     int // approximate size of an encoded resource
}

// AddFlags adds the flags, with o's values as defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the xDS port")
	fs.StringVar((*string)(&o.Kind), "type", string(Clusters), "type of the resources: cds or eds")
	fs.IntVar(&o.Resources, "resources", 1000, "how many resources there are")
	fs.IntVar(&o.Bytes, "bytes", 436, "about how many bytes an encoded resource has")
}

// Arguments are the flags again, for another process.
func (o *Options) Arguments() []string {
	return []string{"--type", string(o.Kind), "--resources", strconv.Itoa(o.Resources), "--bytes", strconv.Itoa(o.Bytes)}
}

// World has the resources of one type. They depend on the options only.
type World struct {
	kind  Kind
	bytes int
	count int
}

// New makes a World. An error says that the options are invalid.
func New(o Options) (*World, error) {
	switch {
	case o.Kind != Clusters && o.Kind != Endpoints:
		return nil, fmt.Errorf("type: %q is neither cds nor eds", o.Kind)
	case o.Resources < 1 || o.Resources > MaxResources:
		return nil, fmt.Errorf("resources: %d is not between 1 and %d", o.Resources, MaxResources)
	case o.Bytes < 1 || o.Bytes > MaxBytes:
		return nil, fmt.Errorf("bytes: %d is not between 1 and %d", o.Bytes, MaxBytes)
	case o.Resources*o.Bytes > maxTotal:
		return nil, fmt.Errorf("resources: %d of %d bytes are more than %d bytes in all", o.Resources, o.Bytes, maxTotal)
	}
	return &World{kind: o.Kind, bytes: o.Bytes, count: o.Resources}, nil
}

// Kind returns the type of the resources.
func (w *World) Kind() Kind { return w.kind }

// Len returns the number of resources.
func (w *World) Len() int { return w.count }

// Name returns the name of the i-th resource, of any type.
func Name(i int) string { return fmt.Sprintf("cluster-%06d", i) }

// Index is the inverse of Name.
func Index(name string) (int, bool) {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "cluster-"))
	return i, err == nil && i >= 0 && Name(i) == name
}

// Index returns the index of a resource's name.
func (w *World) Index(name string) (int, bool) {
	i, ok := Index(name)
	return i, ok && i < w.count
}

// Message returns the i-th resource after a change with stamp s.
func (w *World) Message(i int, s Stamp) proto.Message {
	if w.kind == Endpoints {
		return w.endpoints(i, s)
	}
	return w.cluster(i, s)
}

// Encode returns Message in bytes, which are the same each time.
func (w *World) Encode(i int, s Stamp) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(w.Message(i, s))
	if err != nil {
		panic(err) // cannot fail for our own message
	}
	return b
}

// cluster makes a cluster like those of service meshes, filled up with metadata to the wanted size.
// The stamp is its alt_stat_name.
func (w *World) cluster(i int, s Stamp) proto.Message {
	c := &clusterv3.Cluster{
		Name:                 Name(i),
		AltStatName:          s.String(),
		ConnectTimeout:       durationpb.New(5 * time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		LbPolicy:             clusterv3.Cluster_LEAST_REQUEST,
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
			EdsConfig: &corev3.ConfigSource{
				ResourceApiVersion:    corev3.ApiVersion_V3,
				ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			},
		},
	}
	const around = 36 // approximate size of the metadata without the text
	if rest := w.bytes - proto.Size(c) - around; rest > 0 {
		text := strings.Repeat("0123456789abcdef", rest/16+1)[:rest]
		c.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			"weirload": {Fields: map[string]*structpb.Value{"filler": structpb.NewStringValue(text)}},
		}}
	}
	return c
}

// endpoints makes a ClusterLoadAssignment with as many endpoints as fit the wanted size, at least
// one. The stamp is the host name of the first.
func (w *World) endpoints(i int, s Stamp) proto.Message {
	locality := &endpointv3.LocalityLbEndpoints{
		Locality:    &corev3.Locality{Region: "region-1", Zone: fmt.Sprintf("zone-%d", i%3)},
		LbEndpoints: []*endpointv3.LbEndpoint{endpoint(i, 0, s.String())},
	}
	a := &endpointv3.ClusterLoadAssignment{ClusterName: Name(i), Endpoints: []*endpointv3.LocalityLbEndpoints{locality}}
	for n, size := 1, proto.Size(a); ; n++ {
		e := endpoint(i, n, "")
		if size += proto.Size(e) + 2; size > w.bytes {
			return a
		}
		locality.LbEndpoints = append(locality.LbEndpoints, e)
	}
}

func endpoint(cluster, n int, host string) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{
		HealthStatus: corev3.HealthStatus_HEALTHY,
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Hostname: host,
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address:       fmt.Sprintf("10.%d.%d.%d", cluster>>8&255, cluster&255, n&255),
				PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 8080},
			}}},
		}},
	}
}

// Stamp is the start of a change, in nanoseconds of the wall clock.
type Stamp int64

const (
	mark   = "weirload:"
	digits = 16
	// DigitsAt is the offset of the digits in the text of a stamp.
	DigitsAt = len(mark)
	// stampBytes is the length of the text of a stamp.
	stampBytes = len(mark) + digits
)

// Now returns the stamp of a change that begins now.
func Now() Stamp { return Stamp(time.Now().UnixNano()) }

// String returns the text of the stamp in a resource.
func (s Stamp) String() string {
	var b [stampBytes]byte
	copy(b[:], mark)
	s.Put(b[len(mark):])
	return string(b[:])
}

// Digits returns only the hexadecimal digits of the stamp.
func (s Stamp) Digits() string { return s.String()[len(mark):] }

// Put writes the digits to the front of b.
func (s Stamp) Put(b []byte) {
	const hexDigits = "0123456789abcdef"
	for i, v := digits-1, uint64(s); i >= 0; i, v = i-1, v>>4 {
		b[i] = hexDigits[v&15]
	}
}

// parse reads the digits at the front of b; false if there are none. Clients call it a thousand
// times for each SotW response.
func parse(b []byte) (Stamp, bool) {
	if len(b) < digits {
		return 0, false
	}
	var v uint64
	for _, c := range b[:digits] {
		var d byte
		switch {
		case '0' <= c && c <= '9':
			d = c - '0'
		case 'a' <= c && c <= 'f':
			d = c - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(d)
	}
	return Stamp(v), true
}

// Find returns the first stamp in an encoded resource or response, and its offset. It decodes
// nothing.
func Find(b []byte) (s Stamp, at int, ok bool) {
	for {
		i := bytes.Index(b[at:], []byte(mark))
		if i < 0 {
			return 0, 0, false
		}
		at += i
		if s, ok := At(b, at); ok {
			return s, at, true
		}
		at += len(mark)
	}
}

// At returns the stamp at an offset; false if there is none.
func At(b []byte, at int) (Stamp, bool) {
	if len(b) < at+stampBytes || string(b[at:at+len(mark)]) != mark {
		return 0, false
	}
	return parse(b[at+len(mark):])
}

// ParseDigits parses the result of Digits.
func ParseDigits(s string) (Stamp, bool) {
	if len(s) != digits {
		return 0, false
	}
	return parse([]byte(s))
}
