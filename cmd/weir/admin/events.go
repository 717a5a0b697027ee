package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

const (
	// mostEvents bounds the streams of events that are open at a time.
	mostEvents = 64
	// eventsBeat is how long a stream is silent at most. The page takes a longer silence for the
	// loss of its stream.
	eventsBeat = 5 * time.Second
	// eventsWrite is how long a reader may take for one event.
	eventsWrite = 5 * time.Second
)

// events tells a page how everything stands: an event each time that it has changed, computed once
// for all pages. An idle stream has a beat from time to time. A stream ends when its reader is
// slow, is not admitted any more, has had its time (lease), or the process ends. A browser then
// asks again.
func (a *Admin) events(w http.ResponseWriter, r *http.Request) {
	if err := known(r.URL.RawQuery, nil); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case a.eventRooms <- struct{}{}:
		defer func() { <-a.eventRooms }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("%d streams of events are open, which is all there may be", mostEvents), http.StatusServiceUnavailable)
		return
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the server's would end the stream; a recorder has none
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no")
	told := time.Time{}
	var last []byte
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.ended:
			return
		case <-r.Context().Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		s := a.board.get(now)
		var text []byte
		switch {
		case !bytes.Equal(s.body, last):
			text, last = s.event(), s.body
		case now.Sub(told) >= eventsBeat-boardFresh/2:
			text = fmt.Appendf(nil, "event: beat\ndata: %q\n\n", now.UTC().Format(time.RFC3339Nano))
		}
		if text != nil {
			if leaseOf(r.Context()).over() != nil {
				return
			}
			_ = out.SetWriteDeadline(now.Add(eventsWrite))
			if _, err := w.Write(text); err != nil || out.Flush() != nil {
				return
			}
			told = now
		}
		timer.Reset(min(max(time.Until(s.due), time.Millisecond), eventsBeat))
	}
}
