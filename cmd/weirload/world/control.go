package world

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Plane is a control plane as the control endpoint uses it.
type Plane interface {
	// Change gives the resources with these indices the stamp, as one transaction. It returns when
	// nothing more is needed for every client that wants one of them to be sent it. There is one
	// call at a time.
	Change(indices []int, s Stamp) error
	// Counts returns what clients have cost so far.
	Counts() Counts
}

// Counts is what the clients of a plane have cost it since its start. Bytes are those of messages,
// without their frames.
type Counts struct {
	Streams  int64 `json:"streams"`
	Requests int64 `json:"requests"`
	Names    int64 `json:"names"`
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	Nacks    int64 `json:"nacks"`
}

// Counter counts the events behind Counts.
type Counter struct{ Streams, Requests, Names, BytesIn, BytesOut, Nacks atomic.Int64 }

// Counts returns the counts so far.
func (c *Counter) Counts() Counts {
	return Counts{
		Streams: c.Streams.Load(), Requests: c.Requests.Load(), Names: c.Names.Load(),
		BytesIn: c.BytesIn.Load(), BytesOut: c.BytesOut.Load(), Nacks: c.Nacks.Load(),
	}
}

// Changed is the answer to POST /change.
type Changed struct {
	Stamp string   `json:"stamp"` // its digits
	Names []string `json:"names"` // the first 100
}

// Churned is the answer to POST /churn.
type Churned struct {
	Changes int     `json:"changes"`
	Seconds float64 `json:"seconds"` // longer than asked for if the plane cannot keep pace
}

// The bounds of a request.
const (
	MaxRate = 100_000
	MaxFor  = 10 * time.Minute
	// NamesMax is how many names an answer has.
	NamesMax = 100
)

// Control serves the endpoint: POST /change?count=K, POST /repeat, POST /churn?rate=R&for=10s,
// GET /counts.
func Control(w *World, p Plane) http.Handler {
	c := &control{world: w, plane: p}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /change", c.change)
	mux.HandleFunc("POST /repeat", c.repeat)
	mux.HandleFunc("POST /churn", c.churn)
	mux.HandleFunc("GET /counts", func(rw http.ResponseWriter, _ *http.Request) { answer(rw, p.Counts()) })
	return mux
}

type control struct {
	world *World
	plane Plane

	mu   sync.Mutex // guards what follows; held during changes, so that there is one at a time
	next int        // index of the resource to change next
	// The last change.
	stamp   Stamp
	indices []int
}

// turn changes the next resources, once each.
func (c *control) turn(count int) (Stamp, []int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	indices := make([]int, count)
	for i := range indices {
		indices[i] = (c.next + i) % c.world.Len()
	}
	s := Now()
	if err := c.plane.Change(indices, s); err != nil {
		return 0, nil, err
	}
	c.next = (c.next + count) % c.world.Len()
	c.stamp, c.indices = s, indices
	return s, indices, nil
}

// repeat makes the last change once more: a plane of shared bytes sends what its clients have.
func (c *control) repeat(rw http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.indices) == 0 {
		http.Error(rw, "nothing has changed yet", http.StatusConflict)
		return
	}
	if err := c.plane.Change(c.indices, c.stamp); err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(rw, Changed{Stamp: c.stamp.Digits()})
}

func (c *control) change(rw http.ResponseWriter, r *http.Request) {
	count, err := number(r, "count", 1, c.world.Len())
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	s, indices, err := c.turn(count)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	out := Changed{Stamp: s.Digits()}
	for _, i := range indices[:min(len(indices), NamesMax)] {
		out.Names = append(out.Names, Name(i))
	}
	answer(rw, out)
}

func (c *control) churn(rw http.ResponseWriter, r *http.Request) {
	rate, err := number(r, "rate", 0, MaxRate)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	d, err := time.ParseDuration(r.FormValue("for"))
	if err != nil || d <= 0 || d > MaxFor || rate == 0 {
		http.Error(rw, fmt.Sprintf("rate is to be at least 1, for more than 0 and at most %v", MaxFor), http.StatusBadRequest)
		return
	}
	began := time.Now()
	n, err := c.keepPace(r.Context(), rate, d)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(rw, Churned{Changes: n, Seconds: time.Since(began).Seconds()})
}

// keepPace makes the changes that are due, and sleeps until the next. It makes as many as the rate
// demands, whatever a change takes, in up to twice the time.
func (c *control) keepPace(ctx context.Context, rate int, d time.Duration) (int, error) {
	began, total := time.Now(), int(d.Seconds()*float64(rate))
	pause := time.NewTimer(0)
	defer pause.Stop()
	for n := 0; n < total; {
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-pause.C:
		}
		passed := time.Since(began)
		if passed > 2*d {
			return n, nil
		}
		for due := min(total, 1+int(passed.Seconds()*float64(rate))); n < due; n++ {
			if _, _, err := c.turn(1); err != nil {
				return n, err
			}
		}
		pause.Reset(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
	}
	return total, nil
}

// number reads an integer parameter; if it is missing, least.
func number(r *http.Request, key string, least, most int) (int, error) {
	text := r.FormValue(key)
	if text == "" {
		return least, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: %q is not a number between %d and %d", key, text, least, most)
	}
	return n, nil
}

func answer(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(v) // an error means that the client has left
}
