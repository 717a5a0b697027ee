package seed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/metrics"
)

const (
	// grace is how long the other siblings have to answer once one has that has something.
	grace = time.Second
	// fillWithin is how long a process without a deadline waits for more than it needs.
	fillWithin = 10 * time.Second
	// maxPeers bounds how many siblings are asked.
	maxPeers = 256
)

// Peer is a sibling to ask, or all that a name stands for.
type Peer struct {
	Address string // host:port
	// Each: each address of the name is a sibling.
	Each bool
}

// Config is what a Search needs.
type Config struct {
	// Process is that of the own head, which is left out.
	Process    string
	Deployment string
	// Origins are the names of those that are configured.
	Origins []string
	Peers   []Peer
	// File may be restored if there is no sibling; empty: there is none.
	File string
	// Keys open states and files; nil: they have to be in plain text.
	Keys *snapshot.Keys
	// MaxBytes bounds a state.
	MaxBytes int64
	// Room says how much memory states may take; nil: any amount.
	Room snapshot.Room
	// Dial connects to a sibling, and ends only with one that may be one.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolve returns the addresses of a name; nil: the system's resolver does.
	Resolve func(ctx context.Context, name string) ([]string, error)
	Metrics *metrics.Metrics // nil: nothing is counted
	Log     *zap.Logger
}

// Search looks for something that a process without a snapshot can start with.
type Search struct {
	cfg  Config
	http http.Client
}

// Answer is the head of a sibling.
type Answer struct {
	Address string
	Head    Head
	// Unfit is why the state of the sibling cannot be taken; nil: it can.
	Unfit error
}

// New makes a Search.
func New(cfg Config) *Search {
	if cfg.Resolve == nil {
		cfg.Resolve = net.DefaultResolver.LookupHost
	}
	return &Search{cfg: cfg, http: http.Client{
		Transport: &http.Transport{
			DialContext: cfg.Dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a sibling must not redirect") },
	}}
}

// Heads asks all siblings what they have. It returns when all have answered, or ctx has ended, or
// shortly after one has answered that has something. Answers that are no sibling's of this
// deployment are left out.
func (s *Search) Heads(ctx context.Context) []Answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addresses := s.addresses(ctx)
	type result struct {
		Answer
		err error
	}
	results := make(chan result, len(addresses))
	room := &budget{}
	room.left.Store(maxHeads)
	for _, address := range addresses {
		go func() {
			head, err := s.head(ctx, address, room)
			results <- result{Answer{Address: address, Head: head}, err}
		}()
	}
	var out []Answer
	var soon <-chan time.Time
	for range addresses {
		var r result
		select {
		case r = <-results:
		case <-ctx.Done():
			s.cfg.Log.Warn("some siblings have not answered in time", zap.Int("answered", len(out)), zap.Int("of", len(addresses)))
			return out
		case <-soon:
			s.cfg.Log.Warn("some siblings have not answered; not waiting for them", zap.Int("answered", len(out)), zap.Int("of", len(addresses)))
			return out
		}
		if r.err != nil {
			s.tell("a sibling cannot be asked", r.Address, r.err)
			continue
		}
		if r.Head.Process == s.cfg.Process {
			continue
		}
		if r.err = r.Head.believe(s.cfg.Deployment, time.Now()); r.err != nil {
			s.tell("a sibling is not believed", r.Address, r.err)
			continue
		}
		r.Unfit = r.Head.readable(s.cfg.Keys)
		out = append(out, r.Answer)
		if n, _ := r.Head.holds(s.cfg.Origins); n > 0 && soon == nil {
			t := time.NewTimer(grace)
			defer t.Stop()
			soon = t.C
		}
	}
	return out
}

// tell logs what is wrong with a sibling. That there is none is nothing wrong.
func (s *Search) tell(what, address string, err error) {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound || errors.Is(err, syscall.ECONNREFUSED) {
		s.cfg.Log.Info("a sibling does not answer", zap.String("sibling", address), zap.Error(err))
		return
	}
	s.cfg.Log.Warn(what, zap.String("sibling", address), zap.Error(err))
}

