package loads

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FuzzReport: a report is accepted if the protobuf library accepts it, and adds up to what the
// library reads in it: a client has reported twice, and another once before it left.
func FuzzReport(f *testing.F) {
	for _, wire := range oddReports(f) {
		f.Add(wire, wire)
		f.Add(wire, []byte(nil))
	}
	f.Fuzz(compareReports)
}

func compareReports(t *testing.T, one, two []byte) {
	s, stays, leaves, want := New(time.Unix(0, 0)), &Reporter{}, &Reporter{}, newTally()
	if m, r, ok := bothRead(t, one); ok {
		s.Add(stays, r)
		s.Add(leaves, r)
		s.Leave(leaves)
		want.add(m.GetClusterStats(), true)
		want.add(m.GetClusterStats(), false)
	}
	if m, r, ok := bothRead(t, two); ok {
		s.Add(stays, r)
		want.forget()
		want.add(m.GetClusterStats(), true)
	}
	got, taken := newTally(), s.Take(time.Unix(1, 0))
	got.add(taken, true)
	if !maps.Equal(got.numbers, want.numbers) || !maps.Equal(got.texts, want.texts) {
		t.Fatalf("it is told\n%v\n%v, want\n%v\n%v", got.numbers, got.texts, want.numbers, want.texts)
	}
	for _, c := range taken {
		for _, l := range c.GetUpstreamLocalityStats() {
			told := map[string]bool{}
			for _, e := range l.GetUpstreamEndpointStats() {
				address, _ := proto.MarshalOptions{Deterministic: true}.Marshal(e.GetAddress())
				if told[string(address)] {
					t.Fatalf("an endpoint is told of twice: %v", l)
				}
				told[string(address)] = true
			}
		}
	}
}

// bothRead is a report as the library reads it, and as Read does.
func bothRead(t *testing.T, wire []byte) (*loadstats.LoadStatsRequest, Report, bool) {
	m := &loadstats.LoadStatsRequest{}
	wantErr := proto.Unmarshal(wire, m)
	r, err := Read(wire)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("a report is read with %v, by the library with %v", err, wantErr)
	}
	return m, r, err == nil
}

// tally adds up reports that the library has read, by the path of each number.
type tally struct {
	numbers map[string]uint64
	texts   map[string]string
}

func newTally() tally { return tally{map[string]uint64{}, map[string]string{}} }

const standing = "/standing"

// forget is what a client does that reports anew.
func (t tally) forget() {
	for path := range t.numbers {
		if strings.HasSuffix(path, standing) {
			t.numbers[path] = 0
		}
	}
}

// add adds reports. Of a client that has left nothing stands.
func (t tally) add(report []*endpointv3.ClusterStats, stands bool) {
	for _, c := range report {
		at := fmt.Sprintf("%q,%q", c.GetClusterName(), c.GetClusterServiceName())
		t.numbers[at+"/dropped"] += c.GetTotalDroppedRequests()
		for _, d := range c.GetDroppedRequests() {
			t.numbers[fmt.Sprintf("%s/dropped %q", at, d.GetCategory())] += d.GetDroppedCount()
		}
		for _, l := range c.GetUpstreamLocalityStats() {
			t.locality(at, l, stands)
		}
	}
}

func (t tally) locality(at string, l *endpointv3.UpstreamLocalityStats, stands bool) {
	is := l.GetLocality()
	at += fmt.Sprintf("/%q,%q,%q,%d", is.GetRegion(), is.GetZone(), is.GetSubZone(), l.GetPriority())
	if t.texts[at] == "" {
		t.texts[at] = fmt.Sprint("named: ", is != nil)
	}
	t.counts(at, stands, l)
	t.numbers[at+"/new"] += l.GetTotalNewConnections()
	t.numbers[at+"/failed"] += l.GetTotalFailConnections()
	t.stand(at+"/active", stands, l.GetTotalActiveConnections())
	for name, u := range map[string]*endpointv3.UnnamedEndpointLoadMetricStats{
		"cpu": l.GetCpuUtilization(), "memory": l.GetMemUtilization(), "application": l.GetApplicationUtilization(),
	} {
		if u != nil {
			t.metric(at+"/"+name, u)
		}
	}
	for _, e := range l.GetUpstreamEndpointStats() {
		address, _ := proto.MarshalOptions{Deterministic: true}.Marshal(e.GetAddress())
		at := fmt.Sprintf("%s/%q", at, address)
		t.counts(at, stands, e)
		if e.GetMetadata() != nil {
			metadata, _ := proto.MarshalOptions{Deterministic: true}.Marshal(e.GetMetadata())
			t.texts[at] = fmt.Sprintf("metadata: %q", metadata)
		}
	}
}

