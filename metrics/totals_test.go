package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTotalsOfEnds: streams are added up whatever the reason of their end.
func TestTotalsOfEnds(t *testing.T) {
	m := New(prometheus.NewPedanticRegistry())
	for _, reason := range []string{"client", "client", "certificate"} {
		m.StreamEnded(reason)
	}
	if got := m.Totals().Ended; got != 3 {
		t.Errorf("%v streams have ended", got)
	}
}
