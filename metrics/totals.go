package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Totals are sums of counters since the start, for the charts of the admin page.
type Totals struct {
	Responses, Bytes, Nacks, Ended float64 // of client streams
}

// Totals adds up what was counted so far. It takes no lock.
func (m *Metrics) Totals() (t Totals) {
	if m == nil {
		return t
	}
	for _, d := range m.downstream {
		t.Responses += valueOf(d.responses)
		t.Bytes += valueOf(d.bytes)
		t.Nacks += valueOf(d.nacks)
	}
	for _, c := range m.ended {
		t.Ended += valueOf(c)
	}
	return t
}

func valueOf(c prometheus.Counter) float64 {
	var out dto.Metric
	if c.Write(&out) != nil {
		return 0 // cannot happen: it is a counter
	}
	return out.GetCounter().GetValue()
}
