package upstream

import (
	"fmt"
	"strconv"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// sendReports tells the origin what clients rejected (RELAY-35): one request for each report that
// is due, with the nonce of the response, which was acknowledged before. It returns when the next
// is due. What can be said of no response on this stream is dropped.
func (s *stream) sendReports(now time.Time) (next time.Time, err error) {
	due, next := s.lane.table.Reports(now)
	for _, r := range due {
		m := s.reportOf(r)
		if m == nil || !s.lane.table.Reported(r) {
			continue
		}
		s.lane.origin.counts.Type(r.TypeURL).NackReport()
		if err := s.send(m); err != nil {
			return next, err
		}
	}
	return next, nil
}

// reportOf is the request of a report; nil: the stream has no such response, or in SotW a newer
// one, and an older nonce is ignored. In SotW it repeats names and version, so that it asks for
// nothing new. It locks the lane.
func (s *stream) reportOf(r *relay.Report) proto.Message {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	t := s.types[r.TypeURL]
	if t == nil {
		return nil
	}
	nonce := t.nonceOf(r.Came)
	switch {
	case nonce == "", s.sotw && (len(t.pending) > 0 || t.deferredAsk):
		return nil
	case s.sotw:
		return &discoveryv3.DiscoveryRequest{
			TypeUrl: r.TypeURL, ResourceNames: t.all.names, ResourceLocators: t.all.locators, VersionInfo: t.accepted,
			ResponseNonce: nonce, ErrorDetail: summary(r),
		}
	}
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeURL, ResponseNonce: nonce, ErrorDetail: summary(r)}
}

// mostSaid bounds what is passed on of a client's message, in bytes.
const mostSaid = 2 << 10

// summary is the error_detail of a report.
func summary(r *relay.Report) *status.Status {
	text := "1 client rejects"
	if r.Clients > 1 {
		text = strconv.Itoa(r.Clients) + " clients reject"
	}
	if r.Resource == "" {
		text += " the list"
	} else {
		text += fmt.Sprintf(" %q", printable(r.Resource))
	}
	if r.Message != "" {
		text += "; the first says: " + printableTo(mostSaid, r.Message)
	}
	return &status.Status{Code: int32(codes.InvalidArgument), Message: text}
}
