package upstream

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// TestOneStreamForEachType: a type with a service of its own is asked there, all others on ADS, all
// over one connection; a type whose service is not there says nothing of the others, nor of the
// origin's health, and comes back when it is.
func TestOneStreamForEachType(t *testing.T) {
	o := options{
		table:  func(c *relay.Config) { c.Origins[0].PerType = true },
		config: func(c *Config) { c.PerType = true },
		origin: relaytest.OriginConfig{Serving: true, Behaviour: relaytest.Behaviour{
			Kill: map[string]error{lds: status.Error(codes.Unimplemented, "no listeners here")},
		}},
	}
	both(t, o, func(w *world) {
		for _, typeURL := range []string{cds, eds, lds, opaque} {
			w.origin.Set(typeURL, "a", "1", &anypb.Any{TypeUrl: typeURL, Value: relaytest.Opaque("a", "1").Value})
		}
		w.want(cds, "*")
		w.want(cds, "a") // beside the wildcard, on the side lane (RELAY-20)
		w.want(eds, "a")
		w.want(lds, "a")
		w.want(opaque, "a")
		time.Sleep(5 * time.Second)
		var methods []string
		for _, s := range w.origin.Open() {
			methods = append(methods, s.Method)
		}
		slices.Sort(methods)
		sotw := w.up.cfg.SotW
		want := []string{xds.ADS.Method(!sotw)}
		for _, typeURL := range []string{cds, cds, eds} {
			want = append(want, xds.ServiceOf(typeURL, false).Method(!sotw))
		}
		slices.Sort(want)
		if !slices.Equal(methods, want) {
			t.Errorf("open are %v, want %v", methods, want)
		}
		w.wantHeld(cds, "both kinds are answered", "*a", "a")
		w.wantHeld(eds, "it is answered", "a")
		w.wantHeld(opaque, "it is answered", "a")
		if st := w.status(); !st.Connected || st.Connections != 1 || st.Failures != 0 {
			t.Errorf("the origin is connected %v, by %d connections, with %d failures", st.Connected, st.Connections, st.Failures)
		}
		w.wantLines(1, "in quarantine", "the log says of which type")
		w.origin.Behave(func(b *relaytest.Behaviour) { b.Kill = nil })
		time.Sleep(longestRest)
		w.wantHeld(lds, "it is asked again", "a")
	})
}
