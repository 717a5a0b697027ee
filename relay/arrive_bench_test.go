package relay

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
)

// arrivals makes encoded responses of resources of about 440 bytes each, as an origin sends them.
type arrivals struct {
	typeURL string
	delta   bool
	changes int
	all     []string
	filler  string
}

func newArrivals(typeURL string, delta bool, n int) *arrivals {
	a := &arrivals{typeURL: typeURL, delta: delta, filler: strings.Repeat("x", 330)}
	for i := range n {
		a.all = append(a.all, fmt.Sprintf("resource-%06d", i))
	}
	return a
}

// response lists names with the body they have now.
func (a *arrivals) response(names ...string) []byte {
	a.changes++
	return a.list(names, func(int) string { return "0" })
}

// list is a response of names, each with a body of its own.
func (a *arrivals) list(names []string, body func(int) string) []byte {
	b := xds.AppendString(nil, 1, fmt.Sprint(a.changes))
	for i, name := range names {
		r := madeResource(a.typeURL, name, "1", body(i)+a.filler)
		payload := r.Any
		if a.delta {
			payload = xds.AppendString(xds.AppendString(nil, xds.FieldVersion, "1"), xds.FieldName, name)
			payload = protowire.AppendBytes(protowire.AppendTag(payload, xds.FieldPayload, protowire.BytesType), r.Any)
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, xds.FieldResources, protowire.BytesType), payload)
	}
	return xds.AppendString(xds.AppendString(b, 4, a.typeURL), 5, "n")
}

// changed is a response after one resource got another body: all of them in state of the world of a
// type that is sent whole, else that one.
func (a *arrivals) changed(i int) []byte {
	a.changes++
	if a.delta || !xds.FullState(a.typeURL) {
		return a.list(a.all[:1], func(int) string { return fmt.Sprint(i) })
	}
	return a.list(a.all, func(at int) string {
		if at == 0 {
			return fmt.Sprint(i)
		}
		return "0"
	})
}

// arrive is what package upstream does with the bytes of a response.
func (r *rig) arrive(raw []byte, delta bool) {
	r.tb.Helper()
	response, err := xds.ParseResponse(raw, delta)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.group.lanes[mainLane].FindRepeats(response)
	u, reject := xds.Accept(response, 0)
	if reject != nil {
		r.tb.Fatal(reject)
	}
	r.apply(&u)
}

// newArrivalRig is a table with an origin of the dialect, asked for `*` of Clusters, or for all
// names of Endpoints.
func newArrivalRig(tb testing.TB, a *arrivals) (*rig, *Sub) {
	r := newRig(tb, Config{Origins: []OriginConfig{{Name: "mesh", SotW: !a.delta}}})
	names := []string{xds.Wildcard}
	if a.typeURL == xds.EndpointType {
		names = a.all
	}
	s := r.sub(a.typeURL, true, names...)
	r.open()
	return r, s
}

var arrivalKinds = []struct {
	name    string
	typeURL string
	delta   bool
}{{"delta", xds.ClusterType, true}, {"SotW", xds.ClusterType, false}, {"delta names", xds.EndpointType, true}, {"SotW names", xds.EndpointType, false}}

// BenchmarkFirst is the first answer, from its bytes to what is held: everything in it is new. B/op
// is what it takes at most, the message itself aside, if nothing of it is collected meanwhile; kept
// is what stays.
func BenchmarkFirst(b *testing.B) {
	for _, kind := range arrivalKinds {
		for _, size := range []int{1, 100, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/resources=%d", kind.name, size), func(b *testing.B) {
				a := newArrivals(kind.typeURL, kind.delta, size)
				raw := a.response(a.all...)
				b.ReportAllocs()
				b.SetBytes(int64(len(raw)))
				b.ResetTimer()
				for range b.N {
					b.StopTimer()
					r, s := newArrivalRig(b, a)
					b.StartTimer()
					r.arrive(raw, kind.delta)
					b.StopTimer()
					r.table.Advance(zero.Add(time.Minute))
					if s.Take(zero) == nil {
						b.Fatal("nothing to tell")
					}
					b.StartTimer()
				}
			})
		}
	}
}

