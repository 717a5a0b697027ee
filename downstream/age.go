package downstream

import (
	"math/rand/v2"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errAged is UNAVAILABLE because clients handle that well: they reconnect at once, state what they
// hold, and log no warning.
var errAged = status.Error(codes.Unavailable, "the stream has reached timing.max_stream_age: connect again, and resume by version")

// lifespan is how long the streams of a connection may last (RELAY-59). A client chooses a replica
// when it connects, so this is what spreads clients over replicas (TestBalance).
type lifespan struct {
	told time.Time // when it is sent GOAWAY; zero: never
	ends time.Time // when its last stream ends
}

const (
	// upTimes is how many times as long as the process has been up a new connection may last. Those
	// who came while other replicas were restarted, or were full, choose again soon.
	upTimes = 3
	// ageParts is which part of the age it may last at least.
	ageParts = 6
)

// newLifespan is that of a connection that is made now, to a process that has been up for so long:
// a random time between a half and the whole of what it may last, so that clients that came
// together do not leave together. draw returns a random number below n. There is none if age is
// zero.
func newLifespan(now time.Time, up, age time.Duration, draw func(n int64) int64) lifespan {
	if age <= 0 {
		return lifespan{}
	}
	most := age
	if up < age/upTimes {
		most = max(upTimes*up, age/ageParts)
	}
	life := most/2 + time.Duration(draw(int64(most/2)+1))
	return lifespan{told: now.Add(life - life/10), ends: now.Add(life)}
}

// end returns when a stream ends that is opened now: a random time after its connection was told to
// go; zero: never.
func (l lifespan) end(now time.Time, draw func(n int64) int64) time.Time {
	if l.told.IsZero() {
		return time.Time{}
	}
	from := l.told
	if now.After(from) {
		from = now // its client opens streams on a connection that it was told to leave
	}
	return from.Add(time.Duration(draw(int64(max(0, l.ends.Sub(from))) + 1)))
}

// aged is GOAWAY with no error: the client opens no more streams on the connection, and those that
// are open go on.
var aged = goAway(http2.ErrCodeNo, "")

// grow gives the connection its lifespan. It is told to go, and closed when its streams have ended.
// What the client opens after that goes to a new connection, so none of its streams is reopened on
// one that is about to close. grpc's own MaxConnectionAge is one for all connections, and after its
// GOAWAY grpc sends no pings, so it would not notice a dead peer.
func (c *connection) grow(age time.Duration) {
	now := time.Now()
	if c.life = newLifespan(now, now.Sub(c.server.began), age, rand.Int64N); c.life.told.IsZero() {
		return
	}
	raw := c.raw // the second timer keeps this alone, which is small
	c.framed.bye = time.AfterFunc(c.life.told.Sub(now), func() {
		over := time.Until(c.life.ends) + turnAway
		time.AfterFunc(over, func() { _ = raw.Close() }) // it may be closed already
		c.framed.frames.send(c.framed.out, aged)
	})
}

// Close is part of net.Conn. What is closed need not be told to go.
func (c *framedConn) Close() error {
	c.client.server.receiving.end(c.client)
	if c.bye != nil {
		c.bye.Stop()
	}
	return c.Conn.Close()
}