// addresses returns those of the siblings, in random order, so that of equal ones not all ask the
// same.
func (s *Search) addresses(ctx context.Context) (out []string) {
	for _, p := range s.cfg.Peers {
		host, port, err := net.SplitHostPort(p.Address)
		if !p.Each || err != nil {
			out = append(out, p.Address)
			continue
		}
		found, err := s.cfg.Resolve(ctx, host)
		if err != nil {
			s.tell("the siblings' name cannot be resolved", p.Address, err)
		}
		for _, ip := range found {
			out = append(out, net.JoinHostPort(ip, port))
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(len(out), maxPeers)]
}

// head asks one sibling.
func (s *Search) head(ctx context.Context, address string, room *budget) (Head, error) {
	text, err := s.read(ctx, address, headPath, "head", maxHead, room)
	if err != nil {
		return Head{}, err
	}
	memory, err := headBound.Check(text)
	if err == nil {
		err = room.take(memory)
	}
	if err != nil {
		return Head{}, fmt.Errorf("its head cannot be read: %w", err)
	}
	return ParseHead(text)
}

var (
	errBusy    = errors.New("it is busy")
	errUnknown = errors.New("it answers 404 Not Found")
)

func (s *Search) get(ctx context.Context, address, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	_ = resp.Body.Close() // the status says enough
	switch resp.StatusCode {
	case http.StatusServiceUnavailable:
		return nil, errBusy
	case http.StatusNotFound:
		return nil, errUnknown
	}
	return nil, fmt.Errorf("it answers %s", resp.Status)
}

// read gets a short answer of a sibling.
func (s *Search) read(ctx context.Context, address, path, what string, most int64, room *budget) ([]byte, error) {
	resp, err := s.get(ctx, address, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(reader{resp.Body, room}, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("its %s has more than %d bytes", what, most)
	}
	return text, err
}

// Found is something to start with.
type Found struct {
	Content *snapshot.Content
	// From says where it is from, for people.
	From string
}

// Sources yields what can be restored, the best first: of siblings that have answered, then a file.
// It ends when nothing is left, or ctx has ended. The caller stops when it could use one.
func (s *Search) Sources(ctx context.Context, answers []Answer) iter.Seq[Found] {
	return func(yield func(Found) bool) {
		if s.siblings(ctx, answers, yield) && s.cfg.File != "" {
			s.file(ctx, yield)
		}
	}
}

// siblings yields states until nobody is left to ask. It reports whether more are wanted.
func (s *Search) siblings(ctx context.Context, answers []Answer, yield func(Found) bool) bool {
	rest := slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool {
		n, _ := a.Head.holds(s.cfg.Origins)
		if n > 0 && a.Unfit != nil {
			s.cfg.Log.Warn("a sibling's state is unusable", zap.String("sibling", a.Address), zap.Error(a.Unfit))
		}
		return n == 0 || a.Unfit != nil
	})
	fillBy := time.Now().Add(fillWithin)
	if deadline, ok := ctx.Deadline(); ok {
		fillBy = time.Now().Add(time.Until(deadline) / 3)
	}
	for len(rest) > 0 && ctx.Err() == nil {
		var busy []Answer
		for len(rest) > 0 && ctx.Err() == nil {
			var a Answer
			a, rest = s.best(rest)
			began := time.Now()
			c, err := s.fetch(ctx, a, len(rest)+len(busy) == 0 && s.cfg.File == "")
			if errors.Is(err, errBusy) {
				busy = append(busy, a)
				continue
			}
			if err != nil {
				s.cfg.Log.Warn("could not copy the state of a sibling", zap.String("sibling", a.Address), zap.Duration("took", time.Since(began)), zap.Error(err))
				continue
			}
			s.cfg.Log.Info("copied the state of a sibling", zap.String("sibling", a.Address), zap.Int64("bytes", c.Report.Bytes), zap.Duration("took", time.Since(began)))
			s.fill(ctx, fillBy, c, rest)
			if !yield(Found{c, "sibling " + a.Address}) {
				return false
			}
		}
		if rest = busy; len(rest) > 0 && !pause(ctx, busyPause) {
			break
		}
	}
	return true
}

// fill adds to a content what the other siblings have and it lacks, until the time is over: none
// of them serves all clients.
func (s *Search) fill(ctx context.Context, by time.Time, c *snapshot.Content, others []Answer) {
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	for len(others) > 0 && ctx.Err() == nil {
		var a Answer
		a, others = s.best(others)
		other, err := s.fetch(ctx, a, false)
		if err != nil {
			s.cfg.Log.Warn("could not copy further resources of a sibling", zap.String("sibling", a.Address), zap.Error(err))
			continue
		}
		if n := c.Fill(other); n > 0 {
			s.cfg.Log.Info("copied further resources of a sibling", zap.String("sibling", a.Address), zap.Int("resources", n))
		}
	}
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, errBusy):
		return resultBusy
	}
	return resultError
}

// busyPause is how long a process waits if all siblings are busy.
const busyPause = 200 * time.Millisecond

// best returns the sibling to ask next, and the others.
func (s *Search) best(answers []Answer) (best Answer, others []Answer) {
	at := 0
	for i := range answers {
		if s.compare(&answers[i].Head, &answers[at].Head) > 0 {
			at = i
		}
	}
	return answers[at], slices.Concat(answers[:at], answers[at+1:])
}

// compare is more than 0 if a is better than b: if the origin that b was without for longest has
// vouched later for what a holds; else if a holds more.
func (s *Search) compare(a, b *Head) int {
	n, left := a.holds(s.cfg.Origins)
	m, right := b.holds(s.cfg.Origins)
	slices.SortFunc(left, time.Time.Compare)
	slices.SortFunc(right, time.Time.Compare)
	for i := range left {
		if d := left[i].Sub(right[i]); d.Abs() >= step {
			return cmp.Compare(d, 0)
		}
	}
	return cmp.Compare(n, m)
}