// counts adds what localities and endpoints have in common.
func (t tally) counts(at string, stands bool, of interface {
	GetTotalSuccessfulRequests() uint64
	GetTotalErrorRequests() uint64
	GetTotalIssuedRequests() uint64
	GetTotalRequestsInProgress() uint64
	GetLoadMetricStats() []*endpointv3.EndpointLoadMetricStats
},
) {
	t.numbers[at+"/successes"] += of.GetTotalSuccessfulRequests()
	t.numbers[at+"/errors"] += of.GetTotalErrorRequests()
	t.numbers[at+"/issued"] += of.GetTotalIssuedRequests()
	t.stand(at+"/progress", stands, of.GetTotalRequestsInProgress())
	for _, m := range of.GetLoadMetricStats() {
		t.metric(fmt.Sprintf("%s/metric %q", at, m.GetMetricName()), m)
	}
}

func (t tally) stand(at string, stands bool, n uint64) {
	if !stands {
		n = 0
	}
	t.numbers[at+standing] += n
}

func (t tally) metric(at string, m interface {
	GetNumRequestsFinishedWithMetric() uint64
	GetTotalMetricValue() float64
},
) {
	t.numbers[at] += m.GetNumRequestsFinishedWithMetric()
	at += "/value"
	t.numbers[at] = math.Float64bits(math.Float64frombits(t.numbers[at]) + m.GetTotalMetricValue())
}

