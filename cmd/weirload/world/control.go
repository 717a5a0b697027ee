package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
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

// Control serves the endpoint: POST /change?count=K, POST /churn?rate=R&for=10s, GET /counts, and
// profiles of the plane below /debug/pprof/.
func Control(w *World, p Plane) http.Handler {
	c := &control{world: w, plane: p}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /change", c.change)
	mux.HandleFunc("POST /churn", c.churn)
	mux.HandleFunc("GET /counts", func(rw http.ResponseWriter, _ *http.Request) { answer(rw, p.Counts()) })
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	return mux
}

type control struct {
	world *World
	plane Plane

	mu   sync.Mutex // guards what follows; held during changes, so that there is one at a time
	next int        // index of the resource to change next
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
	return s, indices, nil
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

// Client calls a plane's control endpoint.
type Client struct {
	Addr string // host:port
	HTTP *http.Client
}

// Change changes the next count resources, and returns the names of the first 100 of them.
func (c *Client) Change(ctx context.Context, count int) (Stamp, []string, error) {
	var out Changed
	if err := c.ask(ctx, http.MethodPost, fmt.Sprintf("/change?count=%d", count), &out); err != nil {
		return 0, nil, err
	}
	s, ok := ParseDigits(out.Stamp)
	if !ok {
		return 0, nil, fmt.Errorf("control %s: %q is no stamp", c.Addr, out.Stamp)
	}
	return s, out.Names, nil
}

// Churn changes rate resources a second, one at a time, and returns after d.
func (c *Client) Churn(ctx context.Context, rate int, d time.Duration) (Churned, error) {
	var out Churned
	query := url.Values{"rate": {fmt.Sprint(rate)}, "for": {d.String()}}
	err := c.ask(ctx, http.MethodPost, "/churn?"+query.Encode(), &out)
	return out, err
}

// Counts returns what the plane's clients have cost it.
func (c *Client) Counts(ctx context.Context) (Counts, error) {
	var out Counts
	err := c.ask(ctx, http.MethodGet, "/counts", &out)
	return out, err
}

func (c *Client) ask(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Addr+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("control %s: %w", c.Addr, err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("control %s: %w", c.Addr, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("control %s: %w", c.Addr, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("control %s: %s: %s", c.Addr, resp.Status, strings.TrimSpace(string(body)))
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("control %s: %w", c.Addr, err)
	}
	return nil
}

// Ready is printed by a plane when it serves, as one line of JSON.
type Ready struct {
	XDS     string `json:"xds"`
	Control string `json:"control"`
	PID     int    `json:"pid"`
}

// Serve serves a plane until ctx ends: its server at the given address, and the control endpoint on
// loopback, at a port that the system chooses.
func Serve(ctx context.Context, w *World, p Plane, server *grpc.Server, address string, out io.Writer) error {
	xds, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		_ = xds.Close()
		return err
	}
	// Clients that connect from here on wait in the listener's queue.
	ready := Ready{XDS: xds.Addr().String(), Control: control.Addr().String(), PID: os.Getpid()}
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		_, _ = xds.Close(), control.Close()
		return err
	}
	web := &http.Server{Handler: Control(w, p), ReadHeaderTimeout: 10 * time.Second}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return server.Serve(xds) })
	parts.Go(func() error {
		if err := web.Serve(control); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	parts.Go(func() error {
		<-ctx.Done()
		server.Stop()
		return web.Close()
	})
	return parts.Wait()
}
