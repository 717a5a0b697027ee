package downstream

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// errAged is UNAVAILABLE because clients handle that well: they reconnect at once, state what they
// hold, and log no warning.
var errAged = status.Error(codes.Unavailable, "the stream has reached timing.max_stream_age: connect again, and resume by version")

// ageEnd returns a random time in the last tenth of a stream's age, so that clients that connected
// together do not reconnect together. It is zero if age is zero (no limit).
func ageEnd(opened time.Time, age time.Duration) time.Time {
	if age <= 0 {
		return time.Time{}
	}
	return opened.Add(age - rand.N(age/10+1))
}

// keepaliveParams are those of a listener's connections.
//
// grpc sends GOAWAY at MaxConnectionAge, varied by a tenth: between 0.72 and 0.88 of the age of a
// stream that was opened with its connection. What the client opens after that goes to a new
// connection, so none of its streams is reopened on a connection that is about to close. Streams
// opened later are cut off when the connection's grace ends: grpc sends no pings after GOAWAY, so
// it would not notice a dead peer.
func keepaliveParams(t Timing, idle time.Duration) keepalive.ServerParameters {
	p := keepalive.ServerParameters{Time: t.Keepalive.Time, Timeout: t.Keepalive.Timeout, MaxConnectionIdle: idle}
	if age := t.MaxStreamAge; age > 0 {
		p.MaxConnectionAge = age * 8 / 10
		p.MaxConnectionAgeGrace = age * 3 / 10 // at least until 1.02 of the age
	}
	return p
}
