package downstream

import (
	"errors"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/weir-xds/weir/downstream/authz"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// loadRights are what the rules say of a stream of load reports. A report names clusters as the
// client has them, so no name is judged: a client that no rule fits reports nothing.
type loadRights struct {
	rules *authz.Rules // nil: there are none
	// Of rules: what they look at in the node of the first report, with what they set in it.
	said  *corev3.Node
	allow *authz.Allowances
}

// admitLoads holds a stream to the rules by its first report, and returns the report with what the
// rules set in its node. The error is the status that the stream ends with. It locks the server.
func (s *Server) admitLoads(l *loadStream, first []byte) ([]byte, error) {
	for {
		set := l.listener.settings.Load()
		rights, report, err := loadRightsOf(set, &l.from, first)
		who := deniedTo(set, &l.from, rights.node(), peerText(l.peer))
		if err != nil {
			if errors.Is(err, errNoRule) {
				s.decided(time.Now(), unfit(rights.allow), who, loadReports)
			}
			return nil, err
		}
		s.mu.Lock()
		// With others it would be missed by the Reconfigure that brought them.
		same := l.listener.settings.Load() == set
		if same {
			l.rights = rights
		}
		s.mu.Unlock()
		if same {
			if set.rules != nil {
				s.decided(time.Now(), &decisions{allowed: 1}, who)
			}
			return report, nil
		}
	}
}

// node is the client's node id, for people.
func (r *loadRights) node() string {
	if r == nil {
		return ""
	}
	return clip(r.said.GetId(), maxNodeShown)
}

// loadReports is said in the line of log of a stream of them that ends.
var loadReports = zap.Bool("load_reports", true)

// loadRightsOf are what the rules say of a stream by its first report, which is returned with what
// they set in its node. With errNoRule the rights are for the log alone.
func loadRightsOf(set *settings, from *caller, first []byte) (*loadRights, []byte, error) {
	if set.rules == nil {
		return &loadRights{}, first, nil
	}
	of := set.allowances(from)
	r := &loadstatsv3.LoadStatsRequest{}
	if err := proto.Unmarshal(first, r); err != nil {
		return nil, nil, undecoded(err)
	}
	r.Node = setIn(r.Node, of)
	if _, err := rightsOf(of, r.Node); err != nil {
		return &loadRights{said: r.Node, allow: of}, nil, err
	}
	if len(of.SetNode()) > 0 {
		var err error
		if first, err = encodeLoads(r); err != nil {
			return nil, nil, err
		}
	}
	said := &corev3.Node{Id: r.GetNode().GetId(), Cluster: r.GetNode().GetCluster(), Metadata: r.GetNode().GetMetadata()}
	return &loadRights{rules: set.rules, said: said, allow: of}, first, nil
}

// set returns a later report with what the rules set in its node, if it has one.
func (r *loadRights) set(report []byte) ([]byte, error) {
	if r.rules == nil || len(r.allow.SetNode()) == 0 {
		return report, nil
	}
	m := &loadstatsv3.LoadStatsRequest{}
	if err := proto.Unmarshal(report, m); err != nil {
		return nil, undecoded(err)
	}
	if m.Node == nil {
		return report, nil
	}
	m.Node = setIn(m.Node, r.allow)
	return encodeLoads(m)
}

func encodeLoads(r *loadstatsv3.LoadStatsRequest) ([]byte, error) {
	b, err := proto.Marshal(r)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "authorization: with what is set the load report cannot be encoded: %v", err)
	}
	return b, nil
}

// keeps reports whether a stream of load reports goes on by other rules: the client fits one, and
// is set the same.
func (r *loadRights) keeps(set *settings, from *caller) bool {
	switch {
	case set.rules == r.rules:
		return true
	case r.rules == nil:
		return false // what its node says was not kept
	case set.rules == nil:
		return len(r.allow.SetNode()) == 0
	}
	of, was := set.allowances(from), &rights{allowances: r.allow}
	if !was.setsSame(of) {
		return false
	}
	_, err := rightsOf(of, r.said)
	return err == nil
}

// reruleLoads ends the streams of load reports that do not go on by the rules in force. It locks
// the server.
func (s *Server) reruleLoads() {
	s.mu.Lock()
	var denied []*loadStream
	for l := range s.loads {
		if l.rights != nil && !l.rights.keeps(l.listener.settings.Load(), &l.from) {
			denied = append(denied, l)
		}
	}
	s.mu.Unlock()
	for _, l := range denied {
		l.end(errReruled)
	}
}
