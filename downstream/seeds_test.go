package downstream

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// Of random tests.
var (
	fixedSeed = flag.Uint64("seed", 0, "seed of the model; 0: WEIR_SEED, or a new one; it is printed")
	steps     = flag.Int("steps", 10_000, "steps of a model, over all of its worlds")
)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// brief is a request for the log.
func brief(req proto.Message) string {
	switch r := req.(type) {
	case *discoveryv3.DiscoveryRequest:
		return fmt.Sprintf("%s R=%v N=%s V=%.8s nack %v", scriptType(r.TypeUrl), r.ResourceNames, r.ResponseNonce, r.VersionInfo,
			r.ErrorDetail != nil)
	case *discoveryv3.DeltaDiscoveryRequest:
		return fmt.Sprintf("%s +%v -%v N=%s nack %v has %v", scriptType(r.TypeUrl), r.ResourceNamesSubscribe, r.ResourceNamesUnsubscribe,
			r.ResponseNonce, r.ErrorDetail != nil, slices.Sorted(maps.Keys(r.InitialResourceVersions)))
	}
	return ""
}

// contents are a message's resources and removals.
func (msg *message) contents() (bodies map[string]string, removed []string) {
	bodies = map[string]string{}
	for _, word := range msg.words {
		switch word[0] {
		case '!':
		case '-':
			removed = append(removed, word[1:])
		default:
			name, body, _ := strings.Cut(word, "=")
			bodies[name] = body
		}
	}
	return bodies, removed
}
