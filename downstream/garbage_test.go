package downstream

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestEndedStreamIsGarbage: nothing that lives refers to a stream that has ended, in whatever way,
// nor to a connection that is closed. The writer pool's queue did, to the last stream it had, and that
// kept all that its connection ever had.
func TestEndedStreamIsGarbage(t *testing.T) {
	ways := map[string]struct {
		client relaytest.ClientConfig
		end    func(*live, *relaytest.Client)
		closed bool // the connection is, too
	}{
		"the client cancels":            {end: func(_ *live, c *relaytest.Client) { c.Cancel() }},
		"the client says no more":       {end: func(_ *live, c *relaytest.Client) { c.HalfClose() }},
		"a request cannot be decoded":   {end: func(_ *live, c *relaytest.Client) { c.SendRaw([]byte{0xff}) }},
		"a request is too long":         {end: func(_ *live, c *relaytest.Client) { c.SendRaw(make([]byte, 3<<20)) }},
		"the connection is closed":      {end: func(l *live, _ *relaytest.Client) { l.net.CloseConns() }, closed: true},
		"weir ends it":                  {end: func(l *live, _ *relaytest.Client) { l.endAll() }},
		"weir ends it, nobody reads":    {client: relaytest.ClientConfig{NeverRead: true}, end: func(l *live, _ *relaytest.Client) { l.endAll() }},
		"nobody reads, it is cancelled": {client: relaytest.ClientConfig{NeverRead: true}, end: func(_ *live, c *relaytest.Client) { c.Cancel() }},
		"nobody reads, it is closed": {
			client: relaytest.ClientConfig{NeverRead: true}, end: func(l *live, _ *relaytest.Client) { l.net.CloseConns() }, closed: true,
		},
	}
	for name, way := range ways {
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			t.Run(name+", "+string(dialect), func(t *testing.T) {
				l := newLive(t, relaytest.TCP(), func(cfg *Config, _ *ListenerConfig) {
					cfg.Limits.RequestBytes, cfg.Timing.MaxStreamAge = 1<<20, 24*time.Hour
				})
				way.client.Dialect = dialect
				c := l.open(t, way.client)
				c.Subscribe(eds, "a")
				l.asked(t, 1)
				// more than a client takes that does not read
				l.say(eds, "a="+strings.Repeat("x", 1<<20))
				streams, connections := l.remains()
				way.end(l, c)
				await(t, "the stream is collected", func() bool { return collected(streams) })
				if way.closed {
					await(t, "so is its connection", func() bool { return collected(connections) })
				}
			})
		}
	}
}

// endAll ends every stream.
func (l *live) endAll() {
	for _, st := range l.server.list() {
		st.end(errReconfigured)
	}
}

// remains are the streams there are and their connections, to see what becomes of them.
func (l *live) remains() (streams []weak.Pointer[stream], connections []weak.Pointer[connection]) {
	for _, st := range l.server.list() {
		streams, connections = append(streams, weak.Make(st)), append(connections, weak.Make(st.conn))
	}
	return streams, connections
}

func collected[T any](ps []weak.Pointer[T]) bool {
	runtime.GC()
	for _, p := range ps {
		if p.Value() != nil {
			return false
		}
	}
	return len(ps) > 0
}