// oddReports are reports that clients write, and what the wire format allows or does not.
func oddReports(t testing.TB) [][]byte {
	encoded := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	field := func(n protowire.Number, parts ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), slices.Concat(parts...))
	}
	text := func(n protowire.Number, s string) []byte { return field(n, []byte(s)) }
	number := func(n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
	}
	locality := func(parts ...[]byte) []byte { return field(2, text(1, "c"), field(2, parts...)) }
	endpoint := func(parts ...[]byte) []byte { return locality(field(7, parts...)) }
	socket := field(1, text(2, "10.0.0.1"), number(3, 80)) // in an address
	swapped := field(1, number(3, 80), text(2, "10.0.0.1"))
	half := protowire.AppendFixed64(protowire.AppendTag(nil, 2, protowire.Fixed64Type), math.Float64bits(0.5))
	metadata := everyNumber(t).GetUpstreamLocalityStats()[0].GetUpstreamEndpointStats()[0].GetMetadata()
	group := slices.Concat(protowire.AppendTag(nil, 2, protowire.StartGroupType), text(1, "\xff"), protowire.AppendTag(nil, 2, protowire.EndGroupType))
	return [][]byte{
		nil,
		encoded(fiveClusters()),
		encoded(&loadstats.LoadStatsRequest{
			Node:         &corev3.Node{Id: "n", Metadata: metadata, ClientFeatures: []string{"f"}},
			ClusterStats: []*endpointv3.ClusterStats{everyNumber(t), everyNumber(t)},
		}),
		// the last one counts
		field(2, number(3, 1), number(3, 2), text(6, "s"), text(1, "a"), text(1, "b")),
		// of other wire types, and empty
		field(2, text(2, ""), text(5, ""), text(1, ""), number(4, 1), number(1, 1)),
		// two localities are one
		locality(field(1, text(1, "r")), number(8, 1), field(1, text(2, "z"), text(1, "q"))),
		locality(number(6, 1<<32+1), text(12, ""), field(12, number(1, 1)), field(12, number(1, 3), number(2, 1))),
		locality(field(12, number(1, 1)), field(12, half), field(13, half), field(14)),
		locality(number(6, 300), field(1, text(2, "z"))), locality(number(6, 1<<40+3), field(1)),
		field(2, text(6, "s"), text(1, "c"), number(6, 1), text(4, "\x08\x01")),
		// one endpoint
		locality(field(7, field(1, socket), number(7, 1)), field(7, field(1, swapped), number(7, 2))),
		locality(number(8, math.MaxUint64), number(3, math.MaxUint64), number(9, 1)),
		locality(field(5, text(1, "m"), number(2, 1)), field(5, number(2, 1), text(1, "m")), field(5)),
		endpoint(field(1, socket), number(7, 1)), endpoint(field(1, swapped), number(7, 1)),
		// two addresses are one
		endpoint(field(1, field(1, number(3, 80))), field(1, field(1, text(2, "10.0.0.1")))),
		// of two kinds the last one counts
		endpoint(field(1, socket), field(1, field(2, text(1, "/p")))),
		endpoint(field(1, socket, text(99, "unknown"))), endpoint(), endpoint(field(1)),
		endpoint(field(6, field(1, text(1, "k"), field(2, text(3, "v")))), field(6)), // metadata
		endpoint(field(6, field(1, text(1, "\xff")))),
		endpoint(field(1, field(1, text(2, "\xff")))),
		locality(field(1, text(1, "\xff"))), locality(field(5, text(1, "\xff"))), field(2, text(1, "\xff")), field(2, field(5, text(1, "\xff"))),
		text(1, "\xff"), field(1, text(1, "\xff")), field(1, number(1, 1)), group, field(2, group), locality(group), locality(group[:2]),
		{0x12},
		{0x12, 5, 'a'},
		{0, 1},
		{2<<3 | 6, 1},
		{0x92, 0x80, 0x00, 2, 0x0a, 0},
		bytes.Repeat([]byte{0xff}, 11),
		protowire.AppendTag(nil, 2, protowire.EndGroupType), locality([]byte{0x0c}),
		text(protowire.MaxValidNumber, "\xff"), protowire.AppendVarint(nil, uint64(protowire.MaxValidNumber+1)<<3|2),
		field(1, field(4, text(1, "\xff")), field(6, field(2, number(1, 1)))), // of the node
	}
}

// TestDeepReport: messages are nested as deeply as the library allows, in lists and in maps.
func TestDeepReport(t *testing.T) {
	for name, level := range map[string][]protowire.Number{"lists": {1, 6}, "structs": {2, 1, 5}} {
		for _, leaf := range [][]protowire.Number{nil, {6}, {1, 5}} {
			verdicts := map[bool]int{}
			for more := range 8 {
				var wire []byte // backwards
				in := func(numbers ...protowire.Number) {
					for _, n := range numbers {
						head := protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.BytesType), uint64(len(wire)))
						slices.Reverse(head)
						wire = append(wire, head...)
					}
				}
				in(leaf...)
				for range protowire.DefaultRecursionLimit/len(level) - 5 + more {
					in(level...)
				}
				in(2, 1, 3, 1) // a field of the node's metadata
				slices.Reverse(wire)
				_, _, ok := bothRead(t, wire)
				verdicts[ok]++
			}
			if len(verdicts) != 2 {
				t.Errorf("%s: all are accepted, or all refused, %v: the limit is elsewhere", name, verdicts)
			}
		}
	}
}

// TestNoListsOfNumbers: Read would have to look into lists of numbers that are packed.
func TestNoListsOfNumbers(t *testing.T) {
	known := map[protoreflect.FullName]bool{}
	var look func(protoreflect.MessageDescriptor)
	look = func(d protoreflect.MessageDescriptor) {
		if known[d.FullName()] {
			return
		}
		known[d.FullName()] = true
		for i := range d.Fields().Len() {
			switch f := d.Fields().Get(i); {
			case f.Message() != nil:
				look(f.Message())
			case f.IsList() && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind:
				t.Errorf("%s is a list of numbers", f.FullName())
			}
		}
	}
	look((&loadstats.LoadStatsRequest{}).ProtoReflect().Descriptor())
	if len(known) < 20 {
		t.Errorf("only %d types are in a report", len(known))
	}
}
