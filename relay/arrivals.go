package relay

import (
	"sync/atomic"
	"time"
)

// Arrivals are the bytes that a connection to an origin receives. While a message is still
// arriving, no pause says that a set is complete (RELAY-6): over a slow link a large response takes
// longer than any. Whoever reads the connection writes it, and the table looks at it when a pause
// would be over. Safe for concurrent use.
type Arrivals struct {
	at   atomic.Int64 // of the last bytes, in Unix nanoseconds
	part atomic.Int64 // bytes since the last whole message
}

// partOfMessage is how many bytes must have come to be part of a message and not what HTTP/2 says
// besides: pings, window updates, the headers of a stream.
const partOfMessage = 1 << 10

// Bytes notes that n bytes came.
func (a *Arrivals) Bytes(now time.Time, n int) {
	a.part.Add(int64(n))
	a.at.Store(now.UnixNano())
}

// Message notes that a whole message was received. What has come of the next by then is not
// counted, and so not seen before more of it comes.
func (a *Arrivals) Message() { a.part.Store(0) }

// Over is when a pause is over that began at since, or with the last bytes of a message that is
// still arriving.
func (a *Arrivals) Over(since time.Time, pause time.Duration) time.Time {
	if a != nil && a.part.Load() >= partOfMessage {
		if at := time.Unix(0, a.at.Load()); at.After(since) {
			since = at
		}
	}
	return since.Add(pause)
}

// Over says which connection the streams to come use.
func (l *Lane) Over(a *Arrivals) { l.arrivals.Store(a) }
