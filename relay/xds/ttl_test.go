package xds

import (
	"math"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestLongTTL: a TTL that no clock of ours can count to is a very long one, and neither an error
// nor over (TTL-1, TTL-13).
func TestLongTTL(t *testing.T) {
	now := time.Unix(1e9, 0)
	const year = 365 * 24 * 60 * 60
	for _, test := range []struct {
		seconds int64
		nanos   int32
		want    time.Duration
	}{
		{5, 7, 5*time.Second + 7},
		{90 * year, 0, 90 * year * time.Second},
		{200 * year, 0, LongestTTL}, // beyond what the snapshot can write
		{292 * year, 999_999_999, LongestTTL},
		{300 * year, 0, LongestTTL},
		{10_000 * year, 999_999_999, LongestTTL}, // the longest a Duration may be
		{math.MaxInt64, 999_999_999, LongestTTL},
		{-5, 0, -5 * time.Second},
		{math.MinInt64, -999_999_999, -LongestTTL},
	} {
		u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n", Resources: []*discoveryv3.Resource{
			{Name: "a", Version: "1", Ttl: &durationpb.Duration{Seconds: test.seconds, Nanos: test.nanos}},
		}})
		if reject != nil {
			t.Errorf("%d s are refused: %v", test.seconds, reject)
			continue
		}
		r := &u.Resources[0]
		at, over := r.Expiry(now)
		if r.TTL != test.want || over != (test.want <= 0) || !over && (at.Before(now) || at.UnixNano() < now.UnixNano()) {
			t.Errorf("%d s are a TTL of %v until %v, over %v", test.seconds, r.TTL, at, over)
		}
	}
}
