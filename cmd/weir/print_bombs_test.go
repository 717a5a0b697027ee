package main

import (
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// TestReadableBombs: a body that would cost far more than its size as JSON is shown as bytes.
func TestReadableBombs(t *testing.T) {
	for name, body := range map[string]*anypb.Any{
		"Any in Any":     relaytest.AnyInAny(2000),
		"empty messages": {TypeUrl: xds.EndpointType, Value: relaytest.Repeated(2, nil, 1<<20)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text := readable(body, nil)
		runtime.ReadMemStats(&after)
		if !strings.Contains(string(text), `"value":"`) {
			t.Errorf("%s: it is shown as %.100s", name, text)
		}
		if took := after.TotalAlloc - before.TotalAlloc; int(took) > 1<<20+16*len(body.Value) {
			t.Errorf("%s: %d bytes are taken to show %d", name, took, len(body.Value))
		}
	}
}
