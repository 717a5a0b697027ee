package xds

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of envoy.config.cluster.v3.Cluster: all that is read of it (WARM-1).
const (
	clusterName       = 1
	clusterType       = 2
	clusterEDS        = 3
	clusterTypeIsEDS  = 3
	clusterEDSService = 2
)

// EndpointsOf returns the name of the endpoints that a Cluster waits for after it was sent again
// (WARM-1): "" if it needs none, Wildcard if that cannot be told.
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
		return "" // such a cluster has to name its endpoints (NAME-8)
	}
	return name
}

// HasEndpoints reports whether a ClusterLoadAssignment has endpoints, or may have. It has none if
// all its fields are known to have none.
func HasEndpoints(payload []byte) bool {
	f := Walk(payload)
	for f.Next() {
		switch n := f.Number; {
		case f.IsBytes(2): // endpoints of one locality
			if localityHasEndpoints(f.Bytes) {
				return true
			}
		case f.Bytes != nil && (n == 1 || n == 4 || n == 5): // name, policy, named_endpoints
		case f.Bytes == nil && f.Type != protowire.VarintType: // not a field of it
		default:
			return true
		}
	}
	return f.Err() != nil
}

// localityHasEndpoints is HasEndpoints for one locality.
func localityHasEndpoints(b []byte) bool {
	f := Walk(b)
	for f.Next() {
		switch n := f.Number; {
		case f.Bytes != nil && (n == 1 || n == 3 || n == 6 || n == 9): // locality to metadata
		case f.IsVarint(5): // priority
		case f.IsBytes(7) && len(f.Bytes) == 0: // a list instead of lb_endpoints
		case f.Bytes == nil && f.Type != protowire.VarintType: // not a field of it
		default:
			return true
		}
	}
	return f.Err() != nil
}