// BenchmarkChange is a response after one resource of many has changed, from its bytes, taken by
// one client. In delta, and of a grouped type, it has that one; in state of the world of any other
// type all of them. The cost must not grow with what did not change and is not in the response, and
// what is in it unchanged costs a compare.
func BenchmarkChange(b *testing.B) {
	for _, kind := range arrivalKinds {
		for _, size := range []int{1, 100, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/resources=%d", kind.name, size), func(b *testing.B) {
				a := newArrivals(kind.typeURL, kind.delta, size)
				r, s := newArrivalRig(b, a)
				r.arrive(a.response(a.all...), kind.delta)
				r.table.Advance(zero.Add(time.Minute))
				s.Take(zero)
				raws := [][]byte{a.changed(1), a.changed(2)}
				b.SetBytes(int64(len(raws[0])))
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					r.arrive(raws[i%2], kind.delta)
					if s.Take(zero) == nil {
						b.Fatal("nothing to tell")
					}
				}
			})
		}
	}
}

// BenchmarkUpdate is one change of one resource, from its bytes, taken by the one client that it
// concerns, among clients whom it does not concern: of other names, of `*` of another type, and of
// other groups, a third each. Neither they nor the resources that did not change may make it
// dearer.
func BenchmarkUpdate(b *testing.B) {
	for _, kind := range arrivalKinds {
		if kind.typeURL == xds.ClusterType && !kind.delta {
			continue // the whole list comes: BenchmarkChange
		}
		for _, n := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/clients=%d", kind.name, n), func(b *testing.B) {
				a := newArrivals(kind.typeURL, kind.delta, 100)
				r, s := newArrivalRig(b, a)
				r.bystanders(kind.typeURL, n)
				r.open()
				r.arrive(a.response(a.all...), kind.delta)
				r.table.Advance(zero.Add(time.Minute))
				s.Take(zero)
				raws := [][]byte{a.changed(1), a.changed(2)}
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					r.arrive(raws[i%2], kind.delta)
					if s.Take(zero) == nil {
						b.Fatal("nothing to tell")
					}
				}
			})
		}
	}
}

// bystanders are clients whom a change of the first resource does not concern.
func (r *rig) bystanders(typeURL string, n int) {
	other := xds.EndpointType
	if typeURL == xds.EndpointType {
		other = xds.ClusterType
	}
	for i := range n {
		switch i % 3 {
		case 0:
			r.sub(typeURL, true, fmt.Sprint("other", i))
		case 1:
			r.sub(other, true, xds.Wildcard)
		default:
			g, err := r.table.Origin("mesh").DedicatedFor(relaytestNode(), "", nil)
			if err != nil {
				r.tb.Fatal(err)
			}
			g.Open(NewSubscriber(), SubOptions{TypeURL: typeURL, Delta: true}).Update(zero, []string{"resource-000000"}, nil)
		}
	}
}

// BenchmarkHold is how long the table's lock is held at most while a response of 100,000 resources
// is taken up, as a client meets it that wants to take meanwhile: the median of several responses,
// in milliseconds.
func BenchmarkHold(b *testing.B) {
	const size = 100_000
	for _, kind := range arrivalKinds {
		for _, what := range []string{"first", "one changed", "all changed", "nothing changed"} {
			if what == "one changed" && (kind.delta || kind.typeURL == xds.EndpointType) {
				continue // the response is small
			}
			b.Run(kind.name+"/"+what, func(b *testing.B) {
				a := newArrivals(kind.typeURL, kind.delta, size)
				var waits []time.Duration
				for range b.N {
					r, _ := newArrivalRig(b, a)
					raw := a.response(a.all...)
					if what != "first" {
						r.arrive(raw, kind.delta)
						r.table.Advance(zero.Add(time.Minute))
					}
					switch what {
					case "one changed":
						raw = a.changed(1)
					case "all changed":
						raw = a.list(a.all, func(int) string { return "1" })
					}
					waits = append(waits, longestWait(r.group.store(kind.typeURL), func() { r.arrive(raw, kind.delta) }))
				}
				slices.Sort(waits)
				b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1e3, "hold-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// longestWait is the longest time for which somebody else waited for the lock while f ran.
func longestWait(k *store, f func()) (longest time.Duration) {
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			begun := time.Now()
			k.mu.Lock()
			k.mu.Unlock() //nolint:staticcheck // it was only to be had
			longest = max(longest, time.Since(begun))
			time.Sleep(20 * time.Microsecond)
		}
	}()
	f()
	over.Store(true)
	<-done
	return longest
}
