package downstream

import (
	"time"

	"github.com/weir-xds/weir/metrics"
)

// exemplar names the client of a measured propagation of a change received at a time. It is empty
// if nobody asked for exemplars.
func (s *session) exemplar(lag *metrics.Propagation, st *streamType, received time.Time) metrics.Exemplar {
	if !lag.Exemplars() {
		return metrics.Exemplar{}
	}
	e := metrics.Exemplar{Stream: s.id, Node: s.nodeID}
	if s.cfg.traceID != nil {
		e.Trace = s.cfg.traceID(st.typeURL, received)
	}
	return e
}
