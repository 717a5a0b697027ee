package redteam

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// pollBomb is the body of a poll.
type pollBomb struct {
	name string
	text func() string
	zip  bool
}

// detailsOf are an error_detail with so many google.protobuf.Any in one another.
func detailsOf(levels int) string {
	open, shut := `{"@type":"`+anyURL+`","value":`, `}`
	return `{"node":{"id":"bad","cluster":"good"},"error_detail":{"details":[` +
		strings.Repeat(open, levels) + `{"@type":"` + anyURL + `"}` + strings.Repeat(shut, levels) + `]}}`
}

// listOf is a poll whose node has a value in its metadata.
func metadataOf(value string) string {
	return `{"node":{"id":"bad","cluster":"good","metadata":{"a":` + value + `}}}`
}

var pollBombs = []pollBomb{
	{"any in any in error_detail", func() string { return detailsOf(8_500) }, false},
	{"any in any in error_detail, compressed", func() string { return detailsOf(8_500) }, true},
	{"many numbers in metadata", func() string { return metadataOf("[" + strings.Repeat("0,", most) + "0]") }, true},
	{"many objects in metadata", func() string { return metadataOf("[" + strings.Repeat("{},", most*2/3) + "{}]") }, true},
	{"deep arrays in metadata", func() string { return metadataOf(strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)) }, true},
	{"arrays without an end", func() string { return `{"node":{"metadata":{"a":` + strings.Repeat("[", 2*most) }, true},
	{"many names", func() string { return `{"resource_names":[` + strings.Repeat(`"",`, most*2/3) + `""]}` }, true},
	{"many locators", func() string { return `{"resource_locators":[` + strings.Repeat(`{},`, most*2/3) + `{}]}` }, true},
	{"many extensions", func() string { return `{"node":{"extensions":[` + strings.Repeat(`{},`, most*2/3) + `{}]}}` }, true},
	{"many details", func() string {
		return `{"error_detail":{"details":[` + strings.Repeat(`{},`, most*2/3) + `{}]}}`
	}, true},
}

var pollSieges = func() []siege {
	var all []siege
	for _, b := range pollBombs {
		name := "poll: " + b.name
		attacks[name] = func(ctx context.Context, a *attacker) error {
			return a.post(ctx, 4, "http://"+a.PollsAt+pollPath, b.text(), b.zip)
		}
		all = append(all, siege{name: name, play: besidePoller(by(name))})
	}
	return all
}()

// post sends a body again and again, n at a time.
func (a *attacker) post(ctx context.Context, n int, url, text string, compressed bool) error {
	body := []byte(text)
	if compressed {
		body = zip(body)
	}
	client := a.web()
	client.Timeout = 0
	defer client.CloseIdleConnections()
	ctx, cancel := a.begin(ctx)
	defer cancel()
	return a.each(ctx, n, func(int) {
		ctx, _, cancel := patiently(ctx, late)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			a.add("requests that cannot be made", 1)
			return
		}
		if compressed {
			req.Header.Set("Content-Encoding", "gzip")
		}
		resp, err := client.Do(req)
		if err != nil {
			a.add("requests without an answer", 1)
			pause(ctx, 10*time.Millisecond)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // the status is what counts
		_ = resp.Body.Close()
		a.add("answered "+resp.Status, 1)
	})
}

// besidePoller has a good client poll meanwhile, and asserts that it is answered.
func besidePoller(play func(*pod) string) func(*pod) string {
	return func(p *pod) string {
		stop := make(chan struct{})
		var took []time.Duration
		var all sync.WaitGroup
		all.Go(func() { took = p.poller(stop) })
		said := play(p)
		close(stop)
		all.Wait()
		slowest := slices.Max(append(took, 0))
		if slowest > late {
			p.Errorf("a good client's poll took %v", slowest)
		}
		return fmt.Sprintf("%d good polls, the slowest %.0f ms; %s", len(took), slowest.Seconds()*1000, said)
	}
}

// poller is how long each poll of a good client took, until stop is closed. Every other one is
// compressed, and long enough to wait for its turn.
func (p *pod) poller(stop <-chan struct{}) (took []time.Duration) {
	client := http.Client{Timeout: 4 * late, Transport: &http.Transport{DisableKeepAlives: true}}
	for n := 0; ; n++ {
		req, _ := http.NewRequest(http.MethodPost, "http://"+p.address(pollPort)+pollPath, strings.NewReader(goodPoll))
		if n%2 == 1 {
			req, _ = http.NewRequest(http.MethodPost, "http://"+p.address(pollPort)+pollPath, bytes.NewReader(goodLongPoll))
			req.Header.Set("Content-Encoding", "gzip")
		}
		begin := time.Now()
		resp, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // the status is what counts
			_ = resp.Body.Close()
		}
		took = append(took, time.Since(begin))
		if (err != nil || resp.StatusCode != http.StatusOK) && !p.weir.Ended() {
			p.Errorf("the poll of a good client: %v, %+v", err, resp)
		}
		select {
		case <-stop:
			return took
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// goodPoll is what a good client asks, and goodLongPoll the same in many words.
const goodPoll = `{"node":{"id":"poller","cluster":"good"}}`

var goodLongPoll = zip([]byte(fmt.Sprintf(`{"node":{"id":"poller","cluster":"good","metadata":{"long":%q}}}`, strings.Repeat("x", 300<<10))))

// drainSieges end weir in the middle of polls that take long.
var drainSieges = func() []siege {
	var all []siege
	for _, of := range []string{"any in any in error_detail", "many numbers in metadata"} {
		name := "poll: " + of
		all = append(all, siege{name: "drain during " + name, ends: true, play: drained(name)})
	}
	return all
}()

// drained drains weir while an attack goes on.
func drained(name string) func(*pod) string {
	return func(p *pod) string {
		longer := func(_ *pod, who *target) { who.For = podDrain }
		var all sync.WaitGroup
		said := ""
		all.Go(func() { said = by(name, longer)(p) })
		time.Sleep(min(500*time.Millisecond, p.length))
		took := p.drain()
		all.Wait()
		return fmt.Sprintf("drained in %.1f s of %v; %s", took.Seconds(), podDrain, said)
	}
}
