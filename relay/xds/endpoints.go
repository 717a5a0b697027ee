package xds

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of envoy.config.cluster.v3.Cluster, all that is ever read of it (WARM-1).
const (
	clusterName       = 1
	clusterType       = 2
	clusterEDS        = 3
	clusterTypeIsEDS  = 3
	clusterEDSService = 2
)

// EndpointsOf is the name of the endpoints that a Cluster has to be sent again to become warm: ""
// for a cluster that has none of its own, Wildcard if that cannot be told.
func EndpointsOf(payload []byte) string {
	var name, service string
	eds := false
	f := Walk(payload)
	for f.Next() {
		switch {
		case f.IsBytes(clusterName):
			name = string(f.Bytes)
		case f.IsVarint(clusterType):
			eds = f.Value == clusterTypeIsEDS
		case f.IsBytes(clusterEDS):
			eds := Walk(f.Bytes)
			for eds.Next() {
				if eds.IsBytes(clusterEDSService) {
					service = string(eds.Bytes)
				}
			}
			if eds.Err() != nil {
				return Wildcard
			}
		}
	}
	switch {
	case f.Err() != nil:
		return Wildcard
	case !eds:
		return ""
	case service != "":
		return NameKey(service)
	case IsNewStyle(name):
		return "" // such a cluster must name its endpoints (NAME-8)
	}
	return name
}

// HasEndpoints reports whether a ClusterLoadAssignment has endpoints, or may have: it has none if
// nothing is in it but fields that are known to bring none.
func HasEndpoints(payload []byte) bool {
	f := Walk(payload)
	for f.Next() {
		switch n := f.Number; {
		case f.IsBytes(2): // endpoints, of one locality
			if localityHasEndpoints(f.Bytes) {
				return true
			}
		case f.Bytes != nil && (n == 1 || n == 4 || n == 5): // cluster_name, policy, named_endpoints
		case f.Bytes == nil && f.Type != protowire.VarintType: // none of these is a field of it
		default:
			return true
		}
	}
	return f.Err() != nil
}

// localityHasEndpoints is the same of the endpoints of one locality.
func localityHasEndpoints(b []byte) bool {
	f := Walk(b)
	for f.Next() {
		switch n := f.Number; {
		case f.Bytes != nil && (n == 1 || n == 3 || n == 6 || n == 9): // locality, weight, proximity, metadata
		case f.IsVarint(5): // priority
		case f.IsBytes(7) && len(f.Bytes) == 0: // a list in place of lb_endpoints
		case f.Bytes == nil && f.Type != protowire.VarintType: // none of these is a field of it
		default:
			return true
		}
	}
	return f.Err() != nil
}
