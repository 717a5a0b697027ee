package downstream

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// errAged is UNAVAILABLE because clients take that for what it is: they come again at once, with
// what they hold, and none warns of it.
var errAged = status.Error(codes.Unavailable, "the stream has reached timing.max_stream_age: connect again, and resume by version")

// ageEnd is a random time in the last tenth of a stream's age, so that clients that came together
// do not go together; zero without an age.
func ageEnd(opened time.Time, age time.Duration) time.Time {
	if age <= 0 {
		return time.Time{}
	}
	return opened.Add(age - rand.N(age/10+1))
}

// keepaliveParams are those of a listener's connections. GOAWAY is sent first, by grpc, which
// varies the time by a tenth: between 0.72 and 0.88 of the age of a stream that came with its
// connection. From then on what the client opens is on a new connection, and none of its streams
// ends into one that is going away. Streams that came later on the connection are cut off at its
// end, since grpc sends no pings after GOAWAY and would not find out that the peer is dead.
func keepaliveParams(t Timing, idle time.Duration) keepalive.ServerParameters {
	p := keepalive.ServerParameters{Time: t.Keepalive.Time, Timeout: t.Keepalive.Timeout, MaxConnectionIdle: idle}
	if age := t.MaxStreamAge; age > 0 {
		p.MaxConnectionAge = age * 8 / 10
		p.MaxConnectionAgeGrace = age * 3 / 10 // at least until 1.02 of the age
	}
	return p
}
